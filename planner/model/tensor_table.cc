#include "planner/model/tensor_table.h"

#include <array>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_stream.h"

namespace plimsoll::planner {
namespace {

// A dimension of a tensor, in terms of the model.
enum class Dim {
  kNone,       // there is no such dimension
  kOne,        // 1
  kModel,      // model_dim
  kVocab,      // vocab_size
  kQuery,      // n_heads * head_dim
  kKv,         // n_kv_heads * head_dim
  kQkv,        // both, keys and values apart
  kHead,       // head_dim
  kHeads,      // n_heads
  kFfn,        // ffn_dim
  kTwoFfn,     // gate and up
  kExpertFfn,  // expert_ffn_dim
  kTwoExpertFfn,
  kExperts,  // n_experts
  kRotary,   // half the rotated dimensions
  kPle,      // ple_dim
  kAllPle,   // ple_dim of every layer
  kStreams,  // n_streams
  kStreamPairs,
  kOtherStreams,
  kLaurel,  // rank of the low-rank branch
};

// When a model has a tensor.
enum class When {
  kAlways,
  kNotGptOss,
  kSeparateQkv,
  kOwnKv,      // of a layer that has keys and values of its own
  kOwnValues,  // the same; values may be the keys
  kFusedQkv,
  kQkNorm,
  kOwnKNorm,
  kOptionalBias,
  kQkvBias,
  kOutputBias,
  kSinks,
  kPostNorms,
  kPreFfnNormByName,  // gpt-oss names its FFN norm after the attention
  kGatedFfn,
  kFusedFfn,
  kLayerScale,
  kExperts,
  kExpertsSplit,
  kExpertsFused,
  kExpertBias,
  kExpertsBesideFfn,
  kPle,
  kAltup,
};

// kUsual may be missing from a file, but models have it.
enum Presence { kRequired, kUsual, kOptional };

struct Role {
  absl::string_view name;  // after "blk.N." for a layer's
  When when;
  Presence presence;
  std::array<Dim, 3> dims;
  WeightKind kind = WeightKind::kDense;
};

using enum Dim;
constexpr Dim kNo = Dim::kNone;

constexpr auto kModelRoles = std::to_array<Role>({
    {"token_embd.weight",
     When::kAlways,
     kRequired,
     {kModel, kVocab, kNo},
     WeightKind::kEmbedding},
    {"output_norm.weight", When::kAlways, kRequired, {kModel, kNo, kNo}},
    {"output.weight", When::kAlways, kOptional, {kModel, kVocab, kNo}},
    {"output.bias", When::kQkvBias, kOptional, {kVocab, kNo, kNo}},
    {"rope_freqs.weight", When::kAlways, kOptional, {kRotary, kNo, kNo}},
    {"rope_freqs.weight", When::kLayerScale, kUsual, {kRotary, kNo, kNo}},
    {"rope_factors_long.weight",
     When::kFusedFfn,
     kOptional,
     {kRotary, kNo, kNo}},
    {"rope_factors_short.weight",
     When::kFusedFfn,
     kOptional,
     {kRotary, kNo, kNo}},
    {"per_layer_token_embd.weight",
     When::kPle,
     kRequired,
     {kAllPle, kVocab, kNo},
     WeightKind::kPerLayerEmbedding},
    {"per_layer_model_proj.weight",
     When::kPle,
     kRequired,
     {kModel, kAllPle, kNo}},
    {"per_layer_proj_norm.weight",
     When::kPle,
     kRequired,
     {Dim::kPle, kNo, kNo}},
    {"altup_proj.weight",
     When::kAltup,
     kRequired,
     {kModel, kModel, kOtherStreams}},
    {"altup_unembd_proj.weight",
     When::kAltup,
     kRequired,
     {kModel, kModel, kOtherStreams}},
});

constexpr WeightKind kExpert = WeightKind::kExpert;

constexpr auto kLayerRoles = std::to_array<Role>({
    {"attn_norm.weight", When::kAlways, kRequired, {kModel, kNo, kNo}},
    {"attn_q.weight", When::kSeparateQkv, kRequired, {kModel, kQuery, kNo}},
    {"attn_k.weight", When::kOwnKv, kRequired, {kModel, kKv, kNo}},
    {"attn_v.weight", When::kOwnValues, kRequired, {kModel, kKv, kNo}},
    {"attn_qkv.weight", When::kFusedQkv, kRequired, {kModel, kQkv, kNo}},
    {"attn_output.weight", When::kAlways, kRequired, {kQuery, kModel, kNo}},
    {"attn_q_norm.weight", When::kQkNorm, kRequired, {kHead, kNo, kNo}},
    {"attn_k_norm.weight", When::kOwnKNorm, kRequired, {kHead, kNo, kNo}},
    {"attn_q.bias", When::kOptionalBias, kOptional, {kQuery, kNo, kNo}},
    {"attn_k.bias", When::kOptionalBias, kOptional, {kKv, kNo, kNo}},
    {"attn_v.bias", When::kOptionalBias, kOptional, {kKv, kNo, kNo}},
    {"attn_output.bias", When::kOptionalBias, kOptional, {kModel, kNo, kNo}},
    {"attn_q.bias", When::kQkvBias, kRequired, {kQuery, kNo, kNo}},
    {"attn_k.bias", When::kQkvBias, kRequired, {kKv, kNo, kNo}},
    {"attn_v.bias", When::kQkvBias, kRequired, {kKv, kNo, kNo}},
    {"attn_output.bias", When::kOutputBias, kRequired, {kModel, kNo, kNo}},
    {"attn_sinks.weight", When::kSinks, kRequired, {kHeads, kNo, kNo}},
    {"post_attention_norm.weight",
     When::kPostNorms,
     kRequired,
     {kModel, kNo, kNo}},
    {"post_attention_norm.weight",
     When::kPreFfnNormByName,
     kRequired,
     {kModel, kNo, kNo}},
    {"ffn_norm.weight", When::kNotGptOss, kRequired, {kModel, kNo, kNo}},
    {"ffn_gate.weight", When::kGatedFfn, kRequired, {kModel, kFfn, kNo}},
    {"ffn_up.weight", When::kGatedFfn, kRequired, {kModel, kFfn, kNo}},
    {"ffn_down.weight", When::kGatedFfn, kRequired, {kFfn, kModel, kNo}},
    {"ffn_up.weight", When::kFusedFfn, kRequired, {kModel, kTwoFfn, kNo}},
    {"ffn_down.weight", When::kFusedFfn, kRequired, {kFfn, kModel, kNo}},
    {"post_ffw_norm.weight", When::kPostNorms, kRequired, {kModel, kNo, kNo}},
    {"layer_output_scale.weight", When::kLayerScale, kUsual, {kOne, kNo, kNo}},
    {"ffn_gate_inp.weight",
     When::kExperts,
     kRequired,
     {kModel, Dim::kExperts, kNo}},
    {"ffn_gate_exps.weight",
     When::kExpertsSplit,
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
     kExpert},
    {"ffn_down_exps.weight",
     When::kExperts,
     kRequired,
     {kExpertFfn, kModel, Dim::kExperts},
     kExpert},
    {"ffn_gate_inp.bias",
     When::kExpertBias,
     kRequired,
     {Dim::kExperts, kNo, kNo}},
    {"ffn_gate_exps.bias",
     When::kExpertBias,
     kRequired,
     {kExpertFfn, Dim::kExperts, kNo},
     kExpert},
    {"ffn_up_exps.bias",
     When::kExpertBias,
     kRequired,
     {kExpertFfn, Dim::kExperts, kNo},
     kExpert},
    {"ffn_down_exps.bias",
     When::kExpertBias,
     kRequired,
     {kModel, Dim::kExperts, kNo},
     kExpert},
    {"ffn_gate_inp.scale",
     When::kExpertsBesideFfn,
     kRequired,
     {kModel, kNo, kNo}},
    {"ffn_down_exps.scale",
     When::kExpertsBesideFfn,
     kRequired,
     {Dim::kExperts, kNo, kNo}},
    {"pre_ffw_norm_2.weight",
     When::kExpertsBesideFfn,
     kRequired,
     {kModel, kNo, kNo}},
    {"post_ffw_norm_1.weight",
     When::kExpertsBesideFfn,
     kRequired,
     {kModel, kNo, kNo}},
    {"post_ffw_norm_2.weight",
     When::kExpertsBesideFfn,
     kRequired,
     {kModel, kNo, kNo}},
    {"inp_gate.weight", When::kPle, kRequired, {kModel, Dim::kPle, kNo}},
    {"proj.weight", When::kPle, kRequired, {Dim::kPle, kModel, kNo}},
    {"post_norm.weight", When::kPle, kRequired, {kModel, kNo, kNo}},
    {"altup_correct_coef.weight",
     When::kAltup,
     kRequired,
     {kStreams, kStreams, kNo}},
    {"altup_correct_scale.weight", When::kAltup, kRequired, {kModel, kNo, kNo}},
    {"altup_predict_coef.weight",
     When::kAltup,
     kRequired,
     {kStreams, kStreamPairs, kNo}},
    {"altup_router.weight", When::kAltup, kRequired, {kModel, kStreams, kNo}},
    {"altup_router_norm.weight", When::kAltup, kRequired, {kModel, kNo, kNo}},
    {"laurel_l.weight", When::kAltup, kRequired, {kModel, kLaurel, kNo}},
    {"laurel_r.weight", When::kAltup, kRequired, {kLaurel, kModel, kNo}},
    {"laurel_post_norm.weight", When::kAltup, kRequired, {kModel, kNo, kNo}},
});

// The widths are at most kMaxDim and counts too, so no product overflows.
int64_t SizeOf(Dim dim, const TensorContext& context, const LayerShape& layer) {
  constexpr int64_t kLaurelRank = 64;
  const ModelShape& shape = context.shape;
  const int64_t query = shape.n_heads * layer.head_dim;
  const int64_t kv = layer.n_kv_heads * layer.head_dim;
  switch (dim) {
    case kNone:
    case kOne:
      return 1;
    case kModel:
      return shape.model_dim;
    case kVocab:
      return shape.vocab_size;
    case kQuery:
      return query;
    case kKv:
      return kv;
    case kQkv:
      return query + 2 * kv;
    case kHead:
      return layer.head_dim;
    case kHeads:
      return shape.n_heads;
    case kFfn:
      return layer.ffn_dim;
    case kTwoFfn:
      return 2 * layer.ffn_dim;
    case kExpertFfn:
      return layer.expert_ffn_dim;
    case kTwoExpertFfn:
      return 2 * layer.expert_ffn_dim;
    case Dim::kExperts:
      return shape.n_experts;
    case kRotary:
      return context.n_rot / 2;
    case Dim::kPle:
      return shape.ple_dim;
    case kAllPle:
      return shape.ple_dim * shape.n_layers;
    case kStreams:
      return shape.n_streams;
    case kStreamPairs:
      return shape.n_streams * shape.n_streams;
    case kOtherStreams:
      return shape.n_streams - 1;
    case kLaurel:
      break;
  }
  return kLaurelRank;
}

bool Holds(When when, const TensorContext& context, const LayerShape& layer) {
  const ModelShape& shape = context.shape;
  const Architecture& a = context.architecture;
  const bool has_experts = layer.expert_ffn_dim > 0;
  switch (when) {
    case When::kAlways:
      return true;
    case When::kNotGptOss:
      return !a.has_sinks;
    case When::kPreFfnNormByName:
    case When::kSinks:
      return a.has_sinks;
    case When::kSeparateQkv:
    case When::kOwnKv:
    case When::kOwnValues:
      return !context.is_qkv_fused;
    case When::kFusedQkv:
      return context.is_qkv_fused;
    case When::kQkNorm:
    case When::kOwnKNorm:
      return a.has_qk_norm;
    case When::kOptionalBias:
      return a.biases == BiasRule::kOptional;
    case When::kQkvBias:
      return a.biases == BiasRule::kQkv || a.biases == BiasRule::kQkvAndOutput;
    case When::kOutputBias:
      return a.biases == BiasRule::kQkvAndOutput;
    case When::kPostNorms:
      return a.has_post_norms;
    case When::kGatedFfn:
      return layer.ffn_dim > 0 && !a.is_fused;
    case When::kFusedFfn:
      return a.is_fused;
    case When::kLayerScale:
      return a.has_layer_scale;
    case When::kExperts:
      return has_experts;
    case When::kExpertsSplit:
      return has_experts && !context.is_gate_up_fused;
    case When::kExpertsFused:
      return has_experts && context.is_gate_up_fused;
    case When::kExpertBias:
      return has_experts && a.has_sinks;
    case When::kExpertsBesideFfn:
      return has_experts && a.is_gated_by_residual;
    case When::kPle:
      return shape.ple_dim > 0;
    case When::kAltup:
      break;
  }
  return a.has_altup;
}

// Layers that read another layer's keys and values may ship theirs.
bool IsIgnored(When when, bool owns_kv) {
  return !owns_kv && (when == When::kOwnKv || when == When::kOwnValues ||
                      when == When::kOwnKNorm);
}

TensorSpec SpecOf(const Role& role, const TensorContext& context,
                  const LayerShape& layer, std::string name) {
  TensorSpec spec = {.name = std::move(name),
                     .ne = {1, 1, 1, 1},
                     .is_vector = role.dims[1] == kNo,
                     .is_optional = role.presence != kRequired,
                     .is_usual = role.presence != kOptional,
                     .is_ignored = false,
                     .kind = role.kind};
  for (size_t i = 0; i < role.dims.size(); ++i) {
    spec.ne[i] = SizeOf(role.dims[i], context, layer);
  }
  // Full layers whose values are their keys have no projection for them.
  if (role.when == When::kOwnValues && layer.window == 0 &&
      context.architecture.has_layer_scale) {
    spec.is_optional = true;
    spec.is_usual = false;
  }
  return spec;
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

}  // namespace

std::vector<TensorSpec> TensorSpecs(const TensorContext& context) {
  std::vector<TensorSpec> specs;
  const std::vector<LayerShape>& layers = context.shape.layers;
  specs.reserve(kModelRoles.size() + layers.size() * kLayerRoles.size() / 2);
  const LayerShape& first = layers.front();
  for (const Role& role : kModelRoles) {
    if (!Holds(role.when, context, first)) continue;
    specs.push_back(SpecOf(role, context, first, std::string(role.name)));
  }
  for (size_t il = 0; il < layers.size(); ++il) {
    const bool owns_kv = layers[il].kv_source == static_cast<int64_t>(il);
    for (const Role& role : kLayerRoles) {
      if (!Holds(role.when, context, layers[il])) continue;
      specs.push_back(SpecOf(role, context, layers[il],
                             absl::StrCat("blk.", il, ".", role.name)));
      if (!IsIgnored(role.when, owns_kv)) continue;
      specs.back().is_optional = true;
      specs.back().is_usual = false;
      specs.back().is_ignored = true;
    }
  }
  return specs;
}

absl::StatusOr<std::vector<WeightTensor>> CheckTensors(
    const GgufHeader& header, const TensorContext& context) {
  const std::vector<TensorSpec> specs = TensorSpecs(context);
  absl::flat_hash_map<absl::string_view, size_t> index;
  index.reserve(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) index[specs[i].name] = i;
  std::vector<bool> is_present(specs.size(), false);
  std::vector<WeightTensor> weights;
  weights.reserve(header.tensors.size());
  for (const GgufTensor& tensor : header.tensors) {
    const auto it = index.find(tensor.name);
    if (it == index.end()) return Unknown(tensor);
    const TensorSpec& spec = specs[it->second];
    RETURN_IF_ERROR(CheckTensor(tensor, spec));
    is_present[it->second] = true;
    if (spec.is_ignored) continue;
    // The reader checked that offset and size stay within the file.
    weights.push_back({.name = tensor.name,
                       .dtype = tensor.dtype,
                       .cols = spec.ne[0],
                       .rows = spec.ne[1],
                       .is_vector = spec.is_vector,
                       .file_offset = header.data_offset + tensor.offset,
                       .file_bytes = tensor.bytes,
                       .n_matrices = spec.ne[2],
                       .kind = spec.kind});
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    if (is_present[i] || specs[i].is_optional) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"", specs[i].name, "\" is missing"));
  }
  return weights;
}

}  // namespace plimsoll::planner
