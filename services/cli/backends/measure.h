// What an engine does on this machine, measured: rates, and what memory gives.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_MEASURE_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_MEASURE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/engine/engine.h"

namespace plimsoll::cli {

// Tokens of the prompts before a decode, and of the first request.
inline constexpr int64_t kShortPrompt = 16;

// How often a figure is taken; the median counts.
struct Repeats {
  int64_t n = 3;
  // No further one once they took so long together.
  absl::Duration limit = absl::Seconds(1);
};

// When the first token after a short prompt came, from now on.
// Errors: those of the engine; an interruption.
absl::StatusOr<absl::Duration> FirstToken(worker::Engine& engine);

// Tokens per second of a prompt of `n_tokens`.
// Errors: those of the engine (kOutOfRange beyond its context); an
// interruption.
absl::StatusOr<double> PrefillRate(worker::Engine& engine, int64_t n_tokens,
                                   const Repeats& repeats);

// What a decode computes of the logits.
enum class Logits {
  kLargest,  // what a greedy draw looks at
  kAll,      // as log-probabilities need them
};

// Tokens per second of all of `n_sequences` that generate `n_tokens` >= 2 each
// at once, after short prompts; fewer where the context is full.
// Errors: those of the engine; kOutOfRange if the context is full at once; an
// interruption.
absl::StatusOr<double> DecodeRate(worker::Engine& engine, int64_t n_sequences,
                                  int64_t n_tokens, Logits logits,
                                  const Repeats& repeats);

// Tokens per second of one sequence that generates `n_tokens` >= 2 after a
// prompt of so many tokens, for each of `positions`: the median of `n_runs`
// runs, in which they take turns, so that what disturbs one disturbs all.
// Errors: as DecodeRate.
absl::StatusOr<std::map<int64_t, double>> DecodeRatesAt(
    worker::Engine& engine, const std::vector<int64_t>& positions,
    int64_t n_tokens, int64_t n_runs);

// Bytes per second at which `n_threads` threads (0 = UsableThreads()) read a
// buffer of `n_bytes`, the best of a few times: others only take away.
// Errors: kResourceExhausted if there is no memory for it.
absl::StatusOr<double> ReadBandwidth(int64_t n_bytes, int n_threads);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_MEASURE_H_
