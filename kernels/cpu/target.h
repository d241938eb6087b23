// The instruction path that the CPU backend runs.
#ifndef PLIMSOLL_KERNELS_CPU_TARGET_H_
#define PLIMSOLL_KERNELS_CPU_TARGET_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace plimsoll::kernels {

// Names of the paths that this CPU and its operating system allow. The best
// vectors come first; among paths with the same vectors, the one that is
// expected to be the fastest comes first (ChooseCpuTarget measures it).
std::vector<std::string> AvailableCpuTargets();

// The path in use.
std::string CpuTarget();

// The vectors of the path in use. No measurement changes them, so they tell
// machines apart in every process.
std::string CpuVectors();

// What some CPUs have in addition to a path's vectors.
enum class PathExtra {
  kNone,
  kAmx,       // tiles, for products of many rows
  kWinograd,  // more vector adders than multipliers, with VNNI
  kAvxVnni,   // integer products without AVX-512
};

// True if the path in use has `extra`. For kernels.
bool Uses(PathExtra extra);

// True if the path in use has integer products of AVX-512 with VNNI but no
// tiles. For kernels.
bool UsesVnni512();

// Several paths use the same vectors and give the same bits. This chooses the
// fastest of them: it calls `seconds` several times with each of these paths in
// use, and compares the shortest times. It does so only once in a process, and
// not where SetCpuTarget chose a path by name. Thread-safe, but not while a
// backend computes.
void ChooseCpuTarget(absl::FunctionRef<double()> seconds);

// Uses the path `name` from now on in the whole process. If `name` is empty,
// uses the first path until ChooseCpuTarget. Not while a backend runs; for
// tests and benchmarks.
// Errors: kNotFound if `name` is not one of AvailableCpuTargets().
absl::Status SetCpuTarget(absl::string_view name);

// The vendor's name of this CPU.
std::string CpuBrand();

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CPU_TARGET_H_
