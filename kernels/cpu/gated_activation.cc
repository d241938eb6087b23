// The activation of the gate, times up.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gated_activation.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cstring>

#include "kernels/cpu/activate-inl.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_groups.h"
#include "kernels/quant/packed_row.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace {

// Elements that stay in the first-level cache until they are packed.
constexpr int64_t kSliceElements = 4096;
static_assert(kSliceElements % kActivationBlock == 0);

}  // namespace

void PackBlocks(const PackActivationsArgs& args, int64_t begin, int64_t end);

namespace {

// Activates elements [begin, end), at most kSliceElements, which lie side by
// side in `gate` and in `up`.
void ActivateSlice(const GatedActivationArgs& args, int64_t begin,
                   int64_t end) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // These are the places of element 0, if there were no gaps before this part.
  const int64_t row = begin / args.dim;
  const float* const gates = args.gate + row * (args.GateStride() - args.dim);
  const float* const ups = args.up + row * (args.UpStride() - args.dim);
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    const auto x = hn::LoadU(d, gates + i);
    const auto up = hn::LoadU(d, ups + i);
    hn::StoreU(Gated(d, x, up, args.activation), d, args.out + i);
  }
  if (args.packed != nullptr) {
    PackBlocks({args.out, args.n_rows, args.dim, args.packed},
               begin / kActivationBlock, end / kActivationBlock);
  }
  if (i == end) return;
  // The tail goes through the same vector operations: a value must not depend
  // on where in the call it stands.
  float gate[16] = {};
  float up[16] = {};
  const auto bytes = static_cast<size_t>(end - i) * sizeof(float);
  std::memcpy(gate, gates + i, bytes);
  std::memcpy(up, ups + i, bytes);
  const auto x = hn::LoadU(d, gate);
  hn::StoreU(Gated(d, x, hn::LoadU(d, up), args.activation), d, gate);
  std::memcpy(args.out + i, gate, bytes);
}

}  // namespace

// Activates elements [begin, end) of all rows; whole blocks if they are packed.
void ActivateRange(const GatedActivationArgs& args, int64_t begin,
                   int64_t end) {
  const bool has_gaps =
      args.GateStride() != args.dim || args.UpStride() != args.dim;
  while (begin < end) {
    int64_t slice_end = std::min(begin + kSliceElements, end);
    if (has_gaps) {
      slice_end = std::min(slice_end, (begin / args.dim + 1) * args.dim);
    }
    ActivateSlice(args, begin, slice_end);
    begin = slice_end;
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(ActivateRange);

void GatedActivation(const GatedActivationArgs& args, int64_t begin,
                     int64_t end) {
  HWY_DYNAMIC_DISPATCH(ActivateRange)(args, begin * args.dim, end * args.dim);
}

void GatedActivation(const GatedActivationArgs& args, ThreadPool& pool) {
  constexpr int64_t kGrain = 4096;
  static_assert(kGrain % kActivationBlock == 0);
  const int64_t grain = args.packed != nullptr && IsGrouped(args.n_rows)
                            ? kGroupRows * args.dim
                            : kGrain;
  pool.ParallelFor(args.n_rows * args.dim, grain,
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(ActivateRange)(args, begin, end);
                   });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
