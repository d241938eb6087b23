#include "services/cli/backends/measure.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cpu/read_bandwidth.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/memory.h"
#include "services/cli/backends/waiting_sink.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/host/clock.h"
#include "worker/device/host_resources.h"

namespace plimsoll::cli {
namespace {

// Control tokens are among the first ids. Which of the others a prompt has does
// not change the work.
constexpr int32_t kFirstOrdinary = 1'000;

std::vector<int32_t> RandomPrompt(int64_t n, int32_t vocab_size,
                                  uint64_t seed) {
  std::mt19937_64 random(seed);
  const int32_t first = std::min(kFirstOrdinary, vocab_size / 2);
  const auto n_ordinary = static_cast<uint64_t>(vocab_size - first);
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int32_t& id : ids) {
    id = first + static_cast<int32_t>(random() % n_ordinary);
  }
  return ids;
}

// Starts one sequence of `decoding`.
absl::StatusOr<std::shared_ptr<WaitingSink>> Start(worker::Engine& engine,
                                                   const Decoding& decoding,
                                                   uint64_t seed) {
  worker::GenerateOptions options;
  options.prompt_ids =
      RandomPrompt(decoding.n_prompt, engine.tokenizer().vocab_size(), seed);
  options.max_tokens = decoding.n_tokens;
  options.sampling.temperature = 0;
  if (decoding.logits == Logits::kAll) options.top_logprobs = 0;
  options.ignore_eos = true;
  auto waiter = std::make_shared<WaitingSink>();
  RETURN_IF_ERROR(engine.Submit(std::move(options), waiter));
  return waiter;
}

double MedianOf(std::vector<double> found) {
  const auto middle = found.begin() + static_cast<int64_t>(found.size() / 2);
  std::nth_element(found.begin(), middle, found.end());
  return *middle;
}

// Returns the median of the values of `take`, measured as Repeats says.
absl::StatusOr<double> Median(
    const Repeats& repeats,
    absl::FunctionRef<absl::StatusOr<double>(uint64_t seed)> take) {
  const absl::Time begin = services::BootTime();
  std::vector<double> found;
  for (int64_t i = 0; i < repeats.n; ++i) {
    ASSIGN_OR_RETURN(found.emplace_back(), take(static_cast<uint64_t>(i)));
    if (services::BootTime() - begin > repeats.limit) break;
  }
  return MedianOf(std::move(found));
}

// Returns the tokens per second of all sequences of `decoding` together.
absl::StatusOr<double> DecodeOnce(worker::Engine& engine,
                                  const Decoding& decoding, uint64_t seed) {
  std::vector<std::shared_ptr<WaitingSink>> waiters;
  for (int64_t i = 0; i < decoding.n_sequences; ++i) {
    ASSIGN_OR_RETURN(waiters.emplace_back(),
                     Start(engine, decoding,
                           seed * static_cast<uint64_t>(decoding.n_sequences) +
                               static_cast<uint64_t>(i)));
  }
  absl::Duration decode;
  int64_t n_decoded = 0;
  for (const auto& waiter : waiters) {
    ASSIGN_OR_RETURN(const worker::FinishInfo info, waiter->Wait());
    decode = std::max(decode, info.decode);
    // The first token of each sequence came before the decode began.
    n_decoded += info.n_generated - 1;
  }
  if (n_decoded == 0) {
    return absl::OutOfRangeError(absl::StrCat("a context of ", engine.n_ctx(),
                                              " tokens has no room to "
                                              "decode; make --n-ctx larger"));
  }
  return static_cast<double>(n_decoded) / absl::ToDoubleSeconds(decode);
}

}  // namespace

absl::StatusOr<absl::Duration> FirstToken(worker::Engine& engine) {
  ASSIGN_OR_RETURN(const auto waiter, Start(engine, {.n_tokens = 1}, 0));
  ASSIGN_OR_RETURN(const worker::FinishInfo info, waiter->Wait());
  return info.first_token;
}

absl::StatusOr<double> PrefillRate(worker::Engine& engine, int64_t n_tokens,
                                   const Repeats& repeats) {
  return Median(repeats, [&](uint64_t seed) -> absl::StatusOr<double> {
    ASSIGN_OR_RETURN(
        const auto waiter,
        Start(engine, {.n_prompt = n_tokens, .n_tokens = 1}, seed));
    ASSIGN_OR_RETURN(const worker::FinishInfo info, waiter->Wait());
    return static_cast<double>(n_tokens) / absl::ToDoubleSeconds(info.prefill);
  });
}

absl::StatusOr<double> DecodeRate(worker::Engine& engine,
                                  const Decoding& decoding,
                                  const Repeats& repeats) {
  return Median(repeats, [&](uint64_t seed) {
    return DecodeOnce(engine, decoding, seed);
  });
}

absl::StatusOr<std::map<int64_t, double>> DecodeRatesAt(
    worker::Engine& engine, const std::vector<int64_t>& positions,
    int64_t n_tokens, int64_t n_runs) {
  std::map<int64_t, std::vector<double>> found;
  for (int64_t i = 0; i < n_runs; ++i) {
    for (const int64_t position : positions) {
      ASSIGN_OR_RETURN(
          found[position].emplace_back(),
          DecodeOnce(engine, {.n_prompt = position, .n_tokens = n_tokens},
                     static_cast<uint64_t>(i)));
    }
  }
  std::map<int64_t, double> rates;
  for (auto& [position, all] : found) {
    rates[position] = MedianOf(std::move(all));
  }
  return rates;
}

absl::StatusOr<double> ReadBandwidth(int64_t n_bytes, int n_threads) {
  constexpr int kTimes = 5;
  ASSIGN_OR_RETURN(
      const kernels::Buffer buffer,
      kernels::AllocateHuge(n_bytes, [](std::byte* data, int64_t bytes) {
        std::memset(data, 1, static_cast<size_t>(bytes));
      }));
  auto* const words = reinterpret_cast<uint64_t*>(buffer.data());
  const auto n_words = static_cast<size_t>(n_bytes) / sizeof(uint64_t);
  kernels::ThreadPool pool(n_threads > 0 ? n_threads : worker::UsableThreads());
  double best = 0;
  for (int i = 0; i < kTimes; ++i) {
    if (Interrupted()) return InterruptedError();
    const absl::Time begin = services::BootTime();
    // The result is stored, because the compiler could otherwise drop the
    // reading.
    words[0] = kernels::ReadAll({words, n_words}, pool);
    best =
        std::max(best, static_cast<double>(n_bytes) /
                           absl::ToDoubleSeconds(services::BootTime() - begin));
  }
  return best;
}

}  // namespace plimsoll::cli
