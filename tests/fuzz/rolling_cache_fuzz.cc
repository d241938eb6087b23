// Bytes as sizes of a rolling cache and a script of turns and steps, against a
// plain list of the tokens that are alive.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status_macros.h"
#include "tests/worker/cache/rolling_cache_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using plimsoll::testing::RollingCacheModel;
  constexpr int64_t kPageTokens = 64;
  constexpr int64_t kMaxTokens = 1'000;
  size_t at = 0;
  // One of the `n` numbers from `least` on, as the next byte says.
  const auto next = [&](int64_t least, int64_t n) {
    const int64_t byte = at < size ? data[at++] : 0;
    return least + byte * n / 256;
  };
  const int64_t n_ctx = next(3 * kPageTokens, 129);
  // The pinned tokens leave two pages.
  const int64_t most_pins = (n_ctx / kPageTokens - 2) * kPageTokens;
  RollingCacheModel rolling({.n_ctx = n_ctx,
                             .window = next(1, n_ctx),
                             .pin_tokens = next(0, most_pins + 1),
                             .evict_to = next(1, n_ctx)});
  while (at < size && rolling.length() < kMaxTokens) {
    const int64_t n_rows = next(0, 200);
    if (n_rows == 0) {
      rolling.BeginTurn();
      continue;
    }
    const std::string wrong = rolling.Step(n_rows);
    PLIMSOLL_CHECK(wrong.empty(), wrong.c_str());
  }
  return 0;
}
