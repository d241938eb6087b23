// Shapes of known and of random models, without a file behind them.
#ifndef PLIMSOLL_TESTS_PLANNER_SHAPES_H_
#define PLIMSOLL_TESTS_PLANNER_SHAPES_H_

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "planner/layout/memory_plan.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

struct ShapeNumbers {
  int64_t n_layers, model_dim, n_heads, n_kv_heads, head_dim, ffn_dim, vocab,
      n_ctx_train, window;  // window: every sixth layer is global; 0 = none
  DType embedding, trunk;
};

inline ModelShape MakeShape(const ShapeNumbers& n) {
  ModelShape shape = {};
  shape.architecture = n.window > 0 ? "gemma3" : "llama";
  shape.n_layers = n.n_layers;
  shape.model_dim = n.model_dim;
  shape.n_heads = n.n_heads;
  shape.vocab_size = n.vocab;
  shape.n_ctx_train = n.n_ctx_train;
  shape.tied_output = true;
  const auto add = [&](DType dtype, int64_t cols, int64_t rows) {
    shape.weights.push_back({absl::StrCat("w", shape.weights.size()), dtype,
                             cols, rows, rows == 1, 0, 0});
  };
  add(n.embedding, n.model_dim, n.vocab);
  for (int64_t il = 0; il < n.n_layers; ++il) {
    const int64_t window = il % 6 == 5 ? 0 : n.window;
    shape.layers.push_back({n.n_kv_heads, n.head_dim, n.ffn_dim, window, il});
    add(DType::kF32, n.model_dim, 1);
    add(n.trunk, n.model_dim, n.n_heads * n.head_dim);
    add(n.trunk, n.model_dim, 2 * n.n_kv_heads * n.head_dim);
    add(n.trunk, n.n_heads * n.head_dim, n.model_dim);
    add(n.trunk, n.model_dim, 2 * n.ffn_dim);
    add(n.trunk, n.ffn_dim, n.model_dim);
  }
  shape.vocab = {"llama", n.vocab, 6 * n.vocab, 0, 0};
  return shape;
}

// The numbers of Gemma 3 270M and of SmolLM2 135M, as their GGUF files give
// them.
inline ModelShape Gemma270m() {
  return MakeShape({18, 640, 4, 1, 256, 2048, 262'144, 32'768, 512,
                    DType::kQ8_0, DType::kQ5_0});
}
inline ModelShape Smollm2() {
  return MakeShape(
      {30, 576, 9, 3, 64, 1536, 49'152, 8'192, 0, DType::kQ8_0, DType::kQ4_1});
}

// A small model of so many layers.
inline ModelShape DeepShape(int64_t n_layers) {
  return MakeShape(
      {n_layers, 64, 2, 1, 32, 64, 1'000, 8'192, 0, DType::kF16, DType::kF16});
}

// A number from 1 to `max`, of any order of magnitude.
inline int64_t LogUniform(std::mt19937_64& random, int64_t max) {
  int64_t limit = 1;
  while (limit < max && random() % 12 != 0) limit *= 2;
  return 1 + static_cast<int64_t>(
                 random() % static_cast<uint64_t>(limit < max ? limit : max));
}

inline ModelShape RandomShape(std::mt19937_64& random) {
  const int64_t n_kv_heads = LogUniform(random, 16);
  const int64_t window = random() % 2 == 0 ? 0 : LogUniform(random, 4'096);
  return MakeShape({LogUniform(random, 40), 32 * LogUniform(random, 64),
                    n_kv_heads * LogUniform(random, 8), n_kv_heads,
                    32 * LogUniform(random, 8), 32 * LogUniform(random, 256),
                    LogUniform(random, 300'000), LogUniform(random, 1 << 20),
                    window, DType::kQ8_0, DType::kQ4_1});
}

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_TESTS_PLANNER_SHAPES_H_
