#include "planner/model_shape.h"

#include <algorithm>
#include <array>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planner/gguf_stream.h"
#include "planner/hyperparameters.h"
#include "planner/tensor_table.h"
#include "planner/vocab_shape.h"

namespace plimsoll::planner {
namespace {

using enum TensorDim;

constexpr std::array<TensorRole, 4> kLlamaModelRoles = {{
    {"token_embd.weight", kModel, kVocab},
    {"output_norm.weight", kModel, kNone},
    {"output.weight", kModel, kVocab, true},
    {"rope_freqs.weight", kRotary, kNone, true},
}};
constexpr std::array<TensorRole, 9> kLlamaLayerRoles = {{
    {"attn_norm.weight", kModel, kNone},
    {"attn_q.weight", kModel, kQuery},
    {"attn_k.weight", kModel, kKv},
    {"attn_v.weight", kModel, kKv},
    {"attn_output.weight", kQuery, kModel},
    {"ffn_norm.weight", kModel, kNone},
    {"ffn_gate.weight", kModel, kFfn},
    {"ffn_up.weight", kModel, kFfn},
    {"ffn_down.weight", kFfn, kModel},
}};
constexpr std::array<TensorRole, 3> kGemma3ModelRoles = {{
    {"token_embd.weight", kModel, kVocab},
    {"output_norm.weight", kModel, kNone},
    {"output.weight", kModel, kVocab, true},
}};
constexpr std::array<TensorRole, 13> kGemma3LayerRoles = {{
    {"attn_norm.weight", kModel, kNone},
    {"attn_q.weight", kModel, kQuery},
    {"attn_k.weight", kModel, kKv},
    {"attn_v.weight", kModel, kKv},
    {"attn_output.weight", kQuery, kModel},
    {"attn_q_norm.weight", kHead, kNone},
    {"attn_k_norm.weight", kHead, kNone},
    {"post_attention_norm.weight", kModel, kNone},
    {"ffn_norm.weight", kModel, kNone},
    {"ffn_gate.weight", kModel, kFfn},
    {"ffn_up.weight", kModel, kFfn},
    {"ffn_down.weight", kFfn, kModel},
    {"post_ffw_norm.weight", kModel, kNone},
}};

// What one architecture adds to what all share.
struct Architecture {
  absl::string_view name;
  std::span<const TensorRole> model_roles;
  std::span<const TensorRole> layer_roles;
  // Sets the window of every layer.
  absl::Status (*read_windows)(const Hyperparameters& keys, ModelShape& shape);
};

absl::Status NoWindows(const Hyperparameters& keys, ModelShape&) {
  ASSIGN_OR_RETURN(const int64_t window, keys.Int("attention.sliding_window", 0,
                                                  ModelShape::kMaxContext, 0));
  if (window == 0) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "metadata \"", keys.Key("attention.sliding_window"), "\" is ", window,
      ": windows are not supported for this architecture"));
}

// Which layers slide: true = local. Source: MODELS.md 3.5; by default every
// sixth layer is global.
absl::StatusOr<std::vector<bool>> SlidingLayers(const Hyperparameters& keys,
                                                int64_t n_layers) {
  constexpr absl::string_view kSuffix = "attention.sliding_window_pattern";
  constexpr int64_t kDefaultPeriod = 6;
  const std::string key = keys.Key(kSuffix);
  std::vector<bool> slides(static_cast<size_t>(n_layers));
  const auto it = keys.header().metadata.find(key);
  if (it == keys.header().metadata.end() ||
      it->second.type != GgufType::kArray) {
    ASSIGN_OR_RETURN(
        const int64_t period,
        keys.Int(kSuffix, 1, ModelShape::kMaxLayers, kDefaultPeriod));
    for (int64_t il = 0; il < n_layers; ++il) {
      slides[static_cast<size_t>(il)] = il % period != period - 1;
    }
    return slides;
  }
  const GgufArray& array = std::get<GgufArray>(it->second.value);
  if (array.element_type != GgufType::kBool ||
      array.numbers.size() < slides.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata \"", key, "\" is not an array of ", n_layers,
                     " bools, one a layer"));
  }
  for (size_t il = 0; il < slides.size(); ++il) {
    slides[il] = array.numbers[il] != 0;
  }
  return slides;
}

