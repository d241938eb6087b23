#include "planner/model/model_shape.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_stream.h"
#include "planner/model/architectures.h"
#include "planner/model/hyperparameters.h"
#include "planner/model/latent_shape.h"
#include "planner/model/recurrent_shape.h"
#include "planner/model/tensor_table.h"
#include "planner/model/vocab_shape.h"

namespace plimsoll::planner {
namespace {

absl::StatusOr<const Architecture*> ReadArchitecture(const GgufHeader& header) {
  constexpr absl::string_view kKey = "general.architecture";
  ASSIGN_OR_RETURN(const auto name, header.String(kKey));
  if (!name) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata \"", kKey, "\" is missing"));
  }
  const Architecture* architecture = FindArchitecture(*name);
  if (architecture != nullptr) return architecture;
  return absl::UnimplementedError(
      absl::StrCat("architecture ", Quoted(*name), " is not supported (",
                   SupportedArchitectures(), " are)"));
}

// Which layers have a window, by pattern: true = it has one. By default the
// last layer of every period has full attention.
absl::StatusOr<std::vector<bool>> SlidingLayers(const Hyperparameters& keys,
                                                int64_t n_layers,
                                                int64_t default_period) {
  constexpr absl::string_view kSuffix = "attention.sliding_window_pattern";
  std::optional<int64_t> fallback;
  if (default_period > 0) fallback = default_period;
  ASSIGN_OR_RETURN(const auto flags, keys.Flags(kSuffix, n_layers));
  if (flags) return *flags;
  ASSIGN_OR_RETURN(const int64_t period,
                   keys.Int(kSuffix, 1, ModelShape::kMaxLayers, fallback));
  std::vector<bool> slides(static_cast<size_t>(n_layers));
  for (int64_t il = 0; il < n_layers; ++il) {
    slides[static_cast<size_t>(il)] = il % period != period - 1;
  }
  return slides;
}

absl::Status ReadWindows(const Hyperparameters& keys,
                         const Architecture& architecture, ModelShape& shape) {
  constexpr absl::string_view kSuffix = "attention.sliding_window";
  ASSIGN_OR_RETURN(
      const int64_t window,
      keys.Int(kSuffix, 0, ModelShape::kMaxContext, architecture.window));
  std::vector<bool> slides(shape.layers.size(), true);
  if (architecture.windows == WindowRule::kNone && window > 0) {
    return absl::UnimplementedError(
        absl::StrCat("metadata \"", keys.Key(kSuffix), "\" is ", window,
                     ": windows are not supported for this architecture"));
  }
  if (architecture.windows == WindowRule::kPattern) {
    ASSIGN_OR_RETURN(slides, SlidingLayers(keys, shape.n_layers,
                                           architecture.window_period));
  }
  for (size_t il = 0; il < slides.size(); ++il) {
    if (!slides[il]) continue;
    shape.layers[il].window = window;
    shape.has_windows |= window > 0;
  }
  return absl::OkStatus();
}

