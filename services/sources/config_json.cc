#include "services/sources/config_json.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/gguf/header_numbers.h"
#include "planner/model/architectures.h"
#include "planner/model/model_shape.h"

namespace plimsoll::services {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;
using planner::Architecture;
using planner::GgufType;
using planner::HeaderNumbers;

// A number of config.json and the header's key for it, after "A.".
struct CountKey {
  absl::string_view from;
  absl::string_view to;
};

constexpr CountKey kCounts[] = {
    {"hidden_size", "embedding_length"},
    {"num_hidden_layers", "block_count"},
    {"intermediate_size", "feed_forward_length"},
    {"max_position_embeddings", "context_length"},
    {"num_attention_heads", "attention.head_count"},
    {"num_key_value_heads", "attention.head_count_kv"},
    {"head_dim", "attention.key_length"},
    {"head_dim", "attention.value_length"},
    {"vocab_size", "vocab_size"},
    {"num_kv_shared_layers", "attention.shared_kv_layers"},
    {"hidden_size_per_layer_input", "embedding_length_per_layer_input"},
    {"altup_num_inputs", "altup.num_inputs"},
    {"num_experts", "expert_count"},
    {"num_local_experts", "expert_count"},
    {"n_routed_experts", "expert_count"},
    {"moe_num_experts", "expert_count"},
    {"n_shared_experts", "expert_shared_count"},
    {"moe_num_shared_experts", "expert_shared_count"},
    {"first_k_dense_replace", "leading_dense_block_count"},
    {"moe_layer_start_index", "leading_dense_block_count"},
    {"num_experts_per_tok", "expert_used_count"},
    {"moe_k", "expert_used_count"},
    {"top_k_experts", "expert_used_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"expert_intermediate_size", "expert_feed_forward_length"},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    {"shared_intermediate_size", "expert_shared_feed_forward_length"},
    {"interleave_moe_layer_step", "interleave_moe_layer_step"},
    {"moe_layer_interval", "interleave_moe_layer_step"},
};

absl::Status Bad(absl::string_view key, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("config.json: \"", key, "\" ", what));
}

// Reads one object and writes the header's metadata from it.
class ConfigReader {
 public:
  ConfigReader(const Struct& config, const Architecture& architecture,
               HeaderNumbers& out)
      : config_(config), architecture_(architecture), out_(out) {}

  absl::Status Run() {
    for (const CountKey& key : kCounts) {
      RETURN_IF_ERROR(SetCounts(key.from, key.to));
    }
    RETURN_IF_ERROR(SetDenseWidth());
    // Other architectures may have a sliding_window that nothing uses.
    if (architecture_.windows == planner::WindowRule::kNone) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(SetCounts(architecture_.windows_are_chunks
                                  ? "attention_chunk_size"
                                  : "sliding_window",
                              "attention.sliding_window"));
    RETURN_IF_ERROR(SetPattern());
    return SetGlobalHeads();
  }

 private:
  const Value* Find(absl::string_view name) const {
    const auto it = config_.fields().find(std::string(name));
    if (it == config_.fields().end() || it->second.has_null_value()) {
      return nullptr;
    }
    return &it->second;
  }

  static absl::StatusOr<uint64_t> Count(const Value& value,
                                        absl::string_view name) {
    constexpr double kMax = 9007199254740992.0;  // doubles are exact up to it
    const double number = value.number_value();
    if (!value.has_number_value() || !(number >= 0 && number <= kMax) ||
        number != std::floor(number)) {
      return Bad(name, "is not a whole number from 0 to 2^53");
    }
    return static_cast<uint64_t>(number);
  }

  // Takes a number, or a list with one for each layer.
  absl::Status SetCounts(absl::string_view name, absl::string_view suffix) {
    const Value* value = Find(name);
    if (value == nullptr) return absl::OkStatus();
    if (!value->has_list_value()) {
      ASSIGN_OR_RETURN(const uint64_t count, Count(*value, name));
      out_.Int(suffix, count);
      return absl::OkStatus();
    }
    std::vector<double> numbers;
    for (const Value& item : value->list_value().values()) {
      ASSIGN_OR_RETURN(const uint64_t count, Count(item, name));
      numbers.push_back(static_cast<double>(count));
    }
    out_.List(suffix, GgufType::kU32, std::move(numbers));
    return absl::OkStatus();
  }

  // Llama 4 calls the width of its experts intermediate_size, and that of its
  // dense layers intermediate_size_mlp.
  absl::Status SetDenseWidth() {
    constexpr absl::string_view kDense = "intermediate_size_mlp";
    if (Find(kDense) == nullptr) return absl::OkStatus();
    RETURN_IF_ERROR(
        SetCounts("intermediate_size", "expert_feed_forward_length"));
    return SetCounts(kDense, "feed_forward_length");
  }

  // Sets which layers have a window.
  absl::Status SetPattern() {
    if (architecture_.windows != planner::WindowRule::kPattern) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(SetPeriod());
    const Value* types = Find("layer_types");
    if (types == nullptr) return absl::OkStatus();
    const absl::string_view with_window = architecture_.windows_are_chunks
                                              ? "chunked_attention"
                                              : "sliding_attention";
    for (const Value& item : types->list_value().values()) {
      slides_.push_back(item.string_value() == with_window ? 1 : 0);
      if (slides_.back() == 0 && item.string_value() != "full_attention") {
        return Bad("layer_types",
                   absl::StrCat("has another kind of attention than ",
                                with_window, " and full_attention"));
      }
    }
    out_.List("attention.sliding_window_pattern", GgufType::kBool, slides_);
    return absl::OkStatus();
  }