absl::Status Gemma3Windows(const Hyperparameters& keys, ModelShape& shape) {
  ASSIGN_OR_RETURN(const int64_t window, keys.Int("attention.sliding_window", 0,
                                                  ModelShape::kMaxContext, 0));
  ASSIGN_OR_RETURN(const std::vector<bool> slides,
                   SlidingLayers(keys, shape.n_layers));
  for (size_t il = 0; il < slides.size(); ++il) {
    if (slides[il]) shape.layers[il].window = window;
  }
  return absl::OkStatus();
}

// In alphabetical order, for messages.
constexpr std::array<Architecture, 2> kArchitectures = {{
    {"gemma3", kGemma3ModelRoles, kGemma3LayerRoles, Gemma3Windows},
    {"llama", kLlamaModelRoles, kLlamaLayerRoles, NoWindows},
}};

absl::StatusOr<const Architecture*> FindArchitecture(const GgufHeader& header) {
  constexpr absl::string_view kKey = "general.architecture";
  ASSIGN_OR_RETURN(const auto name, header.String(kKey));
  if (!name) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata \"", kKey, "\" is missing"));
  }
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == *name) return &architecture;
  }
  return absl::UnimplementedError(
      absl::StrCat("architecture ", Quoted(*name), " is not supported (",
                   SupportedArchitectures(), " are)"));
}

// head_dim of keys, values and queries alike.
absl::StatusOr<int64_t> ReadHeadDim(const Hyperparameters& keys,
                                    const ModelShape& shape) {
  constexpr int64_t kHeadDimMultiple = 16;
  std::optional<int64_t> fallback;
  if (shape.model_dim % shape.n_heads == 0) {
    fallback = shape.model_dim / shape.n_heads;
  }
  ASSIGN_OR_RETURN(const int64_t k, keys.Int("attention.key_length", 1,
                                             ModelShape::kMaxDim, fallback));
  ASSIGN_OR_RETURN(const int64_t v, keys.Int("attention.value_length", 1,
                                             ModelShape::kMaxDim, fallback));
  const std::string key = keys.Key("attention.key_length");
  if (k != v) {
    return absl::UnimplementedError(absl::StrCat(
        "metadata \"", key, "\" is ", k, " and \"",
        keys.Key("attention.value_length"), "\" is ", v,
        ": keys and values of different lengths are not supported"));
  }
  if (k % kHeadDimMultiple != 0 || k > ModelShape::kMaxHeadDim) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata \"", key, "\" (or its default) is ", k,
                     ", not a multiple of ", kHeadDimMultiple, " up to ",
                     ModelShape::kMaxHeadDim));
  }
  return k;
}

absl::Status ReadHeads(const Hyperparameters& keys, ModelShape& shape) {
  constexpr int64_t kMaxHeads = ModelShape::kMaxDim;
  ASSIGN_OR_RETURN(
      const std::vector<int64_t> heads,
      keys.PerLayer("attention.head_count", shape.n_layers, kMaxHeads));
  shape.n_heads = heads.front();
  for (int64_t n : heads) {
    if (n == shape.n_heads) continue;
    return absl::UnimplementedError(
        absl::StrCat("metadata \"", keys.Key("attention.head_count"),
                     "\" differs between layers, which is not supported"));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> kv_heads,
                   keys.PerLayer("attention.head_count_kv", shape.n_layers,
                                 kMaxHeads, heads));
  ASSIGN_OR_RETURN(const int64_t head_dim, ReadHeadDim(keys, shape));
  if (shape.n_heads * head_dim > ModelShape::kMaxDim) {
    return absl::InvalidArgumentError(absl::StrCat(
        "metadata \"", keys.Key("attention.head_count"), "\" is ",
        shape.n_heads, ": that many heads of ", head_dim,
        " elements are wider than the limit of ", ModelShape::kMaxDim));
  }
  for (size_t il = 0; il < shape.layers.size(); ++il) {
    if (shape.n_heads % kv_heads[il] != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata \"", keys.Key("attention.head_count_kv"),
                       "\" is ", kv_heads[il], ", which does not divide the ",
                       shape.n_heads, " heads"));
    }
    shape.layers[il].n_kv_heads = kv_heads[il];
    shape.layers[il].head_dim = head_dim;
  }
  return absl::OkStatus();
}

