#include "services/common/model_source.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/common/config_json.h"
#include "services/common/from_proto.h"
#include "services/common/header_bytes.h"

namespace plimsoll::services {
namespace {

using planner::GgufArray;
using planner::GgufHeader;
using planner::GgufType;

// Writes metadata of one architecture.
class NumbersWriter {
 public:
  NumbersWriter(const std::string& architecture, GgufHeader& header)
      : prefix_(architecture + "."), header_(header) {}

  void Int(absl::string_view key, uint64_t value) {
    header_.metadata[absl::StrCat(prefix_, key)] = {GgufType::kU64, value};
  }
  template <typename List>
  void PerLayer(absl::string_view key, GgufType type, const List& list) {
    if (list.empty()) return;
    std::vector<double> numbers;
    for (const auto value : list) {
      numbers.push_back(static_cast<double>(value));
    }
    const auto n = static_cast<int64_t>(numbers.size());
    header_.metadata[absl::StrCat(prefix_, key)] = {
        GgufType::kArray, GgufArray{type, n, 0, 0, std::move(numbers)}};
  }

 private:
  std::string prefix_;
  GgufHeader& header_;
};

void WriteAttention(const v1::Hyperparameters& numbers, NumbersWriter& out) {
  out.Int("attention.head_count", numbers.n_heads());
  if (numbers.has_n_kv_heads()) {
    out.Int("attention.head_count_kv", numbers.n_kv_heads());
  }
  out.PerLayer("attention.head_count_kv", GgufType::kU32,
               numbers.layer_kv_heads());
  if (numbers.has_head_dim()) {
    out.Int("attention.key_length", numbers.head_dim());
    out.Int("attention.value_length", numbers.head_dim());
  }
  if (numbers.has_window_head_dim()) {
    out.Int("attention.key_length_swa", numbers.window_head_dim());
    out.Int("attention.value_length_swa", numbers.window_head_dim());
  }
  out.Int("attention.sliding_window", numbers.window());
  out.PerLayer("attention.sliding_window_pattern", GgufType::kBool,
               numbers.slides());
  out.Int("attention.shared_kv_layers", numbers.n_shared_kv_layers());
}

void WriteWidths(const v1::Hyperparameters& numbers, NumbersWriter& out) {
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
  GgufHeader header = {};
  header.version = 3;
  header.alignment = 32;
  header.metadata["general.architecture"] = {GgufType::kString,
                                             numbers.architecture()};
  header.metadata["tokenizer.ggml.model"] = {GgufType::kString,
                                             std::string("no_vocab")};
  header.metadata[absl::StrCat(numbers.architecture(),
                               ".attention.layer_norm_rms_epsilon")] = {
      GgufType::kF32, 1e-6};
  NumbersWriter out(numbers.architecture(), header);
  WriteWidths(numbers, out);
  WriteAttention(numbers, out);
  ASSIGN_OR_RETURN(const planner::TensorTypes types, TypesOf(numbers));
  RETURN_IF_ERROR(planner::AddTensors(header, types, numbers.tied_output()));
  return header;
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
