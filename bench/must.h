// A benchmark goes on only with what worked.
#ifndef PLIMSOLL_BENCH_MUST_H_
#define PLIMSOLL_BENCH_MUST_H_

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace plimsoll::bench {

// Ends the process with the error, if there is one.
inline void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "error: %s\n", status.ToString().c_str());
  std::exit(1);
}

template <class T>
T Must(absl::StatusOr<T> result) {
  Must(result.status());
  return *std::move(result);
}

}  // namespace plimsoll::bench

#endif  // PLIMSOLL_BENCH_MUST_H_
