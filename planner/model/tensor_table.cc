#include "planner/model/tensor_table.h"

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_stream.h"
#include "planner/model/tensor_size.h"

namespace plimsoll::planner {
namespace {

constexpr absl::string_view kWeightSuffix = ".weight";

// Indices of specs by their names.
using SpecIndex = std::map<absl::string_view, size_t>;

// In the table, this name means Architecture::ffn_norm.
constexpr absl::string_view kFfnNorm = "ffn_norm.weight";
// The file may have it under the name Architecture::output_norm.
constexpr absl::string_view kOutputNorm = "output_norm.weight";

using enum Dim;
using enum Presence;
constexpr Dim kNo = Dim::kNone;
constexpr WeightKind kExpert = WeightKind::kExpert;

// Tensors of a file that are several tensors, one after the other.
constexpr TensorSlice kQkvWeights[] = {
    {"attn_q.weight", kQuery}, {"attn_k.weight", kKv}, {"attn_v.weight", kKv}};
constexpr TensorSlice kQkvBiases[] = {
    {"attn_q.bias", kQuery}, {"attn_k.bias", kKv}, {"attn_v.bias", kKv}};
constexpr TensorSlice kGateAndUp[] = {{"ffn_gate.weight", kFfn},
                                      {"ffn_up.weight", kFfn}};
constexpr TensorSlice kExpertGateAndUp[] = {
    {"ffn_gate_exps.weight", kExpertFfn}, {"ffn_up_exps.weight", kExpertFfn}};

constexpr auto kModelRoles = std::to_array<TensorRole>({
    {"token_embd.weight", When::kAlways, kRequired, MatrixOf(kModel, kVocab),
     WeightKind::kEmbedding},
    {kOutputNorm, When::kAlways, kRequired, VectorOf(kModel)},
    {"output.weight", When::kAlways, kOptional, MatrixOf(kModel, kVocab)},
    {"output.bias", When::kQkvBias, kOptional, VectorOf(kVocab)},
    {"rope_freqs.weight", When::kAlways, kOptional, VectorOf(kRotary)},
    {"per_layer_token_embd.weight", When::kPle, kRequired,
     MatrixOf(kAllPle, kVocab), WeightKind::kPerLayerEmbedding},
    {"per_layer_model_proj.weight", When::kPle, kRequired,
     MatrixOf(kModel, kAllPle)},
    {"per_layer_proj_norm.weight", When::kPle, kRequired, VectorOf(Dim::kPle)},
});

constexpr auto kLayerRoles = std::to_array<TensorRole>({
    {"attn_norm.weight", When::kPreNorms, kRequired, VectorOf(kModel)},
    {"attn_q.weight", When::kSeparateQkv, kRequired,
     MatrixOf(kModel, kQueryProduct)},
    {"attn_k.weight", When::kOwnKv, kRequired, MatrixOf(kModel, kKv)},
    {"attn_v.weight", When::kOwnValues, kRequired, MatrixOf(kModel, kKv)},
    {"attn_qkv.weight", When::kFusedQkv, kRequired, MatrixOf(kModel, kQkv),
     WeightKind::kDense, kQkvWeights},
    {"attn_output.weight", When::kAttends, kRequired,
     MatrixOf(kAttended, kModel)},
    {"attn_q_norm.weight", When::kHeadNorms, kRequired, VectorOf(kHead)},
    {"attn_k_norm.weight", When::kOwnKeyNorm, kRequired, VectorOf(kHead)},
    {"attn_q_norm.weight", When::kOptionalHeadNorms, kOptional,
     VectorOf(kHead)},
    {"attn_k_norm.weight", When::kOptionalHeadNorms, kOptional,
     VectorOf(kHead)},
    {"attn_q_norm.weight", When::kJointHeadNorms, kRequired, VectorOf(kQuery)},
    {"attn_k_norm.weight", When::kJointHeadNorms, kRequired, VectorOf(kKv)},
    {"attn_q.bias", When::kOptionalQkvBias, kOptional, VectorOf(kQuery)},
    {"attn_k.bias", When::kOptionalQkvBias, kOptional, VectorOf(kKv)},
    {"attn_v.bias", When::kOptionalQkvBias, kOptional, VectorOf(kKv)},
    {"attn_qkv.bias", When::kOptionalFusedQkvBias, kOptional, VectorOf(kQkv),
     WeightKind::kDense, kQkvBiases},
    {"attn_output.bias", When::kOptionalBias, kOptional, VectorOf(kModel)},
    {"attn_q.bias", When::kSeparateQkvBias, kRequired, VectorOf(kQuery)},
    {"attn_k.bias", When::kSeparateQkvBias, kRequired, VectorOf(kKv)},
    {"attn_v.bias", When::kSeparateQkvBias, kRequired, VectorOf(kKv)},
    {"attn_qkv.bias", When::kFusedQkvBias, kRequired, VectorOf(kQkv),
     WeightKind::kDense, kQkvBiases},
    {"attn_output.bias", When::kAllBiases, kRequired, VectorOf(kModel)},
    {"post_attention_norm.weight", When::kPostNorms, kRequired,
     VectorOf(kModel)},
    {kFfnNorm, When::kFfnNorm, kRequired, VectorOf(kModel)},
    {"ffn_gate.weight", When::kGatedFfn, kRequired, MatrixOf(kModel, kFfn)},
    {"ffn_up.weight", When::kGatedFfn, kRequired, MatrixOf(kModel, kFfn)},
    {"ffn_down.weight", When::kGatedFfn, kRequired, MatrixOf(kFfn, kModel)},
    {"ffn_up.weight", When::kPlainFfn, kRequired, MatrixOf(kModel, kFfn)},
    {"ffn_down.weight", When::kPlainFfn, kRequired, MatrixOf(kFfn, kModel)},
    {"ffn_gate.bias", When::kOptionalFfnBias, kOptional, VectorOf(kFfn)},
    {"ffn_up.bias", When::kOptionalFfnBias, kOptional, VectorOf(kFfn)},
    {"ffn_down.bias", When::kOptionalFfnBias, kOptional, VectorOf(kModel)},
    {"ffn_up.weight", When::kFusedFfn, kRequired, MatrixOf(kModel, kTwoFfn),
     WeightKind::kDense, kGateAndUp},
    {"ffn_down.weight", When::kFusedFfn, kRequired, MatrixOf(kFfn, kModel)},
    {"post_ffw_norm.weight", When::kPostNorms, kRequired, VectorOf(kModel)},
    {"ffn_gate_inp.weight", When::kExperts, kRequired,
     MatrixOf(kModel, Dim::kExperts)},
    {"ffn_gate_exps.weight",
     When::kExpertGatesSplit,
     kRequired,
     {kModel, kExpertFfn, Dim::kExperts},
     kExpert},
    {"ffn_up_exps.weight",
     When::kExpertsSplit,
     kRequired,
     {kModel, kExpertFfn, Dim::kExperts},
     kExpert},
    {"ffn_gate_up_exps.weight",
     When::kExpertsFused,
     kRequired,
     {kModel, kTwoExpertFfn, Dim::kExperts},
     kExpert,
     kExpertGateAndUp},
    {"ffn_down_exps.weight",
     When::kExperts,
     kRequired,
     {kExpertFfn, kModel, Dim::kExperts},
     kExpert},
    {"ffn_gate_inp.bias", When::kExpertBias, kRequired,
     VectorOf(Dim::kExperts)},
    {"ffn_gate_exps.bias", When::kExpertBias, kRequired,
     VectorsOf(kExpertFfn, Dim::kExperts), kExpert},
    {"ffn_up_exps.bias", When::kExpertBias, kRequired,
     VectorsOf(kExpertFfn, Dim::kExperts), kExpert},
    {"ffn_down_exps.bias", When::kExpertBias, kRequired,
     VectorsOf(kModel, Dim::kExperts), kExpert},
    {"ffn_gate_inp_shexp.weight", When::kGatedSharedExpert, kRequired,
     MatrixOf(kModel, kOne)},
    {"ffn_gate_shexp.weight", When::kSharedExpertGate, kRequired,
     MatrixOf(kModel, kSharedFfn)},
    {"ffn_up_shexp.weight", When::kSharedExpert, kRequired,
     MatrixOf(kModel, kSharedFfn)},
    {"ffn_down_shexp.weight", When::kSharedExpert, kRequired,
     MatrixOf(kSharedFfn, kModel)},
    {"inp_gate.weight", When::kPle, kRequired, MatrixOf(kModel, Dim::kPle)},
    {"proj.weight", When::kPle, kRequired, MatrixOf(Dim::kPle, kModel)},
    {"post_norm.weight", When::kPle, kRequired, VectorOf(kModel)},
});

// What an MTP head has beside its layer's tensors. Without an embedding or a
// vocabulary projection of its own it uses the model's.
constexpr auto kMtpRoles = std::to_array<TensorRole>({
    {"nextn.eh_proj.weight", When::kAlways, kRequired,
     MatrixOf(kTwoModel, kModel)},
    {"nextn.enorm.weight", When::kAlways, kRequired, VectorOf(kModel)},
    {"nextn.hnorm.weight", When::kAlways, kRequired, VectorOf(kModel)},
    {"nextn.shared_head_norm.weight", When::kAlways, kRequired,
     VectorOf(kModel)},
    {"nextn.embed_tokens.weight", When::kAlways, kOptional,
     MatrixOf(kModel, kVocab), WeightKind::kEmbedding},
    {"nextn.shared_head_head.weight", When::kAlways, kOptional,
     MatrixOf(kModel, kVocab)},
});

// Whether the layer has a tensor of its FFN, or of what comes after it.
bool HoldsInFfn(When when, const TensorContext& context,
                const LayerShape& layer) {
  const Architecture& a = context.architecture;
  const bool has_experts = layer.expert_ffn_dim > 0;
  const bool has_gates = a.ffn != FfnKind::kPlain;
  const bool is_gated = layer.ffn_dim > 0 && a.ffn == FfnKind::kGated;
  switch (when) {
    case When::kFfnNorm:
      return a.has_pre_norms && !a.has_parallel_ffn && !a.has_single_sublayers;
    case When::kOptionalFfnBias:
      return a.biases == BiasRule::kOptional && is_gated;
    case When::kGatedFfn:
      return is_gated;
    case When::kPlainFfn:
      return layer.ffn_dim > 0 && !has_gates;
    case When::kFusedFfn:
      return a.ffn == FfnKind::kFusedGated;
    case When::kExperts:
      return has_experts;
    case When::kExpertsSplit:
      return has_experts && !context.is_gate_up_fused;
    case When::kExpertGatesSplit:
      return has_experts && !context.is_gate_up_fused && has_gates;
    case When::kExpertsFused:
      return has_experts && context.is_gate_up_fused;
    case When::kExpertBias:
      return has_experts && a.biases == BiasRule::kAll;
    case When::kSharedExpert:
      return layer.shared_ffn_dim > 0;
    case When::kSharedExpertGate:
      return layer.shared_ffn_dim > 0 && has_gates;
    case When::kGatedSharedExpert:
      return has_experts && a.shared_expert == SharedExpert::kGated;
    default:
      break;
  }
  PLIMSOLL_CHECK(when == When::kPle, "Holds has all other conditions");
  return context.shape.ple_dim > 0;
}

bool Holds(When when, const TensorContext& context, const LayerShape& layer) {
  const Architecture& a = context.architecture;
  const bool attends = layer.Attends();
  const bool has_heads = layer.mixer == MixerKind::kAttention;
  const bool is_fused = context.is_qkv_fused;
  const bool has_optional_biases = attends && a.biases == BiasRule::kOptional;
  const bool has_qkv_biases =
      attends && (a.biases == BiasRule::kQkv || a.biases == BiasRule::kAll);
  switch (when) {
    case When::kAlways:
      return true;
    case When::kAttends:
      return attends;
    case When::kRecurrent:
      return layer.IsRecurrent();
    case When::kSeparateQkv:
    case When::kOwnKv:
    case When::kOwnValues:
      return has_heads && !is_fused;
    case When::kFusedQkv:
      return has_heads && is_fused;
    case When::kHeadNorms:
    case When::kOwnKeyNorm:
      return attends && a.head_norms == HeadNorms::kEach;
    case When::kQueryRank:
    case When::kNoQueryRank:
      return (context.shape.latent.query_rank > 0) ==
             (when == When::kQueryRank);
    case When::kOptionalHeadNorms:
      return attends && a.head_norms == HeadNorms::kEachIfPresent;
    case When::kJointHeadNorms:
      return attends && a.head_norms == HeadNorms::kTogether;
    case When::kOptionalBias:
      return has_optional_biases;
    case When::kOptionalQkvBias:
      return has_optional_biases && !is_fused;
    case When::kOptionalFusedQkvBias:
      return has_optional_biases && is_fused;
    case When::kQkvBias:
      return has_qkv_biases;
    case When::kSeparateQkvBias:
      return has_qkv_biases && !is_fused;
    case When::kFusedQkvBias:
      return has_qkv_biases && is_fused;
    case When::kAllBiases:
      return a.biases == BiasRule::kAll;
    case When::kPreNorms:
      return a.has_pre_norms;
    case When::kPostNorms:
      return a.has_post_norms;
    default:
      break;
  }
  return HoldsInFfn(when, context, layer);
}

// True for tensors of keys and values in a layer that reads another layer's: a
// file may have them, and nothing reads them.
bool IsIgnored(When when, bool owns_kv) {
  return !owns_kv && (when == When::kOwnKv || when == When::kOwnValues ||
                      when == When::kOwnKeyNorm);
}

// The spec of a tensor whose name and parts begin with `prefix`.
TensorSpec SpecOf(const TensorRole& role, const TensorContext& context,
                  const LayerShape& layer, absl::string_view prefix) {
  const Architecture& a = context.architecture;
  absl::string_view name = role.name;
  if (name == kFfnNorm) name = a.ffn_norm;
  if (name == kOutputNorm) name = a.output_norm;
  TensorSpec spec = {.name = absl::StrCat(prefix, name),
                     .ne = {1, 1, 1, 1},
                     .is_vector = role.dims[1] == kNo,
                     .is_optional = role.presence != kRequired,
                     .is_usual = role.presence != kOptional,
                     .is_ignored = false,
                     .kind = role.kind,
                     .slices = {}};
  for (const TensorSlice& slice : role.slices) {
    spec.slices.push_back(
        {absl::StrCat(prefix, slice.name), SizeOf(slice.rows, context, layer)});
  }
  size_t n_dims = 0;
  for (const Dim dim : role.dims) {
    if (dim != kNo) spec.ne[n_dims++] = SizeOf(dim, context, layer);
  }
  if (name != role.name && role.name == kOutputNorm) {
    spec.slices.push_back({std::string(kOutputNorm), spec.ne[0]});
  }
  // Full-attention layers whose values are their keys have no projection for
  // them.
  if (role.when == When::kOwnValues && layer.window == 0 &&
      a.values_may_be_keys) {
    spec.is_optional = true;
    spec.is_usual = false;
  }
  return spec;
}

// Adds the tensor that the layer has in this role, if it has one.
void AddLayerSpec(const TensorRole& role, const TensorContext& context,
                  size_t il, std::vector<TensorSpec>& specs) {
  const LayerShape& layer = context.shape.layers[il];
  if (!Holds(role.when, context, layer)) return;
  specs.push_back(SpecOf(role, context, layer, absl::StrCat("blk.", il, ".")));
  if (!IsIgnored(role.when, layer.kv_source == static_cast<int64_t>(il))) {
    return;
  }
  specs.back().is_optional = true;
  specs.back().is_usual = false;
  specs.back().is_ignored = true;
}

void AddMtpSpecs(const TensorContext& context, std::vector<TensorSpec>& specs) {
  const MtpHead& head = *context.shape.mtp;
  const std::string prefix = absl::StrCat("blk.", head.block, ".");
  for (const std::span<const TensorRole> roles :
       {std::span<const TensorRole>(kLayerRoles),
        context.architecture.layer_tensors,
        std::span<const TensorRole>(kMtpRoles)}) {
    for (const TensorRole& role : roles) {
      if (!Holds(role.when, context, head.layer)) continue;
      specs.push_back(SpecOf(role, context, head.layer, prefix));
    }
  }
}

// True for a tensor of a layer that only makes drafts.
bool IsOfDraftLayer(absl::string_view name, const TensorContext& context) {
  int64_t layer = 0;
  return absl::ConsumePrefix(&name, "blk.") &&
         absl::SimpleAtoi(name.substr(0, name.find('.')), &layer) &&
         layer >= context.shape.n_layers &&
         layer < context.shape.n_layers + context.n_draft_layers;
}

absl::Status Unknown(const GgufTensor& tensor) {
  const std::string what = absl::StrCat("tensor ", Quoted(tensor.name));
  for (absl::string_view known : {".bias", "_exps.weight", "attn_qkv.weight",
                                  "ffn_gate_inp.weight", ".scale"}) {
    if (!absl::EndsWith(tensor.name, known)) continue;
    return absl::UnimplementedError(
        absl::StrCat(what, ": tensors of this kind (", known,
                     ") are not supported for this architecture"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is unknown to this architecture"));
}

absl::Status CheckTensor(const GgufTensor& tensor, const TensorSpec& spec) {
  if (tensor.ne != spec.ne) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(tensor.name), " has the shape [",
                     absl::StrJoin(tensor.ne, ", "), "], not [",
                     absl::StrJoin(spec.ne, ", "), "]"));
  }
  const bool is_float = tensor.dtype == DType::kF32 ||
                        tensor.dtype == DType::kF16 ||
                        tensor.dtype == DType::kBF16;
  if (spec.is_vector && !is_float) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(tensor.name), " is a vector of type ",
                     DTypeName(tensor.dtype), ", not f32, f16 or bf16"));
  }
  return absl::OkStatus();
}

