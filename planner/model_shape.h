// What a model looks like to a planner: the numbers that decide how many bytes
// it needs, read from a GGUF header and checked against its tensor table.
#ifndef PLIMSOLL_PLANNER_MODEL_SHAPE_H_
#define PLIMSOLL_PLANNER_MODEL_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "planner/gguf_reader.h"

namespace plimsoll::planner {

// One transformer layer as far as memory is concerned.
struct LayerShape {
  int64_t n_kv_heads;
  int64_t head_dim;  // of queries, keys and values
  int64_t ffn_dim;
  int64_t window;     // tokens a sliding-window layer sees, itself included;
                      // 0 = full attention
  int64_t kv_source;  // the layer whose keys and values it reads; its own
                      // index if it owns them

  bool operator==(const LayerShape&) const = default;
};

// One weight tensor, in the file's order.
struct WeightTensor {
  std::string name;
  DType dtype;
  int64_t cols;         // ne[0]: elements of one contiguous row (inputs)
  int64_t rows;         // outputs; 1 for a vector
  bool is_vector;       // 1-D: a norm or a bias, kept as float32
  int64_t file_offset;  // from the start of the file
  int64_t file_bytes;
};

// Tokenizer tables as the header declares them (the strings stay in the file).
struct VocabShape {
  std::string model;  // "llama", "gpt2", or "no_vocab": plan only
  int64_t n_tokens = 0;
  int64_t token_bytes = 0;  // all token strings, without length prefixes
  int64_t n_merges = 0;
  int64_t merge_bytes = 0;
};

struct ModelShape {
  // Limits; each has a test at it and one past it.
  static constexpr int64_t kMaxLayers = 512;
  static constexpr int64_t kMaxDim = 1 << 20;  // widths of any kind
  static constexpr int64_t kMaxVocab = 1 << 24;
  static constexpr int64_t kMaxContext = int64_t{1} << 40;
  static constexpr int64_t kMaxHeadDim = 512;  // kernels' limit as well

  std::string architecture;  // "llama", "gemma3"
  std::string name;          // general.name, may be empty
  int64_t n_layers;
  int64_t model_dim;
  int64_t n_heads;
  int64_t vocab_size;
  int64_t n_ctx_train;
  bool tied_output;  // the vocabulary projection is the embedding table
  std::vector<LayerShape> layers;     // [n_layers]
  std::vector<WeightTensor> weights;  // in the file's order
  VocabShape vocab;
};

// The architectures this build can describe, for messages: "gemma3, llama".
std::string SupportedArchitectures();

// Builds the shape of the model in `header`: every count positive and within
// the limits above, every tensor present with exactly the shape that the
// hyperparameters demand, none missing and none unknown.
//
// Errors: kUnimplemented naming an architecture we do not know;
// kInvalidArgument naming the key or tensor that is missing, of a wrong type,
// out of range or of a wrong shape.
// Source: GGUF keys `general.architecture`, `A.block_count`,
// `A.embedding_length`, `A.attention.*`, ...
absl::StatusOr<ModelShape> ShapeFromGguf(const GgufHeader& header);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_SHAPE_H_
