#include "services/sources/model_source.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/gguf/header_numbers.h"
#include "services/sources/config_json.h"
#include "services/sources/header_bytes.h"
#include "services/wire/from_proto.h"

namespace plimsoll::services {
namespace {

using planner::GgufHeader;
using planner::GgufType;
using planner::HeaderNumbers;

// One value for each layer; empty if there are none.
template <typename Values>
void PerLayer(absl::string_view key, GgufType type, const Values& values,
              HeaderNumbers& out) {
  if (!values.empty()) out.List(key, type, {values.begin(), values.end()});
}

void WriteAttention(const v1::Hyperparameters& numbers, HeaderNumbers& out) {
  out.Int("attention.head_count", numbers.n_heads());
  if (numbers.has_n_kv_heads()) {
    out.Int("attention.head_count_kv", numbers.n_kv_heads());
  }
  PerLayer("attention.head_count_kv", GgufType::kU32, numbers.layer_kv_heads(),
           out);
  if (numbers.has_head_dim()) {
    out.Int("attention.key_length", numbers.head_dim());
    out.Int("attention.value_length", numbers.head_dim());
  }
  if (numbers.has_window_head_dim()) {
    out.Int("attention.key_length_swa", numbers.window_head_dim());
    out.Int("attention.value_length_swa", numbers.window_head_dim());
  }
  out.Int("attention.sliding_window", numbers.window());
  PerLayer("attention.sliding_window_pattern", GgufType::kBool,
           numbers.slides(), out);
  out.Int("attention.shared_kv_layers", numbers.n_shared_kv_layers());
}

void WriteWidths(const v1::Hyperparameters& numbers, HeaderNumbers& out) {
  out.Int("block_count", numbers.n_layers());
  out.Int("context_length", numbers.n_ctx_train());
  out.Int("embedding_length", numbers.model_dim());
  out.Int("feed_forward_length", numbers.ffn_dim());
  out.Int("vocab_size", numbers.vocab_size());
  out.Int("embedding_length_per_layer_input",
          numbers.per_layer_embedding_dim());
  out.Int("expert_count", numbers.n_experts());
  if (numbers.has_n_experts_used()) {
    out.Int("expert_used_count", numbers.n_experts_used());
  }
  if (numbers.has_expert_ffn_dim()) {
    out.Int("expert_feed_forward_length", numbers.expert_ffn_dim());
  }
}

absl::StatusOr<planner::TensorTypes> TypesOf(
    const v1::Hyperparameters& numbers) {
  planner::TensorTypes types = {DType::kBF16, DType::kBF16, DType::kBF16};
  if (numbers.weight_type() != v1::ELEMENT_TYPE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(types.dense,
                     FromProto(numbers.weight_type(), "weight_type"));
    types.embedding = types.experts = types.dense;
  }
  if (numbers.embedding_type() != v1::ELEMENT_TYPE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(types.embedding,
                     FromProto(numbers.embedding_type(), "embedding_type"));
  }
  if (numbers.expert_type() != v1::ELEMENT_TYPE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(types.experts,
                     FromProto(numbers.expert_type(), "expert_type"));
  }
  return types;
}

}  // namespace

absl::StatusOr<GgufHeader> HeaderFromNumbers(
    const v1::Hyperparameters& numbers) {
  constexpr int kMaxLists = planner::ModelShape::kMaxLayers;
  if (numbers.layer_kv_heads_size() > kMaxLists ||
      numbers.slides_size() > kMaxLists) {
    return absl::InvalidArgumentError(
        absl::StrCat("hyperparameters: layer_kv_heads and slides have at most ",
                     kMaxLists, " values"));
  }
  HeaderNumbers out(numbers.architecture());
  WriteWidths(numbers, out);
  WriteAttention(numbers, out);
  ASSIGN_OR_RETURN(const planner::TensorTypes types, TypesOf(numbers));
  RETURN_IF_ERROR(
      planner::AddTensors(out.header(), types, numbers.tied_output()));
  return std::move(out.header());
}

absl::StatusOr<planner::ModelShape> ShapeFromSource(
    const v1::ModelSource& source) {
  switch (source.source_case()) {
    case v1::ModelSource::kHeader:
      return ShapeFromHeaderBytes(source.header().gguf(),
                                  source.header().file_bytes());
    case v1::ModelSource::kConfigJson: {
      ASSIGN_OR_RETURN(const GgufHeader header,
                       HeaderFromConfig(source.config_json()));
      return planner::ShapeFromGguf(header);
    }
    case v1::ModelSource::kHyperparameters: {
      ASSIGN_OR_RETURN(const GgufHeader header,
                       HeaderFromNumbers(source.hyperparameters()));
      return planner::ShapeFromGguf(header);
    }
    default:
      return absl::InvalidArgumentError(
          "source: a model, a header, a config_json or hyperparameters are "
          "needed");
  }
}

}  // namespace plimsoll::services
