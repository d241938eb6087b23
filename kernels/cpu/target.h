// The instruction path that the CPU backend runs.
#ifndef PLIMSOLL_KERNELS_CPU_TARGET_H_
#define PLIMSOLL_KERNELS_CPU_TARGET_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace plimsoll::kernels {

// Names of the paths that this CPU and its operating system allow, best first.
std::vector<std::string> AvailableCpuTargets();

// The path in use.
std::string CpuTarget();

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

// Uses the path `name` from now on in the whole process, or the best one if
// `name` is empty. Not while a backend runs; for tests and benchmarks.
// Errors: kNotFound if it is not one of AvailableCpuTargets().
absl::Status SetCpuTarget(absl::string_view name);

// The vendor's name of this CPU.
std::string CpuBrand();

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CPU_TARGET_H_
