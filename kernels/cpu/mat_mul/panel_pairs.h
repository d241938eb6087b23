// Panels of weights in pairs, as MatMulMany multiplies them.
#ifndef PLIMSOLL_KERNELS_CPU_MAT_MUL_PANEL_PAIRS_H_
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_PANEL_PAIRS_H_

#include <array>
#include <cstdint>

#include "base/checked_math.h"
#include "kernels/backend.h"
#include "kernels/cpu/pack_weights.h"

namespace plimsoll::kernels::cpu {

inline constexpr int kPairPanels = 2;

// Panels that are multiplied together.
using PanelPair = std::array<PanelData, kPairPanels>;

// The pairs of panels [begin, end) of a matrix, which are multiplied with rows
// [first_row, end_row).
struct OutputPairs {
  const MatMulArgs& args;
  int64_t first_row;
  int64_t end_row;
  int64_t begin;
  int64_t end;

  int64_t n() const { return CeilDiv(end - begin, kPairPanels); }
  // A last panel without a partner is multiplied twice; the second result is
  // not used.
  PanelPair At(int64_t i) const {
    const int64_t p = begin + i * kPairPanels;
    return PanelPair{PanelOf(args.w, p),
                     PanelOf(args.w, p + 1 == end ? p : p + 1)};
  }
  // Prefetches the outputs of pair i.
  void PrepareOutputs(int64_t i) const {
    const int64_t panel = begin + i * kPairPanels;
    for (int64_t m = first_row; m < end_row; ++m) {
      const float* out = args.out + m * args.w.rows + panel * kPanelRows;
      __builtin_prefetch(out, 1, 2);
      __builtin_prefetch(out + kPanelRows, 1, 2);
    }
  }
};

// The pairs of panels [begin, end) of two matrices whose outputs are gated. The
// matrices take turns.
struct GatedPairs {
  const GatedMatMulArgs& args;
  int64_t begin;
  int64_t end;

  int64_t n() const { return end - begin; }
  PanelPair At(int64_t i) const {
    const WeightMatrix& w = i % 2 == 0 ? args.gate.w : args.up.w;
    const int64_t p = begin + i / 2 * kPairPanels;
    return PanelPair{PanelOf(w, p), PanelOf(w, p + 1)};
  }
  // The outputs do not go to memory.
  void PrepareOutputs(int64_t /*i*/) const {}
};

}  // namespace plimsoll::kernels::cpu

#endif  // PLIMSOLL_KERNELS_CPU_MAT_MUL_PANEL_PAIRS_H_
