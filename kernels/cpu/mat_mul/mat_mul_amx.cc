// Integer products of many rows on AMX, where CPU and system allow it.
//
// The bound is an estimate; it was not measured. 8,192 multiply-adds (16 rows,
// 16 outputs, 32 columns) are two products of tiles, which take 32 cycles, and
// storing their sums takes as many; VNNI takes 128 cycles at its peak.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mat_mul/mat_mul_amx.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <cstdint>

#include "base/status_macros.h"
#include "kernels/cpu/mat_mul/mat_mul_tiles-inl.h"
#include "kernels/cpu/ops.h"

#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",amx-tile,amx-int8")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3_DL
namespace {

// Gives names to the unit's eight tiles, of which the compiler does not know.
class AmxTiles {
 public:
  explicit AmxTiles(int64_t n_columns) {
    struct {
      uint8_t palette = 1;
      uint8_t start_row = 0;
      uint8_t reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    static_assert(sizeof(config) == 64);
    for (int t = 0; t < 8; ++t) {
      const bool is_input = t == kHighBytes || t == kLowBytes;
      config.row_bytes[t] =
          is_input ? static_cast<uint16_t>(n_columns) : uint16_t{64};
      config.rows[t] =
          t < kWeights ? uint8_t{16} : static_cast<uint8_t>(n_columns / 4);
    }
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  ~AmxTiles() { asm volatile("tilerelease"); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  template <int kTile>
  void Zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  void Load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(from), "r"(stride), "i"(kTile)
                 : "memory");
  }
  // sums += inputs * weights, all bytes signed.
  template <int kSums, int kInputs, int kW>
  void AddSigned() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0"
                 :
                 : "i"(kSums), "i"(kInputs), "i"(kW));
  }
  // sums += inputs * weights, inputs unsigned and weights signed.
  template <int kSums, int kInputs, int kW>
  void AddUnsigned() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0"
                 :
                 : "i"(kSums), "i"(kInputs), "i"(kW));
  }
  template <int kTile>
  void Store(TileSums& to) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
                 :
                 : "r"(&to), "r"(int64_t{64}), "i"(kTile)
                 : "memory");
  }
};

}  // namespace

void MatMulAmxHere(const MatMulArgs& args, int64_t begin, int64_t end) {
  MultiplyOnTiles<AmxTiles>(args, begin, end);
}
#else
void MatMulAmxHere(const MatMulArgs& /*args*/, int64_t /*begin*/,
                   int64_t /*end*/) {
  PLIMSOLL_CHECK(false, "only the path AVX3_DL has AMX beside it");
}
#endif

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(MatMulAmxHere);

void MatMulAmx(const MatMulArgs& args, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(MatMulAmxHere)(args, begin, end);
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