// A tensor that goes with a product's matrices, as files in NVFP4 have them.
struct ProductScale {
  absl::string_view suffix;
  bool is_ignored;
};
// Activations keep their own scales, so that of the inputs has no reader.
constexpr ProductScale kProductScales[] = {
    {".scale", /*is_ignored=*/false}, {".input_scale", /*is_ignored=*/true}};

// The name of a scale of the matrices that are called `matrix`.
std::string ScaleName(absl::string_view matrix, const ProductScale& scale) {
  return absl::StrCat(absl::StripSuffix(matrix, kWeightSuffix), scale.suffix);
}

// The spec of a scale of the products that `product` describes.
TensorSpec ScaleSpecOf(const TensorSpec& product, const ProductScale& scale) {
  TensorSpec spec = {.name = ScaleName(product.name, scale),
                     .ne = {product.ne[2], 1, 1, 1},
                     .is_vector = true,
                     .is_optional = true,
                     .is_usual = false,
                     .is_ignored = scale.is_ignored || product.is_ignored,
                     .kind = product.kind,
                     .slices = {},
                     .is_of_each_slice = true};
  for (const SliceSpec& slice : product.slices) {
    spec.slices.push_back({ScaleName(slice.name, scale), product.ne[2]});
  }
  return spec;
}

