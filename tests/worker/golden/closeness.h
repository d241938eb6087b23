// How close greedy completions are to those of an oracle.
#ifndef PLIMSOLL_TESTS_WORKER_GOLDEN_CLOSENESS_H_
#define PLIMSOLL_TESTS_WORKER_GOLDEN_CLOSENESS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/json.h"

namespace plimsoll::testing {

// Candidates of a first step that are compared.
inline constexpr size_t kTopOfFirstStep = 6;

struct Closeness {
  double prefix = 0;  // sum of matching fractions
  double error = 0;   // sum of first steps' largest errors
  double worst = 0;
  int n = 0;

  void Add(const Closeness& other) {
    prefix += other.prefix;
    error += other.error;
    worst = std::max(worst, other.worst);
    n += other.n;
  }
};

// Log-probabilities by token id.
inline std::map<int64_t, double> CandidatesOf(
    const worker::TokenOutput& token) {
  std::map<int64_t, double> result;
  for (const worker::Candidate& c : token.candidates) {
    result[c.id] = static_cast<double>(c.logprob);
  }
  return result;
}

// The first step's largest error over the oracle's top candidates; a missing
// one counts 1.
inline double FirstStepError(const worker::TokenOutput& token,
                             const Json& step) {
  const auto candidates = CandidatesOf(token);
  double error = 0;
  for (size_t i = 0; i < kTopOfFirstStep; ++i) {
    const auto it = candidates.find(step.at("top").at(i).at(0).get<int64_t>());
    error = std::max(
        error,
        it == candidates.end()
            ? 1.0
            : std::abs(it->second - step.at("top").at(i).at(1).get<double>()));
  }
  return error;
}

// How close an engine's completions are to a golden's.
inline Closeness MeasureCloseness(worker::Engine& engine,
                                  const Json& completions) {
  Closeness sum;
  for (const Json& golden : completions) {
    const Json& steps = golden.at("steps");
    const Generated got = Generate(
        engine, Greedy(golden.at("prompt_ids").get<std::vector<int32_t>>(),
                       static_cast<int64_t>(steps.size())));
    EXPECT_TRUE(got.status.ok()) << got.status;
    if (got.tokens.size() != steps.size()) continue;
    size_t n = 0;
    while (n < steps.size() &&
           got.tokens[n].id == steps.at(n).at("id").get<int64_t>()) {
      ++n;
    }
    const double error = FirstStepError(got.tokens[0], steps[0]);
    sum.Add(
        {.prefix = static_cast<double>(n) / static_cast<double>(steps.size()),
         .error = error,
         .worst = error,
         .n = 1});
  }
  return sum;
}

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_GOLDEN_CLOSENESS_H_
