// Measures an engine's rates on this machine, and the memory bandwidth.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_MEASURE_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_MEASURE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/engine/engine.h"

namespace plimsoll::cli {

// Tokens of the prompt before a decode, and of the first request's prompt.
inline constexpr int64_t kShortPrompt = 16;

// The number of measurements of a rate; the median is the result.
struct Repeats {
  int64_t n = 3;
  // No further measurement begins once all measurements together have taken
  // this long.
  absl::Duration limit = absl::Seconds(1);
};

// Returns the time from now to the first token after a short prompt.
// Errors: those of the engine; an interruption.
absl::StatusOr<absl::Duration> FirstToken(worker::Engine& engine);

// Tokens per second of a prompt of `n_tokens`.
// Errors: those of the engine (kOutOfRange beyond its context); an
// interruption.
absl::StatusOr<double> PrefillRate(worker::Engine& engine, int64_t n_tokens,
                                   const Repeats& repeats);

// Which logits a decode computes.
enum class Logits {
  kLargest,  // logits that a greedy draw needs
  kAll,      // all logits, for log-probabilities
};

// Sequences that decode at the same time.
struct Decoding {
  int64_t n_sequences = 1;
  int64_t n_prompt = kShortPrompt;  // tokens of each prompt
  int64_t n_tokens = 2;             // tokens that each sequence generates
  Logits logits = Logits::kLargest;
};

// Tokens per second of all sequences together. They have fewer tokens if the
// context fills up. decoding.n_tokens is at least 2.
// Errors: those of the engine; kOutOfRange if the context is full at once; an
// interruption.
absl::StatusOr<double> DecodeRate(worker::Engine& engine,
                                  const Decoding& decoding,
                                  const Repeats& repeats);

// Tokens per second of one sequence that generates `n_tokens` >= 2 after a
// prompt of each length in `positions`. Each result is the median of `n_runs`
// runs; the positions take turns, so that a disturbance affects all of them.
// Errors: those of DecodeRate.
absl::StatusOr<std::map<int64_t, double>> DecodeRatesAt(
    worker::Engine& engine, const std::vector<int64_t>& positions,
    int64_t n_tokens, int64_t n_runs);

// Bytes per second at which `n_threads` threads (0 = UsableThreads()) read a
// buffer of `n_bytes`. It is the best of a few runs, because other processes
// can only slow them down.
// Errors: kResourceExhausted if there is no memory for it.
absl::StatusOr<double> ReadBandwidth(int64_t n_bytes, int n_threads);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_MEASURE_H_
