#include "services/sources/config_json.h"

#include <google/protobuf/util/json_util.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/gguf/header_numbers.h"
#include "planner/model/architectures.h"
#include "planner/model/model_shape.h"
#include "services/sources/config_fields.h"
#include "services/sources/config_states.h"
#include "services/sources/config_values.h"

namespace plimsoll::services {
namespace {

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
    {"block_ff_dim", "feed_forward_length"},
    {"max_position_embeddings", "context_length"},
    {"num_attention_heads", "attention.head_count"},
    {"num_key_value_heads", "attention.head_count_kv"},
    {"head_dim", "attention.key_length"},
    {"head_dim", "attention.value_length"},
    {"attention_head_dim", "attention.key_length"},
    {"attention_head_dim", "attention.value_length"},
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
    {"moe_shared_expert_intermediate_size",
     "expert_shared_feed_forward_length"},
    {"interleave_moe_layer_step", "interleave_moe_layer_step"},
    {"moe_layer_interval", "interleave_moe_layer_step"},
};

// Reads one object and writes the header's metadata from it.
class ConfigReader {
 public:
  ConfigReader(const ConfigObject& config, const Architecture& architecture,
               HeaderNumbers& out)
      : config_(config), architecture_(architecture), out_(out) {}

  absl::Status Run() {
    for (const CountKey& key : kCounts) {
      RETURN_IF_ERROR(SetCounts(key.from, key.to));
    }
    RETURN_IF_ERROR(SetDenseWidth());
    if (architecture_.mixer == planner::MixerKind::kLatentAttention) {
      RETURN_IF_ERROR(SetLatentHeads());
    }
    if (architecture_.recurrent_layers != planner::RecurrentRule::kNone) {
      RETURN_IF_ERROR(AddStates(config_, architecture_, out_));
    }
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
  // Takes a number, or a list with one for each layer.
  absl::Status SetCounts(absl::string_view name, absl::string_view suffix) {
    const ConfigValue* value = FindField(config_, name);
    if (value == nullptr) return absl::OkStatus();
    if (!value->has_list_value()) {
      ASSIGN_OR_RETURN(const uint64_t count, CountOf(*value, name));
      out_.Int(suffix, count);
      return absl::OkStatus();
    }
    std::vector<double> numbers;
    for (const ConfigValue& item : value->list_value().values()) {
      ASSIGN_OR_RETURN(const uint64_t count, CountOf(item, name));
      numbers.push_back(static_cast<double>(count));
    }
    out_.List(suffix, GgufType::kU32, std::move(numbers));
    return absl::OkStatus();
  }

  absl::Status SetDenseWidth() {
    RETURN_IF_ERROR(SetAdjustedWidth());
    // Granite 4 without experts gives its FFNs the shared expert's name.
    ASSIGN_OR_RETURN(const auto n_experts,
                     NumberOf(config_, "num_local_experts"));
    if (n_experts == 0.0) {
      RETURN_IF_ERROR(
          SetCounts("shared_intermediate_size", "feed_forward_length"));
    }
    // Llama 4 calls the width of its experts intermediate_size, and that of its
    // dense layers intermediate_size_mlp.
    constexpr absl::string_view kDense = "intermediate_size_mlp";
    if (FindField(config_, kDense) == nullptr) return absl::OkStatus();
    RETURN_IF_ERROR(
        SetCounts("intermediate_size", "expert_feed_forward_length"));
    return SetCounts(kDense, "feed_forward_length");
  }

  // LFM2's FFNs have two thirds of the width that the config names, times a
  // factor, rounded up to a multiple.
  absl::Status SetAdjustedWidth() {
    constexpr absl::string_view kMultiple = "block_multiple_of";
    const ConfigValue* adjusts = FindField(config_, "block_auto_adjust_ff_dim");
    if (FindField(config_, kMultiple) == nullptr ||
        (adjusts != nullptr && !adjusts->bool_value())) {
      return absl::OkStatus();
    }
    const bool has_block_width = FindField(config_, "block_ff_dim") != nullptr;
    ASSIGN_OR_RETURN(
        const uint64_t width,
        RequiredCount(config_,
                      has_block_width ? "block_ff_dim" : "intermediate_size"));
    ASSIGN_OR_RETURN(const uint64_t multiple,
                     RequiredCount(config_, kMultiple));
    ASSIGN_OR_RETURN(const auto factor,
                     NumberOf(config_, "block_ffn_dim_multiplier"));
    constexpr auto kMax = static_cast<uint64_t>(planner::ModelShape::kMaxDim);
    const uint64_t two_thirds = 2 * width / 3;
    const double adjusted =
        factor.value_or(1) * static_cast<double>(two_thirds);
    if (multiple < 1 || multiple > kMax || !(adjusted >= 0) ||
        adjusted > static_cast<double>(kMax)) {
      return BadField(kMultiple, "gives no width that a model may have");
    }
    const auto whole = static_cast<uint64_t>(adjusted);
    out_.Int("feed_forward_length",
             (whole + multiple - 1) / multiple * multiple);
    return absl::OkStatus();
  }

  // A file's keys are of attention over the cache, whose rows all heads share.
  absl::Status SetLatentHeads() {
    ASSIGN_OR_RETURN(const uint64_t rank,
                     RequiredCount(config_, "kv_lora_rank"));
    ASSIGN_OR_RETURN(const uint64_t rotated,
                     RequiredCount(config_, "qk_rope_head_dim"));
    ASSIGN_OR_RETURN(const uint64_t plain,
                     RequiredCount(config_, "qk_nope_head_dim"));
    ASSIGN_OR_RETURN(const uint64_t value,
                     RequiredCount(config_, "v_head_dim"));
    out_.Int("attention.kv_lora_rank", rank)
        .Int("attention.head_count_kv", 1)
        .Int("attention.key_length", rank + rotated)
        .Int("attention.value_length", rank)
        .Int("attention.key_length_mla", plain + rotated)
        .Int("attention.value_length_mla", value)
        .Int("rope.dimension_count", rotated);
    return SetCounts("q_lora_rank", "attention.q_lora_rank");
  }

  // Sets which layers have a window.
  absl::Status SetPattern() {
    if (architecture_.windows != planner::WindowRule::kPattern) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(SetPeriod());
    const ConfigValue* types = FindField(config_, "layer_types");
    if (types == nullptr) return absl::OkStatus();
    const absl::string_view with_window = architecture_.windows_are_chunks
                                              ? "chunked_attention"
                                              : "sliding_attention";
    for (const ConfigValue& item : types->list_value().values()) {
      slides_.push_back(item.string_value() == with_window ? 1 : 0);
      if (slides_.back() == 0 && item.string_value() != "full_attention") {
        return BadField("layer_types",
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
    const ConfigValue* period = FindField(config_, kName);
    if (period == nullptr || !period->has_string_value()) {
      return SetCounts(kName, kSuffix);
    }
    const std::string& letters = period->string_value();
    if (letters.empty() || letters.find('G') != letters.size() - 1) {
      return BadField(kName, "does not end with its only G");
    }
    out_.Int(kSuffix, letters.size());
    return absl::OkStatus();
  }

  // Gemma 4 has full-attention layers with a head_dim of their own.
  absl::Status SetGlobalHeads() {
    const ConfigValue* dim = FindField(config_, "global_head_dim");
    if (dim != nullptr) {
      ASSIGN_OR_RETURN(const uint64_t count, CountOf(*dim, "global_head_dim"));
      const ConfigValue* local = FindField(config_, "head_dim");
      if (local == nullptr) {
        return BadField("head_dim", "is missing beside global_head_dim");
      }
      ASSIGN_OR_RETURN(const uint64_t local_count, CountOf(*local, "head_dim"));
      for (const char* key :
           {"attention.key_length", "attention.value_length"}) {
        out_.Int(key, count).Int(absl::StrCat(key, "_swa"), local_count);
      }
    }
    const ConfigValue* heads = FindField(config_, "num_global_key_value_heads");
    const ConfigValue* local_heads = FindField(config_, "num_key_value_heads");
    if (heads == nullptr || local_heads == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(const uint64_t n_global,
                     CountOf(*heads, "num_global_key_value_heads"));
    ASSIGN_OR_RETURN(const uint64_t n_local,
                     CountOf(*local_heads, "num_key_value_heads"));
    std::vector<double> per_layer;
    for (const double slides : slides_) {
      per_layer.push_back(
          static_cast<double>(slides != 0 ? n_local : n_global));
    }
    out_.List("attention.head_count_kv", GgufType::kU32, std::move(per_layer));
    return absl::OkStatus();
  }

  const ConfigObject& config_;
  const Architecture& architecture_;
  HeaderNumbers& out_;
  std::vector<double> slides_;
};

absl::StatusOr<const Architecture*> ArchitectureOf(const ConfigObject& config) {
  std::string name = TextOf(config, "model_type");
  if (name.empty()) return BadField("model_type", "is missing");
  if (ListsExpertLayers(config) && !absl::EndsWith(name, "_moe")) {
    name += "_moe";
  }
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

absl::StatusOr<TensorTypes> TypesOf(const ConfigObject& config) {
  std::string name = TextOf(config, "dtype");
  if (name.empty()) name = TextOf(config, "torch_dtype");
  TensorTypes types;
  if (name == "float32") types.dense = DType::kF32;
  if (name == "float16") types.dense = DType::kF16;
  types.experts = types.dense;
  const ConfigValue* quantised = FindField(config, "quantization_config");
  if (quantised == nullptr) return types;
  const std::string method = TextOf(quantised->struct_value(), "quant_method");
  if (method != "mxfp4") {
    return absl::UnimplementedError(
        absl::StrCat("config.json: quantization_config.quant_method \"",
                     method.substr(0, 64), "\" is not known"));
  }
  types.experts = DType::kMxfp4;
  return types;
}

absl::StatusOr<ConfigObject> ParseObject(absl::string_view json) {
  if (static_cast<int64_t>(json.size()) > kMaxConfigBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("config.json has ", json.size(), " bytes, at most ",
                     kMaxConfigBytes, " are accepted"));
  }
  ConfigObject whole;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(std::string(json), &whole);
  if (parsed.ok()) return whole;
  return absl::InvalidArgumentError(
      absl::StrCat("config.json is not a JSON object: ",
                   std::string(parsed.message()).substr(0, 200)));
}

// A config of the text part of a model, with its architecture.
struct TextConfig {
  ConfigObject fields;
  const Architecture* architecture;
  TensorTypes types;
  bool is_tied;
};

absl::StatusOr<TextConfig> ParseConfig(absl::string_view json) {
  TextConfig config = {};
  ASSIGN_OR_RETURN(config.fields, ParseObject(json));
  const ConfigObject whole = config.fields;
  auto& fields = *config.fields.mutable_fields();
  // The whole config supplies what its text part does not have.
  if (const ConfigObject* text = FindObject(whole, "text_config")) {
    for (const auto& [name, value] : text->fields()) fields[name] = value;
  }
  ASSIGN_OR_RETURN(config.architecture, ArchitectureOf(config.fields));
  for (const auto& [name, value] : config.architecture->config_defaults) {
    const std::string key(name);
    if (!fields.contains(key)) fields[key].set_number_value(value);
  }
  ASSIGN_OR_RETURN(config.types, TypesOf(config.fields));
  const ConfigValue* tied = FindField(config.fields, "tie_word_embeddings");
  config.is_tied =
      tied == nullptr ? config.architecture->is_tied : tied->bool_value();
  return config;
}

}  // namespace

absl::StatusOr<planner::GgufHeader> HeaderFromConfig(absl::string_view json) {
  ASSIGN_OR_RETURN(const TextConfig config, ParseConfig(json));
  HeaderNumbers numbers(config.architecture->name);
  RETURN_IF_ERROR(
      ConfigReader(config.fields, *config.architecture, numbers).Run());
  RETURN_IF_ERROR(planner::AddTensors(numbers.header(),
                                      {.dense = config.types.dense,
                                       .embedding = config.types.dense,
                                       .experts = config.types.experts},
                                      config.is_tied));
  return std::move(numbers.header());
}

absl::StatusOr<ModelConfig> ModelFromConfig(absl::string_view json) {
  ASSIGN_OR_RETURN(const TextConfig config, ParseConfig(json));
  const Architecture& architecture = *config.architecture;
  if (architecture.recurrent_layers != planner::RecurrentRule::kNone) {
    return absl::UnimplementedError(
        absl::StrCat("config.json: layers of ", architecture.name,
                     " keep a state, and such models are not converted"));
  }
  HeaderNumbers numbers(architecture.name);
  RETURN_IF_ERROR(ConfigReader(config.fields, architecture, numbers).Run());
  RETURN_IF_ERROR(AddComputedValues(config.fields, architecture, numbers));
  ModelConfig model = {.architecture = &architecture,
                       .is_tied = config.is_tied};
  ASSIGN_OR_RETURN(model.vectors,
                   AddRotation(config.fields, architecture, numbers));
  model.header = std::move(numbers.header());
  return model;
}

}  // namespace plimsoll::services