// A scale, and the index of the spec of its product.
struct ScaledProduct {
  size_t index;
  TensorSpec scale;
};

// The scale of a product that `tensor` is, if it is one.
std::optional<ScaledProduct> FindScaledProduct(
    absl::string_view tensor, const std::vector<TensorSpec>& specs,
    const SpecIndex& index) {
  for (const ProductScale& scale : kProductScales) {
    absl::string_view base = tensor;
    if (!absl::ConsumeSuffix(&base, scale.suffix)) continue;
    const auto it = index.find(absl::StrCat(base, kWeightSuffix));
    if (it == index.end()) continue;
    const TensorSpec& product = specs[it->second];
    if (product.is_vector || product.kind == WeightKind::kEmbedding ||
        product.kind == WeightKind::kPerLayerEmbedding) {
      continue;
    }
    return ScaledProduct{it->second, ScaleSpecOf(product, scale)};
  }
  return std::nullopt;
}

// Adds the tensor as one weight, or as one for each of its parts.
void AddWeights(const GgufHeader& header, const GgufTensor& tensor,
                const TensorSpec& spec, std::vector<WeightTensor>& weights) {
  // Several vectors are one for each expert, or else one that they make
  // together.
  const bool is_joined = spec.is_vector && spec.kind != WeightKind::kExpert;
  const int64_t n_matrices = is_joined ? 1 : spec.ne[spec.is_vector ? 1 : 2];
  // The reader checked that offset and size stay within the file.
  WeightTensor weight = {
      .name = tensor.name,
      .dtype = tensor.dtype,
      .cols = is_joined ? spec.ne[0] * spec.ne[1] : spec.ne[0],
      .rows = spec.is_vector ? 1 : spec.ne[1],
      .is_vector = spec.is_vector,
      .file_offset = header.data_offset + tensor.offset,
      .file_bytes = tensor.bytes,
      .n_matrices = n_matrices,
      .file_stride = tensor.bytes / n_matrices,
      .kind = spec.kind};
  if (spec.slices.empty()) {
    weights.push_back(std::move(weight));
    return;
  }
  int64_t& n = spec.is_vector ? weight.cols : weight.rows;
  const int64_t row_bytes = weight.file_stride / n;
  for (const SliceSpec& slice : spec.slices) {
    weight.name = slice.name;
    n = slice.rows;
    weight.file_bytes = slice.rows * row_bytes * weight.n_matrices;
    weights.push_back(weight);
    if (!spec.is_of_each_slice) weight.file_offset += slice.rows * row_bytes;
  }
}

}  // namespace

