// The gated half of a feed-forward network for many rows. Gate and up are
// multiplied panel beside panel, and their outputs are gated and packed before
// they leave the second-level cache. The bits are those of the two products and
// the activation one after the other.
//
// Measured on a Zen 5: prompts of a 4B model are 1.02 times as fast as with
// outputs (42 MB a layer for 512 rows) that go to memory and come back.
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_groups.h"

namespace plimsoll::kernels::cpu {

bool FusesGatedMatMul(const GatedMatMulArgs& args) {
  return args.packed != nullptr && !args.keeps_floats && IsInteger(args.gate) &&
         args.up.w.dtype == args.gate.w.dtype && IsGrouped(args.gate.n_rows);
}

const std::byte* GatedMatMul(const GatedMatMulArgs& args, ThreadPool& pool) {
  const int64_t n_panels = Panels(args.gate.w);
  auto* const packed = reinterpret_cast<std::byte*>(args.gate.out);
  pool.ParallelFor(n_panels, PanelGrain(n_panels, 8, pool.n_threads()),
                   [&](int64_t begin, int64_t end, int) {
                     GatedMatMulMany(args, packed, begin, end);
                   });
  return packed;
}

}  // namespace plimsoll::kernels::cpu
