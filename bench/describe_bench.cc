// How long does it take to describe a model, and how much memory? Reads the
// header of a real file, whose strings it skips, over and over; the first time
// may wait for the disk, the others do not.
//
// usage: describe_bench FILE
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "absl/time/clock.h"
#include "planner/model/model_shape.h"
#include "worker/device/model_file.h"

namespace plimsoll {
namespace {

// The most memory that this process ever had, in KiB.
int64_t PeakKib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

int Main(const char* path) {
  std::array<double, 101> millis = {};
  const int64_t before = PeakKib();
  for (double& time : millis) {
    const absl::Time start = absl::Now();
    const auto header = worker::ModelFile::ReadHeader(path);
    const auto shape =
        header.ok() ? planner::ShapeFromGguf(*header) : header.status();
    if (!shape.ok()) {
      std::fprintf(stderr, "%s: %s\n", path, shape.status().ToString().c_str());
      return 1;
    }
    time = absl::ToDoubleMilliseconds(absl::Now() - start);
  }
  const double first = millis[0];
  std::sort(millis.begin(), millis.end());
  std::printf("first %.2f ms, then %.2f ms in the middle and %.2f at best; ",
              first, millis[millis.size() / 2], millis[0]);
  std::printf("peak RSS grew by %.1f MiB\n",
              static_cast<double>(PeakKib() - before) / 1024);
  return 0;
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  if (argc == 2) return plimsoll::Main(argv[1]);
  std::fprintf(stderr, "usage: describe_bench FILE\n");
  return 2;
}
