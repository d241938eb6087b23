// Prefetching of packed weights while others are multiplied.
#ifndef PLIMSOLL_KERNELS_CPU_MAT_MUL_NEXT_CHUNK_H_
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_NEXT_CHUNK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/checked_math.h"
#include "base/dtype.h"
#include "hwy/cache_control.h"
#include "kernels/cpu/mat_mul/panel_pairs.h"
#include "kernels/cpu/pack_weights.h"

namespace plimsoll::kernels::cpu {

// Prefetches the next chunk of weights, a few lines at each step of a chunk's
// products. If all lines were asked for at once, each would wait for the
// others.
class NextChunk {
 public:
  // The next chunk has `n_blocks` blocks of 32 columns from block `first` of
  // `panels` on. There are `n_steps` steps.
  NextChunk(const PanelPair& panels, int64_t first, int64_t n_blocks,
            int64_t n_steps) {
    if (panels[0].IsInFileOrder()) return;  // SliceOf prefetches such panels
    const DTypeInfo& info = InfoOf(panels[0].dtype);
    const bool is_split = panels[0].low != nullptr;
    const int64_t block_bytes =
        is_split ? kHighBlockBytes
                 : info.block_bytes * kPanelRows * 32 / info.block_elems;
    const int64_t low_bytes = is_split ? kNibblesBytes : 0;
    low_begin_ = n_blocks * block_bytes;
    end_ = low_begin_ + n_blocks * low_bytes;
    step_ = CeilDiv(CeilDiv(end_, kLine), n_steps) * kLine;
    for (size_t p = 0; p < kPanels; ++p) {
      blocks_[p] = panels[p].blocks + first * block_bytes;
      if (is_split) low_[p] = panels[p].low + first * low_bytes;
    }
  }

  HWY_INLINE void Step() {
    const int64_t step_end = std::min(at_ + step_, end_);
    for (; at_ < step_end; at_ += kLine) {
      for (size_t p = 0; p < kPanels; ++p) {
        hwy::Prefetch(at_ < low_begin_ ? blocks_[p] + at_
                                       : low_[p] + (at_ - low_begin_));
      }
    }
  }

 private:
  static constexpr size_t kPanels = kPairPanels;
  static constexpr int64_t kLine = 64;
  // The bytes of both panels are counted together: [0, low_begin_) are blocks,
  // and [low_begin_, end_) are low parts.
  const uint8_t* blocks_[kPanels] = {};
  const uint8_t* low_[kPanels] = {};
  int64_t low_begin_ = 0;
  int64_t end_ = 0;
  int64_t step_ = 0;
  int64_t at_ = 0;
};

}  // namespace plimsoll::kernels::cpu

#endif  // PLIMSOLL_KERNELS_CPU_MAT_MUL_NEXT_CHUNK_H_
