// Instruction paths by name, on top of Highway's own detection, which asks
// the operating system's state mask (XCR0) as well as the CPU.
#include "kernels/cpu/target.h"

#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/target.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {
const char* PathName() { return hwy::TargetName(HWY_TARGET); }
}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace plimsoll::kernels {

HWY_EXPORT(PathName);

namespace {

// Beside the path that it begins with, for products of many rows.
constexpr char kAmxPath[] = "AVX3_DL+AMX";
constexpr char kVnniPath[] = "AVX3_DL";

#if defined(__x86_64__)
// Tiles of bytes, a system that saves their state, and its permission for this
// process: systems announce what they then may refuse.
bool AskForAmx() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kAmxTileAndInt8 = 3u << 24;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kAmxTileAndInt8) != kAmxTileAndInt8) return false;
  constexpr unsigned kOsxsave = 1u << 27;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsxsave) == 0) return false;
  unsigned low = 0;
  unsigned high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTileStates = 3u << 17;
  if ((low & kTileStates) != kTileStates) return false;
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#else
bool AskForAmx() { return false; }
#endif

bool HasAmx() {
  static const bool has =
      (hwy::SupportedTargets() & HWY_AVX3_DL) != 0 && AskForAmx();
  return has;
}

std::atomic<bool>& AmxInUse() {
  static std::atomic<bool> in_use{HasAmx()};
  return in_use;
}

}  // namespace

bool UsesAmx() { return AmxInUse().load(std::memory_order_relaxed); }

std::vector<std::string> AvailableCpuTargets() {
  const int64_t allowed = hwy::SupportedTargets();
  std::vector<std::string> names;
  if (HasAmx()) names.emplace_back(kAmxPath);
  for (int bit = 0; bit < 62; ++bit) {
    const int64_t target = int64_t{1} << bit;
    if ((HWY_TARGETS & target) == 0) continue;
    if ((allowed & target) == 0 && target != HWY_STATIC_TARGET) continue;
    names.emplace_back(hwy::TargetName(target));
  }
  return names;
}

std::string CpuTarget() {
  return UsesAmx() ? kAmxPath : HWY_DYNAMIC_DISPATCH(PathName)();
}

absl::Status SetCpuTarget(absl::string_view name) {
  hwy::SetSupportedTargetsForTest(0);
  const bool with_amx = HasAmx() && (name.empty() || name == kAmxPath);
  if (with_amx) name = kVnniPath;
  int64_t chosen = hwy::SupportedTargets();
  if (!name.empty()) {
    const int64_t allowed = chosen | HWY_STATIC_TARGET;
    chosen = 0;
    for (int bit = 0; bit < 62; ++bit) {
      const int64_t target = int64_t{1} << bit;
      if ((HWY_TARGETS & allowed & target) != 0 &&
          name == hwy::TargetName(target)) {
        chosen = target;
      }
    }
    if (chosen == 0) {
      return absl::NotFoundError(
          absl::StrCat("this CPU has no instruction path \"", name, "\""));
    }
  }
  hwy::GetChosenTarget().Update(chosen);
  AmxInUse().store(with_amx, std::memory_order_relaxed);
  return absl::OkStatus();
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
#endif  // HWY_ONCE
