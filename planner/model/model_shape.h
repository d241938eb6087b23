// What a model looks like to a planner: the numbers that decide how many bytes
// it needs, read from a GGUF header and checked against its tensor table.
#ifndef PLIMSOLL_PLANNER_MODEL_MODEL_SHAPE_H_
#define PLIMSOLL_PLANNER_MODEL_MODEL_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "planner/gguf/gguf_reader.h"

namespace plimsoll::planner {

// Of a float32, in which a step computes.
inline constexpr int64_t kFloatBytes = 4;

// What a layer does with other tokens' states.
enum class MixerKind { kAttention };

// What a layer does with a token's state alone.
enum class FfnKind {
  kGated,       // down(activation(gate x) * up x)
  kFusedGated,  // the same, with gate and up in one tensor
  kExperts,     // some of many such networks, chosen by a router
  kExpertsBesideGated,
};

// One transformer layer as far as memory is concerned.
struct LayerShape {
  int64_t n_kv_heads;
  int64_t head_dim;  // of queries, keys and values
  int64_t ffn_dim;
  int64_t window;     // tokens a sliding-window layer sees, itself included;
                      // 0 = full attention
  int64_t kv_source;  // the layer whose keys and values it reads; its own
                      // index if it owns them
  int64_t expert_ffn_dim = 0;  // of each expert; 0 = no experts. ffn_dim is 0
                               // where there is no dense FFN beside them
  MixerKind mixer = MixerKind::kAttention;
  FfnKind ffn = FfnKind::kGated;

  // The same size of everything, whatever layer's keys it reads.
  bool IsLike(const LayerShape& other) const {
    return n_kv_heads == other.n_kv_heads && head_dim == other.head_dim &&
           ffn_dim == other.ffn_dim && window == other.window &&
           expert_ffn_dim == other.expert_ffn_dim;
  }
};

// What a weight is for, as far as where it may lie is concerned.
enum class WeightKind {
  kDense,              // read every step
  kEmbedding,          // one row a token is gathered (and read whole if tied)
  kPerLayerEmbedding,  // one row a token is gathered, never multiplied
  kExpert,             // read only by the tokens routed to it
};

// One weight tensor, in the file's order.
struct WeightTensor {
  std::string name;
  DType dtype;
  int64_t cols;         // ne[0]: elements of one contiguous row (inputs)
  int64_t rows;         // outputs of one matrix; 1 for a vector
  bool is_vector;       // 1-D: a norm or a bias, kept as float32
  int64_t file_offset;  // from the start of the file
  int64_t file_bytes;
  int64_t n_matrices = 1;  // of rows x cols, one after the other: experts
  WeightKind kind = WeightKind::kDense;
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
  static constexpr int64_t kMaxExperts = 4'096;
  static constexpr int64_t kMaxStreams = 16;

  std::string architecture;  // "llama", "gemma3", ...
  std::string name;          // general.name, may be empty
  int64_t n_layers;
  int64_t model_dim;
  int64_t n_heads;
  int64_t vocab_size;
  int64_t n_ctx_train;
  bool tied_output;  // the vocabulary projection is the embedding table
  int64_t n_experts = 0;
  int64_t n_experts_used = 0;  // by one token
  int64_t ple_dim = 0;         // width of per-layer embeddings; 0 = none
  int64_t n_streams = 1;       // residual streams
  // The file gives window layers a head_dim of their own.
  bool has_window_head_dim = false;
  std::vector<LayerShape> layers;     // [n_layers]
  std::vector<WeightTensor> weights;  // in the file's order
  VocabShape vocab;
};

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

// Element types of a model's matrices.
struct TensorTypes {
  DType dense;
  DType embedding;  // and of the vocabulary projection
  DType experts;
};

// `wanted`, or Q8_0 if rows of `cols` elements are no whole blocks of it, or
// F16 if they are none of that either.
DType StorableType(DType wanted, int64_t cols);

// Gives a header that has a model's numbers but no tensors every tensor that
// such a model has, norms and biases in float32, so that it can be planned
// without its file. Types are those that StorableType allows.
// Errors: those of ShapeFromGguf; kOutOfRange on overflow.
absl::Status AddTensors(GgufHeader& header, const TensorTypes& types,
                        bool tied_output);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_MODEL_SHAPE_H_
