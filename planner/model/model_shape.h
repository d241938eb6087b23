// The planner's description of a model: the numbers that decide its memory,
// read from a GGUF header and checked against its tensor table.
#ifndef PLIMSOLL_PLANNER_MODEL_MODEL_SHAPE_H_
#define PLIMSOLL_PLANNER_MODEL_MODEL_SHAPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "planner/gguf/gguf_reader.h"

namespace plimsoll::planner {

// Bytes of a float32, the type in which a step computes.
inline constexpr int64_t kFloatBytes = 4;

// The part of a layer that combines the states of several tokens.
enum class MixerKind {
  kAttention,
  kLatentAttention,  // keys and values are made of one small vector (MLA)
  // The next ones keep a state of a fixed size instead of keys and values.
  kShortConv,  // a gated convolution over the last few tokens
  kDeltaNet,   // a convolution and a gated delta rule
  kMamba2,     // a convolution and a selective scan
  kNone,       // the layer is an FFN alone
};

// The part of a layer that changes each token's state by itself.
enum class FfnKind {
  kGated,       // down(activation(gate x) * up x)
  kFusedGated,  // kGated with gate and up in one tensor of the file
  kExperts,     // some of many networks, chosen by a router
  kExpertsBesideGated,
  kPlain,  // down(activation(up x))
  kNone,   // the layer is a mixer alone
};

// The memory-related numbers of one transformer layer.
struct LayerShape {
  int64_t n_kv_heads;  // 0 in layers that do not attend
  // One width for queries, keys and values. In latent attention it is the width
  // of a row of the cache.
  int64_t head_dim;
  int64_t ffn_dim;
  int64_t window;  // tokens that a sliding-window layer sees, with its own;
                   // 0 = full attention
  // The layer whose keys and values it reads; its own index if it has its own.
  int64_t kv_source;
  int64_t expert_ffn_dim = 0;  // an expert's width; 0 = no experts. ffn_dim is
                               // 0 if there is no dense FFN beside them
  int64_t shared_ffn_dim = 0;  // the shared expert's width; 0 = none
  MixerKind mixer = MixerKind::kAttention;
  FfnKind ffn = FfnKind::kGated;

  // True if it reads keys and values, its own or another layer's.
  bool Attends() const {
    return mixer == MixerKind::kAttention ||
           mixer == MixerKind::kLatentAttention;
  }
  // True if it keeps a state.
  bool IsRecurrent() const { return !Attends() && mixer != MixerKind::kNone; }

  // The width of a head of values that is stored beside its key. Values of
  // latent attention are the beginnings of the keys.
  int64_t StoredValueDim() const {
    return mixer == MixerKind::kLatentAttention ? 0 : head_dim;
  }

  // True if all sizes are equal; kv_source may differ.
  bool IsLike(const LayerShape& other) const {
    return n_kv_heads == other.n_kv_heads && head_dim == other.head_dim &&
           ffn_dim == other.ffn_dim && window == other.window &&
           expert_ffn_dim == other.expert_ffn_dim &&
           shared_ffn_dim == other.shared_ffn_dim && mixer == other.mixer;
  }
};

// The use of a weight, which decides the memory where it may be stored.
enum class WeightKind {
  kDense,              // read every step
  kEmbedding,          // one row per token is read; all if tied
  kPerLayerEmbedding,  // one row a token is gathered, never multiplied
  kExpert,             // read only by the tokens routed to it
};

// One weight tensor, in the file's order.
struct WeightTensor {
  std::string name;
  DType dtype;
  int64_t cols;         // ne[0]: elements of one contiguous row (inputs)
  int64_t rows;         // outputs of one matrix; 1 for a vector
  bool is_vector;       // a norm or a bias, kept as float32
  int64_t file_offset;  // from the start of the file
  int64_t file_bytes;
  int64_t n_matrices = 1;   // experts, each rows x cols, in order
  int64_t file_stride = 0;  // bytes in the file from one matrix to the next
  WeightKind kind = WeightKind::kDense;
};

// The tokenizer's tables as the header declares them; the strings stay in the
// file.
struct VocabShape {
  std::string model;  // "gemma4", "gpt2", "llama"; "no_vocab": plan only
  int64_t n_tokens = 0;
  int64_t token_bytes = 0;  // all token strings, without length prefixes
  int64_t n_merges = 0;
  int64_t merge_bytes = 0;
};

// The widths of latent attention. A row of its cache has `rank` elements, from
// which products make each head's keys and values. The rotated part of the key
// follows; all heads share it.
struct LatentShape {
  int64_t rank = 0;        // 0: the model has no such layers
  int64_t query_rank = 0;  // between the two products that make queries; 0:
                           // one product makes them
  int64_t key_dim = 0;     // width of a head's key, with its rotated part
  int64_t value_dim = 0;   // width of a head's value
};

// The widths of layers that keep a state. They are equal in all recurrent
// layers of a model. A state has the last n_taps - 1 inputs of the convolution,
// and then a matrix [head_dim, state_dim] for each head.
struct RecurrentShape {
  int64_t n_taps = 0;       // taps of the convolution; 0: no such layers
  int64_t n_channels = 0;   // channels that the convolution reads and writes
  int64_t n_heads = 0;      // 0: only a convolution
  int64_t n_groups = 0;     // heads of one share queries and keys, or B and C
  int64_t head_dim = 0;     // width of a head's input and output
  int64_t state_dim = 0;    // width of a query and a key, or of B and C
  int64_t product_dim = 0;  // width of all products of a layer's input together

