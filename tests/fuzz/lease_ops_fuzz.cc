// Bytes as a script of calls on the lease book, against its naive model.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status_macros.h"
#include "tests/planner/lease/lease_script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int kMaxSteps = 2'000;
  size_t at = 0;
  plimsoll::planner::LeaseScript script([&](int64_t n) -> int64_t {
    if (at >= size) return 0;
    int64_t value = data[at++];
    if (n > 256 && at < size) value = value * 256 + data[at++];
    return value % n;
  });
  for (int i = 0; i < kMaxSteps && at < size; ++i) {
    const std::string failure = script.Step();
    PLIMSOLL_CHECK(failure.empty(), failure.c_str());
  }
  return 0;
}