// The common head_dim of keys, values and queries. `suffix` is "_swa" for
// layers with a window and empty for the others.
absl::StatusOr<int64_t> ReadHeadDim(const Hyperparameters& keys,
                                    absl::string_view suffix,
                                    std::optional<int64_t> fallback) {
  constexpr int64_t kHeadDimMultiple = 16;
  const std::string k_suffix = absl::StrCat("attention.key_length", suffix);
  const std::string v_suffix = absl::StrCat("attention.value_length", suffix);
  ASSIGN_OR_RETURN(const int64_t k,
                   keys.Int(k_suffix, 1, ModelShape::kMaxDim, fallback));
  ASSIGN_OR_RETURN(const int64_t v,
                   keys.Int(v_suffix, 1, ModelShape::kMaxDim, fallback));
  const std::string key = keys.Key(k_suffix);
  if (k != v) {
    return absl::UnimplementedError(absl::StrCat(
        "metadata \"", key, "\" is ", k, " and \"", keys.Key(v_suffix),
        "\" is ", v,
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

absl::Status ReadHeadDims(const Hyperparameters& keys, ModelShape& shape) {
  std::optional<int64_t> fallback;
  if (shape.model_dim % shape.n_heads == 0) {
    fallback = shape.model_dim / shape.n_heads;
  }
  ASSIGN_OR_RETURN(const int64_t head_dim, ReadHeadDim(keys, "", fallback));
  ASSIGN_OR_RETURN(const int64_t window_head_dim,
                   ReadHeadDim(keys, "_swa", head_dim));
  if (shape.n_heads * std::max(head_dim, window_head_dim) >
      ModelShape::kMaxDim) {
    return absl::InvalidArgumentError(absl::StrCat(
        "metadata \"", keys.Key("attention.head_count"), "\" is ",
        shape.n_heads, ": that many heads of ", head_dim,
        " elements are wider than the limit of ", ModelShape::kMaxDim));
  }
  for (LayerShape& layer : shape.layers) {
    layer.head_dim = layer.window > 0 ? window_head_dim : head_dim;
  }
  shape.has_window_head_dim =
      keys.header().metadata.contains(keys.Key("attention.key_length_swa"));
  return absl::OkStatus();
}

absl::Status ReadHeads(const Hyperparameters& keys,
                       const Architecture& architecture, ModelShape& shape) {
  constexpr int64_t kMaxHeads = ModelShape::kMaxDim;
  ASSIGN_OR_RETURN(
      const std::vector<int64_t> heads,
      keys.PerLayer("attention.head_count", shape.n_layers, {1, kMaxHeads}));
  shape.n_heads = heads.front();
  for (int64_t n : heads) {
    if (n == shape.n_heads) continue;
    return absl::UnimplementedError(
        absl::StrCat("metadata \"", keys.Key("attention.head_count"),
                     "\" differs between layers, which is not supported"));
  }
  const int64_t least = architecture.recurrent == MixerKind::kNone ? 1 : 0;
  ASSIGN_OR_RETURN(const std::vector<int64_t> kv_heads,
                   keys.PerLayer("attention.head_count_kv", shape.n_layers,
                                 {least, kMaxHeads}, heads));
  for (size_t il = 0; il < shape.layers.size(); ++il) {
    if (kv_heads[il] > 0 && shape.n_heads % kv_heads[il] != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata \"", keys.Key("attention.head_count_kv"),
                       "\" is ", kv_heads[il], ", which does not divide the ",
                       shape.n_heads, " heads"));
    }
    shape.layers[il].n_kv_heads = kv_heads[il];
  }
  return architecture.mixer == MixerKind::kLatentAttention
             ? ReadLatentHeads(keys, shape)
             : ReadHeadDims(keys, shape);
}

// The last layers may read the keys and values of another layer: the last one
// before all of them that has the same window. Gemma 4 has such layers.
absl::Status ReadSharedKv(const Hyperparameters& keys, ModelShape& shape) {
  constexpr absl::string_view kSuffix = "attention.shared_kv_layers";
  ASSIGN_OR_RETURN(const int64_t n_shared,
                   keys.Int(kSuffix, 0, shape.n_layers - 1, 0));
  const auto n_own = static_cast<size_t>(shape.n_layers - n_shared);
  for (size_t il = 0; il < shape.layers.size(); ++il) {
    LayerShape& layer = shape.layers[il];
    layer.kv_source = static_cast<int64_t>(il);
    if (il < n_own) continue;
    size_t end = n_own;
    while (end > 0 && shape.layers[end - 1].window != layer.window) --end;
    if (end == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "metadata \"", keys.Key(kSuffix), "\" is ", n_shared, ": layer ", il,
          " has no layer of its kind to read keys and values from"));
    }
    layer.kv_source = static_cast<int64_t>(end) - 1;
    if (shape.layers[end - 1].n_kv_heads != layer.n_kv_heads) {
      return absl::InvalidArgumentError(absl::StrCat(
          "metadata \"", keys.Key("attention.head_count_kv"), "\" gives layer ",
          il, " other heads than layer ", end - 1, ", whose keys it reads"));
    }
  }
  return absl::OkStatus();
}