  int64_t ConvFloats() const { return (n_taps - 1) * n_channels; }
  int64_t StateFloats() const {
    return ConvFloats() + n_heads * head_dim * state_dim;
  }
  // The width of all heads.
  int64_t InnerDim() const { return n_heads * head_dim; }
};

// A head that predicts the token after the next one (multi-token prediction,
// MTP): a layer that attends, and the weights that join a row of the model with
// the embedding of the next token.
struct MtpHead {
  int64_t block;  // N in the names of its tensors, "blk.N."
  LayerShape layer;
  std::vector<WeightTensor> weights;  // in the file's order
};

struct ModelShape {
  // Limits; each has a test at it and one past it.
  static constexpr int64_t kMaxLayers = 512;
  static constexpr int64_t kMaxDim = 1 << 20;  // widths of any kind
  static constexpr int64_t kMaxVocab = 1 << 24;
  static constexpr int64_t kMaxContext = int64_t{1} << 40;
  static constexpr int64_t kMaxHeadDim = 512;  // kernels' limit as well
  // The width of a row of latent attention; kernels' limit as well.
  static constexpr int64_t kMaxLatentRow = 576;
  static constexpr int64_t kMaxExperts = 4'096;
  static constexpr int64_t kMaxStreams = 16;
  static constexpr int64_t kMaxTaps = 8;        // kernels' limit as well
  static constexpr int64_t kMaxStateDim = 256;  // kernels' limit as well

  std::string architecture;  // "llama", "gemma3", ...
  std::string name;          // general.name, may be empty
  int64_t n_layers;
  int64_t model_dim;
  int64_t n_heads;
  int64_t vocab_size;
  int64_t n_ctx_train;
  bool tied_output;  // the vocabulary projection is the embedding table
  int64_t n_experts = 0;
  int64_t n_experts_used = 0;  // for one token
  int64_t ple_dim = 0;         // width of per-layer embeddings; 0 = none
  int64_t n_streams = 1;       // residual streams
  bool has_windows = false;    // in some layers of the whole model
  int64_t branch_rank = 0;     // rank of the branch beside attention; 0 = none
  // True if the file gives window layers a head_dim of their own.
  bool has_window_head_dim = false;
  // Attention's output is multiplied by gates, which the product that makes
  // queries makes too.
  bool has_attention_gates = false;
  LatentShape latent = {};
  RecurrentShape recurrent = {};
  // The head is not part of `layers` and `weights`; a load may omit it.
  std::optional<MtpHead> mtp = std::nullopt;
  // False if layers of the same model come before or after these on other
  // devices (SliceLayers).
  bool has_first_layer = true;
  bool has_last_layer = true;
  std::vector<LayerShape> layers;     // [n_layers]
  std::vector<WeightTensor> weights;  // in the file's order
  VocabShape vocab;
};

// Builds the shape of the model in `header`. Every count must be positive and
// within the limits above, and every tensor must be present with exactly the
// shape that the hyperparameters imply; unknown tensors are errors.
//
// Errors: kUnimplemented naming an unknown architecture; kInvalidArgument
// naming the key or tensor that is missing, of a wrong type, out of range or of
// a wrong shape.
// Source: GGUF keys `general.architecture`, `A.block_count`,
// `A.embedding_length`, `A.attention.*`, ...
absl::StatusOr<ModelShape> ShapeFromGguf(const GgufHeader& header);

// The MTP head as a model of one layer, which has neither the embedding nor the
// vocabulary projection unless the file gives it its own. Requires shape.mtp.
ModelShape MtpShapeOf(const ModelShape& shape);

// The layer in a tensor's name, N in "blk.N.…"; nothing if the tensor belongs
// to no layer.
std::optional<int64_t> LayerOf(absl::string_view tensor);

// True if the tensor is used for nothing but gathering rows: it is a table of
// per-layer embeddings, or the table of token embeddings if these layers
// compute no logits from it.
inline bool IsTable(const ModelShape& shape, const WeightTensor& tensor) {
  const bool is_output = shape.tied_output && shape.has_last_layer;
  return tensor.kind == WeightKind::kPerLayerEmbedding ||
         (tensor.kind == WeightKind::kEmbedding && !is_output);
}

// Element types of a model's matrices.
struct TensorTypes {
  DType dense;
  DType embedding;  // also the type of the vocabulary projection
  DType experts;
};

// Returns `wanted`, or Q8_0 if rows of `cols` elements are not whole blocks of
// `wanted`, or F16 if they are not whole blocks of Q8_0 either.
DType StorableType(DType wanted, int64_t cols);

// Adds all tensors of the model to a header that has only the model's numbers,
// so that the model can be planned without its file. Norms and biases are
// float32; StorableType chooses the other types.
// Errors: those of ShapeFromGguf; kOutOfRange on overflow.
absl::Status AddTensors(GgufHeader& header, const TensorTypes& types,
                        bool tied_output);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_MODEL_SHAPE_H_
