// Instruction paths by name, on top of Highway's own detection, which asks
// the operating system's state mask (XCR0) as well as the CPU.
#include "kernels/cpu/target.h"

#include "kernels/cpu/targets-inl.h"
//
#include "hwy/targets.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/cpu/amx_probe.h"

namespace plimsoll::kernels {
namespace {

#if defined(__x86_64__)
// True if the CPU has integer products of 256 bits, even without AVX-512.
// Builds of clang have no kernels for them (pairs-inl.h).
bool HasAvxVnni() {
  if (HWY_COMPILER_GCC_ACTUAL == 0) return false;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kAvxVnni = 1u << 4;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvxVnni) != 0;
}
#else
bool HasAvxVnni() { return false; }
#endif

bool HasAmx() { return ProbeAmx() == AmxState::kRuns; }

bool Always() { return true; }

struct ExtraFact {
  PathExtra extra;
  absl::string_view base;
  absl::string_view suffix;
  bool (*is_there)();
};
constexpr ExtraFact kExtras[] = {
    {PathExtra::kAmx, "AVX3_DL", "_AMX", HasAmx},
    {PathExtra::kWinograd, "AVX3_DL", "_WINOGRAD", Always},
    {PathExtra::kAvxVnni, "AVX2", "_VNNI", HasAvxVnni},
};

struct Path {
  std::string name;
  int64_t target;  // Highway's
  PathExtra extra;
};

// The paths that this CPU and its operating system allow: the best vectors
// first, and among paths with the same vectors the one expected to be fastest.
const std::vector<Path>& Paths() {
  static const auto* const paths = [] {
    auto* made = new std::vector<Path>;
    const int64_t allowed = hwy::SupportedTargets() | HWY_STATIC_TARGET;
    for (int bit = 0; bit < 62; ++bit) {
      const int64_t target = int64_t{1} << bit;
      if ((HWY_TARGETS & allowed & target) == 0) continue;
      const std::string name = hwy::TargetName(target);
      for (const ExtraFact& fact : kExtras) {
        if (fact.base != name || !fact.is_there()) continue;
        made->push_back({absl::StrCat(name, fact.suffix), target, fact.extra});
      }
      made->push_back({name, target, PathExtra::kNone});
    }
    return made;
  }();
  return *paths;
}

std::atomic<const Path*>& PathInUse() {
  static std::atomic<const Path*> in_use{&Paths().front()};
  return in_use;
}

// Says whether the path in use was chosen, by name or by its time.
struct Choice {
  std::mutex mutex;
  bool is_made = false;  // under the mutex
};
Choice& TheChoice() {
  static auto* const choice = new Choice;
  return *choice;
}

}  // namespace

bool Uses(PathExtra extra) {
  return PathInUse().load(std::memory_order_relaxed)->extra == extra;
}

bool UsesVnni512() {
  const Path* path = PathInUse().load(std::memory_order_relaxed);
  return path->target == HWY_AVX3_DL && path->extra != PathExtra::kAmx;
}

std::vector<std::string> AvailableCpuTargets() {
  std::vector<std::string> names;
  for (const Path& path : Paths()) names.push_back(path.name);
  return names;
}

std::string CpuTarget() { return PathInUse().load()->name; }

std::string CpuVectors() { return hwy::TargetName(PathInUse().load()->target); }

void ChooseCpuTarget(absl::FunctionRef<double()> seconds) {
  constexpr int kRounds = 5;
  Choice& choice = TheChoice();
  const std::lock_guard lock(choice.mutex);
  if (choice.is_made) return;
  choice.is_made = true;
  std::vector<std::pair<double, const Path*>> candidates;
  for (const Path& path : Paths()) {
    if (path.target != PathInUse().load()->target) continue;
    candidates.emplace_back(std::numeric_limits<double>::infinity(), &path);
  }
  if (candidates.size() == 1) return;
  for (int round = 0; round < kRounds; ++round) {
    for (auto& [least, path] : candidates) {
      PathInUse().store(path);
      least = std::min(least, seconds());
    }
  }
  const auto by_time = [](const auto& a, const auto& b) {
    return a.first < b.first;
  };
  PathInUse().store(
      std::min_element(candidates.begin(), candidates.end(), by_time)->second);
}

absl::Status SetCpuTarget(absl::string_view name) {
  Choice& choice = TheChoice();
  const std::lock_guard lock(choice.mutex);
  for (const Path& path : Paths()) {
    if (!name.empty() && name != path.name) continue;
    hwy::GetChosenTarget().Update(path.target);
    PathInUse().store(&path);
    choice.is_made = !name.empty();
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      absl::StrCat("this CPU has no instruction path \"", name, "\""));
}

std::string CpuBrand() {
#if defined(__x86_64__)
  unsigned registers[12] = {};
  for (unsigned i = 0; i < 3; ++i) {
    unsigned* r = registers + 4 * i;
    if (__get_cpuid(0x80000002u + i, &r[0], &r[1], &r[2], &r[3]) == 0) {
      return "x86-64";
    }
  }
  char brand[sizeof(registers) + 1] = {};
  std::memcpy(brand, registers, sizeof(registers));
  return std::string(absl::StripAsciiWhitespace(brand));
#else
  return "CPU";
#endif
}

}  // namespace plimsoll::kernels