// The width of the shared expert, or 0 if there is none. `ffn_dim` is that of
// the others.
absl::StatusOr<int64_t> ReadSharedWidth(const Hyperparameters& keys,
                                        const Architecture& architecture,
                                        int64_t ffn_dim) {
  constexpr absl::string_view kSuffix = "expert_shared_feed_forward_length";
  switch (architecture.shared_expert) {
    case SharedExpert::kNone:
      return 0;
    case SharedExpert::kGated:
      return keys.Int(kSuffix, 1, ModelShape::kMaxDim);
    case SharedExpert::kPlain:
    case SharedExpert::kPlainIfGiven:
      break;
  }
  const int64_t least =
      architecture.shared_expert == SharedExpert::kPlain ? 1 : 0;
  ASSIGN_OR_RETURN(const int64_t n_shared,
                   keys.Int("expert_shared_count", least,
                            ModelShape::kMaxDim / ffn_dim, least));
  return keys.Int(kSuffix, least, ModelShape::kMaxDim, n_shared * ffn_dim);
}

// Finds the layers that have experts: those whose router the file has. If no
// tensor is known, the last layer of each period has experts, except for the
// leading dense layers.
absl::Status ReadExperts(const Hyperparameters& keys,
                         const Architecture& architecture, ModelShape& shape) {
  ASSIGN_OR_RETURN(shape.n_experts,
                   keys.Int("expert_count", 0, ModelShape::kMaxExperts, 0));
  if (shape.n_experts == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(shape.n_experts_used,
                   keys.Int("expert_used_count", 1, shape.n_experts));
  int64_t widest = 0;
  for (const LayerShape& layer : shape.layers) {
    widest = std::max(widest, layer.ffn_dim);
  }
  ASSIGN_OR_RETURN(
      const int64_t ffn_dim,
      keys.Int("expert_feed_forward_length", 1, ModelShape::kMaxDim, widest));
  ASSIGN_OR_RETURN(const int64_t shared_ffn_dim,
                   ReadSharedWidth(keys, architecture, ffn_dim));
  ASSIGN_OR_RETURN(const int64_t n_dense,
                   keys.Int("leading_dense_block_count", 0, shape.n_layers, 0));
  ASSIGN_OR_RETURN(
      const int64_t period,
      keys.Int("interleave_moe_layer_step", 1, ModelShape::kMaxLayers, 1));
  // The set avoids a search through all tensors for every layer.
  std::set<absl::string_view> tensors;
  for (const GgufTensor& tensor : keys.header().tensors) {
    tensors.insert(tensor.name);
  }
  for (int64_t il = n_dense; il < shape.n_layers; ++il) {
    const std::string router = absl::StrCat("blk.", il, ".ffn_gate_inp.weight");
    const bool has_experts =
        tensors.empty() ? (il + 1) % period == 0 : tensors.contains(router);
    LayerShape& layer = shape.layers[static_cast<size_t>(il)];
    if (!has_experts || layer.ffn == FfnKind::kNone) continue;
    layer.expert_ffn_dim = ffn_dim;
    layer.shared_ffn_dim = shared_ffn_dim;
    layer.ffn = architecture.expert_ffn;
    if (layer.ffn == FfnKind::kExperts) layer.ffn_dim = 0;
  }
  return absl::OkStatus();
}

absl::Status ReadLayers(const Hyperparameters& keys,
                        const Architecture& architecture, ModelShape& shape) {
  shape.layers.resize(static_cast<size_t>(shape.n_layers));
  RETURN_IF_ERROR(ReadWindows(keys, architecture, shape));
  RETURN_IF_ERROR(ReadHeads(keys, architecture, shape));
  RETURN_IF_ERROR(ReadSharedKv(keys, shape));
  const int64_t least_ffn = architecture.has_single_sublayers ? 0 : 1;
  ASSIGN_OR_RETURN(const std::vector<int64_t> ffn_dims,
                   keys.PerLayer("feed_forward_length", shape.n_layers,
                                 {least_ffn, ModelShape::kMaxDim}));
  for (size_t il = 0; il < shape.layers.size(); ++il) {
    shape.layers[il].mixer = architecture.mixer;
    shape.layers[il].ffn = architecture.ffn;
    shape.layers[il].ffn_dim = ffn_dims[il];
  }
  RETURN_IF_ERROR(ReadRecurrentLayers(keys, architecture, shape));
  return ReadExperts(keys, architecture, shape);
}

// Checks values that do not change memory but would make the model nonsense.
// Returns how many dimensions of a head are rotated.
absl::StatusOr<int64_t> CheckRotation(const Hyperparameters& keys,
                                      const Architecture& architecture,
                                      const ModelShape& shape) {
  RETURN_IF_ERROR(keys.PositiveFloat(architecture.EpsilonKey()).status());
  RETURN_IF_ERROR(keys.PositiveFloat("rope.freq_base", 10'000).status());
  RETURN_IF_ERROR(keys.PositiveFloat("rope.freq_base_swa", 10'000).status());
  int64_t head_dim = 0;
  for (const LayerShape& layer : shape.layers) {
    head_dim = std::max(head_dim, layer.head_dim);
  }
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
    if (keys.header().tensors.empty()) {
      return keys.Int("vocab_size", 1, ModelShape::kMaxVocab);
    }
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

// The MTP head without its tensors, or nothing if the file has none. Its layer
// is like the last one of the model that attends.
std::optional<MtpHead> FindMtp(const GgufHeader& header,
                               const ModelShape& shape) {
  const int64_t block = shape.n_layers;
  const std::string joins =
      absl::StrCat("blk.", block, ".nextn.eh_proj.weight");
  if (header.FindTensor(joins) == nullptr) return std::nullopt;
  const auto layer = std::find_if(shape.layers.rbegin(), shape.layers.rend(),
                                  std::mem_fn(&LayerShape::Attends));
  if (layer == shape.layers.rend()) return std::nullopt;
  MtpHead head = {.block = block, .layer = *layer, .weights = {}};
  head.layer.kv_source = 0;
  return head;
}

// Moves the weights of the MTP head from the model's to its own.
void TakeMtpWeights(ModelShape& shape) {
  const auto first =
      std::stable_partition(shape.weights.begin(), shape.weights.end(),
                            [&](const WeightTensor& weight) {
                              return LayerOf(weight.name) != shape.mtp->block;
                            });
  shape.mtp->weights.assign(std::make_move_iterator(first),
                            std::make_move_iterator(shape.weights.end()));
  shape.weights.erase(first, shape.weights.end());
}

// All of the shape except its tensors.
struct Numbers {
  ModelShape shape;
  const Architecture* architecture;
  int64_t n_rot;
  int64_t n_draft_layers;
};

absl::StatusOr<Numbers> ReadNumbers(const GgufHeader& header) {
  Numbers numbers = {};
  ASSIGN_OR_RETURN(numbers.architecture, ReadArchitecture(header));
  const Architecture& architecture = *numbers.architecture;
  ModelShape& shape = numbers.shape;
  shape.architecture = std::string(architecture.name);
  const Hyperparameters keys(header, shape.architecture);
  ASSIGN_OR_RETURN(const auto name, header.String("general.name"));
  shape.name = name.value_or("");
  ASSIGN_OR_RETURN(const int64_t n_blocks,
                   keys.Int("block_count", 1, ModelShape::kMaxLayers));
  if (architecture.has_mtp) {
    ASSIGN_OR_RETURN(numbers.n_draft_layers,
                     keys.Int("nextn_predict_layers", 0, n_blocks - 1, 0));
  }
  shape.n_layers = n_blocks - numbers.n_draft_layers;
  ASSIGN_OR_RETURN(shape.model_dim,
                   keys.Int("embedding_length", 1, ModelShape::kMaxDim));
  ASSIGN_OR_RETURN(shape.n_ctx_train,
                   keys.Int("context_length", 1, ModelShape::kMaxContext));
  ASSIGN_OR_RETURN(shape.ple_dim, keys.Int("embedding_length_per_layer_input",
                                           0, ModelShape::kMaxDim, 0));
  constexpr int64_t kAltupStreams = 4;
  shape.n_streams = 1;
  if (architecture.has_altup) {
    ASSIGN_OR_RETURN(shape.n_streams,
                     keys.Int("altup.num_inputs", 2, ModelShape::kMaxStreams,
                              kAltupStreams));
  }
  shape.has_attention_gates = architecture.has_attention_gates;
  // No key says it.
  constexpr int64_t kBranchRank = 64;
  if (architecture.has_low_rank_branch) shape.branch_rank = kBranchRank;
  RETURN_IF_ERROR(ReadLayers(keys, architecture, shape));
  if (numbers.n_draft_layers > 0) shape.mtp = FindMtp(header, shape);
  ASSIGN_OR_RETURN(numbers.n_rot, CheckRotation(keys, architecture, shape));
  ASSIGN_OR_RETURN(shape.vocab, ReadVocabShape(header));
  ASSIGN_OR_RETURN(shape.vocab_size, ReadVocabSize(keys, shape.vocab));
  return numbers;
}

bool IsGateUp(const GgufTensor& tensor) {
  return absl::EndsWith(tensor.name, ".ffn_gate_up_exps.weight");
}

TensorContext ContextOf(const Numbers& numbers, const GgufHeader& header) {
  const ModelShape& shape = numbers.shape;
  return {.shape = shape,
          .architecture = *numbers.architecture,
          .n_rot = numbers.n_rot,
          .is_qkv_fused =
              shape.layers.front().Attends() &&
              (header.FindTensor("blk.0.attn_qkv.weight") != nullptr ||
               (header.tensors.empty() && numbers.architecture->is_qkv_fused)),
          .is_gate_up_fused = absl::c_any_of(header.tensors, IsGateUp),
          .n_draft_layers = numbers.n_draft_layers};
}

// The type of a tensor, or the nearest one that its rows allow.
DType TypeOf(const TensorSpec& spec, const TensorTypes& types) {
  if (spec.is_vector) return DType::kF32;
  DType wanted = types.dense;
  if (spec.kind == WeightKind::kExpert) wanted = types.experts;
  if (spec.kind == WeightKind::kEmbedding ||
      spec.kind == WeightKind::kPerLayerEmbedding ||
      spec.name == "output.weight") {
    wanted = types.embedding;
  }
  return StorableType(wanted, spec.ne[0]);
}

// The number of dimensions that a file gives the tensor.
int NumDims(const TensorSpec& spec) {
  if (spec.ne[2] > 1) return 3;
  return spec.is_vector && spec.ne[1] == 1 ? 1 : 2;
}

}  // namespace

DType StorableType(DType wanted, int64_t cols) {
  for (const DType candidate : {wanted, DType::kQ8_0}) {
    if (cols % InfoOf(candidate).block_elems == 0) return candidate;
  }
  return DType::kF16;
}

std::optional<int64_t> LayerOf(absl::string_view tensor) {
  if (!absl::ConsumePrefix(&tensor, "blk.")) return std::nullopt;
  int64_t layer = 0;
  if (!absl::SimpleAtoi(tensor.substr(0, tensor.find('.')), &layer)) {
    return std::nullopt;
  }
  return layer;
}

absl::StatusOr<ModelShape> ShapeFromGguf(const GgufHeader& header) {
  ASSIGN_OR_RETURN(Numbers numbers, ReadNumbers(header));
  ASSIGN_OR_RETURN(numbers.shape.weights,
                   CheckTensors(header, ContextOf(numbers, header)));
  if (numbers.shape.mtp) TakeMtpWeights(numbers.shape);
  numbers.shape.tied_output = header.FindTensor("output.weight") == nullptr;
  return std::move(numbers.shape);
}

ModelShape MtpShapeOf(const ModelShape& shape) {
  ModelShape head = shape;
  head.n_layers = 1;
  head.layers = {shape.mtp->layer};
  head.weights = shape.mtp->weights;
  head.mtp.reset();
  return head;
}

absl::Status AddTensors(GgufHeader& header, const TensorTypes& types,
                        bool tied_output) {
  ASSIGN_OR_RETURN(const Numbers numbers, ReadNumbers(header));
  Checked end = 0;
  for (const TensorSpec& spec : TensorSpecs(ContextOf(numbers, header))) {
    const bool is_output = spec.name == "output.weight";
    if (is_output ? tied_output : !spec.is_usual) continue;
    const DType type = TypeOf(spec, types);
    const DTypeInfo& info = InfoOf(type);
    const Checked bytes = Checked(spec.ne[0] / info.block_elems) *
                          info.block_bytes * spec.ne[1] * spec.ne[2];
    header.tensors.push_back({.name = spec.name,
                              .dtype = type,
                              .n_dims = NumDims(spec),
                              .ne = spec.ne,
                              .offset = end.Get().value_or(0),
                              .bytes = bytes.Get().value_or(0)});
    end = RoundUp(end + bytes, header.alignment);
  }
  // A header in front of the data is padded by less than the alignment.
  const auto file_bytes = (end + header.alignment).Get();
  if (!file_bytes) {
    return absl::OutOfRangeError("the model does not fit in int64 bytes");
  }
  header.file_bytes = *file_bytes;
  return absl::OkStatus();
}

}  // namespace plimsoll::planner
