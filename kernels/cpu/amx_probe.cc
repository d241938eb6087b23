#include "kernels/cpu/amx_probe.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdint>

#include "kernels/cpu/trap_probe.h"

namespace plimsoll::kernels {

#if defined(__x86_64__)
namespace {

bool IsAnnounced() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kAmxTileAndInt8 = 3u << 24;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
         (d & kAmxTileAndInt8) == kAmxTileAndInt8;
}

bool IsSaved() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kOsxsave = 1u << 27;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsxsave) == 0) return false;
  unsigned low = 0;
  unsigned high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTileStates = 3u << 17;
  return (low & kTileStates) == kTileStates;
}

bool IsAllowed() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Makes one product of bytes, in tiles of 16 rows of 64 bytes.
void MultiplyTiles() {
  struct {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64};
    uint8_t rows[16] = {16, 16, 16};
  } config;
  static_assert(sizeof(config) == 64);
  asm volatile(
      "ldtilecfg %0\n\t"
      "tilezero %%tmm0\n\t"
      "tilezero %%tmm1\n\t"
      "tilezero %%tmm2\n\t"
      "tdpbssd %%tmm2, %%tmm1, %%tmm0\n\t"
      "tilerelease"
      :
      : "m"(config));
}

}  // namespace

AmxState ProbeAmx() {
  if (!IsAnnounced()) return AmxState::kAbsent;
  if (!IsSaved()) return AmxState::kNotSaved;
  if (!IsAllowed()) return AmxState::kNotAllowed;
  return RunsWithoutTrap(MultiplyTiles) ? AmxState::kRuns : AmxState::kTraps;
}
#else
AmxState ProbeAmx() { return AmxState::kAbsent; }
#endif

}  // namespace plimsoll::kernels
