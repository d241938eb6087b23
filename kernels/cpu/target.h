// The instruction path that the CPU backend runs.
#ifndef PLIMSOLL_KERNELS_CPU_TARGET_H_
#define PLIMSOLL_KERNELS_CPU_TARGET_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace plimsoll::kernels {

// Names of the paths that this CPU and its operating system allow: the best
// vectors first, and of those with the same ones first what is expected to be
// the fastest (ChooseCpuTarget knows).
std::vector<std::string> AvailableCpuTargets();

// The path in use.
std::string CpuTarget();

// Its vectors alone, which facts of the CPU decide and no measurement: what a
// machine is told by in every process.
std::string CpuVectors();

// What some CPUs have beside a path of vectors.
enum class PathExtra {
  kNone,
  kAmx,       // tiles, for products of many rows
  kWinograd,  // more vector adders than multipliers, with VNNI
  kAvxVnni,   // integer products without AVX-512
};

// Whether the path in use has it. For kernels.
bool Uses(PathExtra extra);

// Whether the path in use has integer products of AVX-512 with VNNI, and none
// of tiles. For kernels.
bool UsesVnni512();

// Several paths use the same vectors and give the same bits. This chooses the
// fastest of them: it calls `seconds` some times with each path in use and
// compares the least times. It does so only the first time in a process, and
// not where SetCpuTarget chose a path by name. Thread-safe, but not while a
// backend computes.
void ChooseCpuTarget(absl::FunctionRef<double()> seconds);

// Uses the path `name` from now on in the whole process, or if `name` is empty
// the first one, until ChooseCpuTarget. Not while a backend runs; for tests and
// benchmarks.
// Errors: kNotFound if it is not one of AvailableCpuTargets().
absl::Status SetCpuTarget(absl::string_view name);

// The vendor's name of this CPU.
std::string CpuBrand();

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CPU_TARGET_H_
