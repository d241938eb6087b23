// A small model with every kind of memory that a context has.
#ifndef PLIMSOLL_TESTS_WORKER_CACHE_MIXED_SHAPE_H_
#define PLIMSOLL_TESTS_WORKER_CACHE_MIXED_SHAPE_H_

#include <cstdint>

#include "planner/model/model_shape.h"

namespace plimsoll::testing {

// Three layers: full attention, a window of 96 tokens, and a short convolution.
inline planner::ModelShape MixedShape() {
  planner::ModelShape shape;
  shape.n_layers = 3;
  shape.recurrent = {.n_taps = 3, .n_channels = 16};
  for (const int64_t window : {0, 96}) {
    shape.layers.push_back({.n_kv_heads = 1,
                            .head_dim = 16,
                            .ffn_dim = 32,
                            .window = window,
                            .kv_source = window == 0 ? 0 : 1});
  }
  shape.layers.push_back({.n_kv_heads = 0,
                          .head_dim = 16,
                          .ffn_dim = 32,
                          .window = 0,
                          .kv_source = 2,
                          .mixer = planner::MixerKind::kShortConv});
  return shape;
}

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_CACHE_MIXED_SHAPE_H_