absl::Status ReadLayers(const Hyperparameters& keys,
                        const Architecture& architecture, ModelShape& shape) {
  shape.layers.resize(static_cast<size_t>(shape.n_layers));
  RETURN_IF_ERROR(ReadHeads(keys, shape));
  ASSIGN_OR_RETURN(const std::vector<int64_t> ffn_dims,
                   keys.PerLayer("feed_forward_length", shape.n_layers,
                                 ModelShape::kMaxDim));
  for (size_t il = 0; il < shape.layers.size(); ++il) {
    shape.layers[il].ffn_dim = ffn_dims[il];
    shape.layers[il].window = 0;
    shape.layers[il].kv_source = static_cast<int64_t>(il);
  }
  return architecture.read_windows(keys, shape);
}

// Checks what does not change memory but would make the model nonsense, and
// returns how many dimensions of a head are rotated.
absl::StatusOr<int64_t> CheckRotation(const Hyperparameters& keys,
                                      const ModelShape& shape) {
  RETURN_IF_ERROR(
      keys.PositiveFloat("attention.layer_norm_rms_epsilon").status());
  RETURN_IF_ERROR(keys.PositiveFloat("rope.freq_base", 10'000).status());
  RETURN_IF_ERROR(keys.PositiveFloat("rope.freq_base_swa", 10'000).status());
  const int64_t head_dim = shape.layers.front().head_dim;
  ASSIGN_OR_RETURN(const int64_t n_rot,
                   keys.Int("rope.dimension_count", 2, head_dim, head_dim));
  if (n_rot % 2 == 0) return n_rot;
  return absl::InvalidArgumentError(
      absl::StrCat("metadata \"", keys.Key("rope.dimension_count"), "\" is ",
                   n_rot, ", not even"));
}

absl::StatusOr<int64_t> ReadVocabSize(const Hyperparameters& keys,
                                      const VocabShape& vocab) {
  if (vocab.n_tokens > 0) return vocab.n_tokens;
  const GgufTensor* table = keys.header().FindTensor("token_embd.weight");
  if (table == nullptr) {
    return absl::InvalidArgumentError(
        "tensor \"token_embd.weight\" is missing");
  }
  const int64_t rows = table->ne[1];
  if (rows > ModelShape::kMaxVocab) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"token_embd.weight\" has ", rows,
                     " rows, the limit is ", ModelShape::kMaxVocab));
  }
  return keys.Int("vocab_size", 1, ModelShape::kMaxVocab, rows);
}

}  // namespace

std::string SupportedArchitectures() {
  return absl::StrJoin(kArchitectures, ", ",
                       [](std::string* out, const Architecture& a) {
                         absl::StrAppend(out, a.name);
                       });
}

absl::StatusOr<ModelShape> ShapeFromGguf(const GgufHeader& header) {
  ASSIGN_OR_RETURN(const Architecture* architecture, FindArchitecture(header));
  ModelShape shape = {};
  shape.architecture = std::string(architecture->name);
  const Hyperparameters keys(header, shape.architecture);
  ASSIGN_OR_RETURN(const auto name, header.String("general.name"));
  shape.name = name.value_or("");
  ASSIGN_OR_RETURN(shape.n_layers,
                   keys.Int("block_count", 1, ModelShape::kMaxLayers));
  ASSIGN_OR_RETURN(shape.model_dim,
                   keys.Int("embedding_length", 1, ModelShape::kMaxDim));
  ASSIGN_OR_RETURN(shape.n_ctx_train,
                   keys.Int("context_length", 1, ModelShape::kMaxContext));
  ASSIGN_OR_RETURN(const int64_t n_experts,
                   keys.Int("expert_count", 0, ModelShape::kMaxDim, 0));
  if (n_experts > 0) {
    return absl::UnimplementedError(
        absl::StrCat("metadata \"", keys.Key("expert_count"), "\" is ",
                     n_experts, ": experts are not supported"));
  }
  RETURN_IF_ERROR(ReadLayers(keys, *architecture, shape));
  ASSIGN_OR_RETURN(const int64_t n_rot, CheckRotation(keys, shape));
  ASSIGN_OR_RETURN(shape.vocab, ReadVocabShape(header));
  ASSIGN_OR_RETURN(shape.vocab_size, ReadVocabSize(keys, shape.vocab));
  ASSIGN_OR_RETURN(shape.weights, CheckTensors(header, {shape, n_rot},
                                               architecture->model_roles,
                                               architecture->layer_roles));
  shape.tied_output = header.FindTensor("output.weight") == nullptr;
  return shape;
}

}  // namespace plimsoll::planner