  // Sets after how many layers one has full attention. EXAONE 4 writes such
  // layers as letters, like LLLG, of which the last one is G.
  absl::Status SetPeriod() {
    constexpr absl::string_view kName = "sliding_window_pattern";
    constexpr absl::string_view kSuffix = "attention.sliding_window_pattern";
    const Value* period = Find(kName);
    if (period == nullptr || !period->has_string_value()) {
      return SetCounts(kName, kSuffix);
    }
    const std::string& letters = period->string_value();
    if (letters.find('G') != letters.size() - 1) {
      return Bad(kName, "does not end with its only G");
    }
    out_.Int(kSuffix, letters.size());
    return absl::OkStatus();
  }

  // Gemma 4 has full-attention layers with a head_dim of their own.
  absl::Status SetGlobalHeads() {
    const Value* dim = Find("global_head_dim");
    if (dim != nullptr) {
      ASSIGN_OR_RETURN(const uint64_t count, Count(*dim, "global_head_dim"));
      const Value* local = Find("head_dim");
      if (local == nullptr) {
        return Bad("head_dim", "is missing beside global_head_dim");
      }
      ASSIGN_OR_RETURN(const uint64_t local_count, Count(*local, "head_dim"));
      for (const char* key :
           {"attention.key_length", "attention.value_length"}) {
        out_.Int(key, count).Int(absl::StrCat(key, "_swa"), local_count);
      }
    }
    const Value* heads = Find("num_global_key_value_heads");
    const Value* local_heads = Find("num_key_value_heads");
    if (heads == nullptr || local_heads == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(const uint64_t n_global,
                     Count(*heads, "num_global_key_value_heads"));
    ASSIGN_OR_RETURN(const uint64_t n_local,
                     Count(*local_heads, "num_key_value_heads"));
    std::vector<double> per_layer;
    for (const double slides : slides_) {
      per_layer.push_back(
          static_cast<double>(slides != 0 ? n_local : n_global));
    }
    out_.List("attention.head_count_kv", GgufType::kU32, std::move(per_layer));
    return absl::OkStatus();
  }

  const Struct& config_;
  const Architecture& architecture_;
  HeaderNumbers& out_;
  std::vector<double> slides_;
};

std::string TextOf(const Struct& config, const std::string& name) {
  const auto it = config.fields().find(name);
  return it == config.fields().end() ? "" : it->second.string_value();
}

absl::StatusOr<const Architecture*> ArchitectureOf(const Struct& config) {
  const std::string name = TextOf(config, "model_type");
  if (name.empty()) return Bad("model_type", "is missing");
  for (const Architecture* architecture : planner::Architectures()) {
    if (absl::c_linear_search(architecture->config_types, name)) {
      return architecture;
    }
  }
  return absl::UnimplementedError(absl::StrCat(
      "config.json: model_type \"", name.substr(0, 64), "\" is not known"));
}

// The type of most tensors, and the type of experts.
struct TensorTypes {
  DType dense = DType::kBF16;
  DType experts = DType::kBF16;
};

absl::StatusOr<TensorTypes> TypesOf(const Struct& config) {
  std::string name = TextOf(config, "dtype");
  if (name.empty()) name = TextOf(config, "torch_dtype");
  TensorTypes types;
  if (name == "float32") types.dense = DType::kF32;
  if (name == "float16") types.dense = DType::kF16;
  types.experts = types.dense;
  const auto it = config.fields().find("quantization_config");
  if (it == config.fields().end() || it->second.has_null_value()) return types;
  const std::string method = TextOf(it->second.struct_value(), "quant_method");
  if (method != "mxfp4") {
    return absl::UnimplementedError(
        absl::StrCat("config.json: quantization_config.quant_method \"",
                     method.substr(0, 64), "\" is not known"));
  }
  types.experts = DType::kMxfp4;
  return types;
}

}  // namespace

absl::StatusOr<planner::GgufHeader> HeaderFromConfig(absl::string_view json) {
  if (static_cast<int64_t>(json.size()) > kMaxConfigBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("config.json has ", json.size(), " bytes, at most ",
                     kMaxConfigBytes, " are accepted"));
  }
  Struct whole;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(std::string(json), &whole);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("config.json is not a JSON object: ",
                     std::string(parsed.message()).substr(0, 200)));
  }
  const auto text = whole.fields().find("text_config");
  Struct config = whole;
  if (text != whole.fields().end()) {
    // The whole config supplies what its text part does not have.
    for (const auto& [name, value] : text->second.struct_value().fields()) {
      (*config.mutable_fields())[name] = value;
    }
  }
  ASSIGN_OR_RETURN(const Architecture* architecture, ArchitectureOf(config));
  ASSIGN_OR_RETURN(const TensorTypes types, TypesOf(config));
  HeaderNumbers numbers(architecture->name);
  RETURN_IF_ERROR(ConfigReader(config, *architecture, numbers).Run());
  const auto tied = config.fields().find("tie_word_embeddings");
  const bool is_tied = tied == config.fields().end()
                           ? architecture->is_tied
                           : tied->second.bool_value();
  RETURN_IF_ERROR(planner::AddTensors(numbers.header(),
                                      {.dense = types.dense,
                                       .embedding = types.dense,
                                       .experts = types.experts},
                                      is_tied));
  return std::move(numbers.header());
}

}  // namespace plimsoll::services