std::vector<TensorSpec> TensorSpecs(const TensorContext& context) {
  const Architecture& a = context.architecture;
  std::vector<TensorSpec> specs;
  const std::vector<LayerShape>& layers = context.shape.layers;
  specs.reserve(kModelRoles.size() + layers.size() * kLayerRoles.size() / 2);
  for (const std::span<const TensorRole> roles :
       {std::span<const TensorRole>(kModelRoles), a.model_tensors}) {
    for (const TensorRole& role : roles) {
      if (!Holds(role.when, context, layers.front())) continue;
      specs.push_back(SpecOf(role, context, layers.front(), ""));
    }
  }
  for (size_t il = 0; il < layers.size(); ++il) {
    for (const std::span<const TensorRole> roles :
         {std::span<const TensorRole>(kLayerRoles), a.layer_tensors}) {
      for (const TensorRole& role : roles) {
        AddLayerSpec(role, context, il, specs);
      }
    }
  }
  if (context.shape.mtp) AddMtpSpecs(context, specs);
  return specs;
}

absl::StatusOr<std::vector<WeightTensor>> CheckTensors(
    const GgufHeader& header, const TensorContext& context) {
  const std::vector<TensorSpec> specs = TensorSpecs(context);
  SpecIndex index;
  for (size_t i = 0; i < specs.size(); ++i) index[specs[i].name] = i;
  std::vector<bool> is_present(specs.size(), false);
  std::vector<bool> is_needed(specs.size(), false);  // by a scale
  std::vector<WeightTensor> weights;
  weights.reserve(header.tensors.size());
  for (const GgufTensor& tensor : header.tensors) {
    const auto it = index.find(tensor.name);
    if (it == index.end()) {
      if (IsOfDraftLayer(tensor.name, context)) continue;
      const auto scaled = FindScaledProduct(tensor.name, specs, index);
      if (!scaled) return Unknown(tensor);
      RETURN_IF_ERROR(CheckTensor(tensor, scaled->scale));
      is_needed[scaled->index] = true;
      if (!scaled->scale.is_ignored) {
        AddWeights(header, tensor, scaled->scale, weights);
      }
      continue;
    }
    const TensorSpec& spec = specs[it->second];
    RETURN_IF_ERROR(CheckTensor(tensor, spec));
    is_present[it->second] = true;
    if (!spec.is_ignored) AddWeights(header, tensor, spec, weights);
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    if (is_present[i]) continue;
    if (specs[i].is_optional && !is_needed[i]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"", specs[i].name, "\" is missing"));
  }
  return weights;
}

}  // namespace plimsoll::planner
