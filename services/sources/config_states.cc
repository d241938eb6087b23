#include "services/sources/config_states.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "planner/model/model_shape.h"

namespace plimsoll::services {
namespace {

using planner::Architecture;
using planner::GgufType;
using planner::HeaderNumbers;
using planner::ModelShape;

// A width of config.json and the header's key for it, after "A.". Each family
// has its own names.
struct WidthKey {
  absl::string_view from;
  absl::string_view to;
};

constexpr WidthKey kWidths[] = {
    {"conv_L_cache", "shortconv.l_cache"},
    {"linear_conv_kernel_dim", "ssm.conv_kernel"},
    {"mamba_d_conv", "ssm.conv_kernel"},
    {"conv_kernel", "ssm.conv_kernel"},
    {"linear_key_head_dim", "ssm.state_size"},
    {"mamba_d_state", "ssm.state_size"},
    {"ssm_state_size", "ssm.state_size"},
    {"linear_num_key_heads", "ssm.group_count"},
    {"mamba_n_groups", "ssm.group_count"},
    {"n_groups", "ssm.group_count"},
    {"linear_num_value_heads", "ssm.time_step_rank"},
    {"mamba_n_heads", "ssm.time_step_rank"},
    {"mamba_num_heads", "ssm.time_step_rank"},
};

// The heads of a state and the width of each.
struct HeadFields {
  absl::string_view count;
  absl::string_view width;
};

constexpr HeadFields kHeads[] = {
    {"linear_num_value_heads", "linear_value_head_dim"},
    {"mamba_n_heads", "mamba_d_head"},
    {"mamba_num_heads", "mamba_head_dim"},
};

enum class LayerKind { kState, kAttention, kFfn, kExperts };

struct LayerWord {
  absl::string_view word;
  LayerKind kind;
};

constexpr LayerWord kLayerWords[] = {
    {"linear_attention", LayerKind::kState},
    {"conv", LayerKind::kState},
    {"mamba", LayerKind::kState},
    {"full_attention", LayerKind::kAttention},
    {"attention", LayerKind::kAttention},
    {"mlp", LayerKind::kFfn},
    {"moe", LayerKind::kExperts},
    // Letters of hybrid_override_pattern.
    {"M", LayerKind::kState},
    {"*", LayerKind::kAttention},
    {"-", LayerKind::kFfn},
    {"E", LayerKind::kExperts},
};

// The layers as config.json lists them, and the field that does so.
struct LayerList {
  absl::string_view field = "layer_types";
  std::vector<LayerKind> kinds = {};  // empty: there is no list

  bool Has(LayerKind kind) const { return absl::c_linear_search(kinds, kind); }
  // A list for a header: `value` where a layer is of this kind, and 0
  // elsewhere.
  std::vector<double> Where(LayerKind kind, uint64_t value) const {
    std::vector<double> list;
    for (const LayerKind each : kinds) {
      list.push_back(each == kind ? static_cast<double>(value) : 0);
    }
    return list;
  }
};

absl::Status AddWord(absl::string_view word, LayerList& list) {
  for (const LayerWord& known : kLayerWords) {
    if (word != known.word) continue;
    list.kinds.push_back(known.kind);
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat("config.json: \"", list.field, "\" has a layer \"",
                   word.substr(0, 64), "\", which is not known"));
}

// The layers of `indices` attend, and the others of num_hidden_layers keep a
// state.
absl::StatusOr<LayerList> ListWithIndices(const ConfigObject& config,
                                          absl::string_view field,
                                          const ConfigValue& indices) {
  LayerList list = {.field = field};
  ASSIGN_OR_RETURN(const uint64_t n_layers,
                   RequiredCount(config, "num_hidden_layers"));
  if (n_layers > static_cast<uint64_t>(ModelShape::kMaxLayers)) {
    return BadField("num_hidden_layers",
                    absl::StrCat("is more than ", ModelShape::kMaxLayers));
  }
  list.kinds.assign(n_layers, LayerKind::kState);
  for (const ConfigValue& item : indices.list_value().values()) {
    ASSIGN_OR_RETURN(const uint64_t il, CountOf(item, field));
    if (il >= n_layers) return BadField(field, "names a layer past the last");
    list.kinds[il] = LayerKind::kAttention;
  }
  return list;
}

absl::StatusOr<LayerList> ListOf(const ConfigObject& config) {
  for (const absl::string_view field : {"layer_types", "layers_block_type"}) {
    const ConfigValue* words = FindField(config, field);
    if (words == nullptr) continue;
    LayerList list = {.field = field};
    for (const ConfigValue& item : words->list_value().values()) {
      RETURN_IF_ERROR(AddWord(item.string_value(), list));
    }
    return list;
  }
  LayerList list = {.field = "hybrid_override_pattern"};
  const std::string letters = TextOf(config, list.field);
  for (size_t i = 0; i < letters.size(); ++i) {
    RETURN_IF_ERROR(AddWord(absl::string_view(letters).substr(i, 1), list));
  }
  if (!letters.empty()) return list;
  constexpr absl::string_view kIndices = "full_attn_idxs";
  const ConfigValue* indices = FindField(config, kIndices);
  if (indices == nullptr) return LayerList{};
  return ListWithIndices(config, kIndices, *indices);
}

// The width of all heads of a state.
absl::Status AddInnerWidth(const ConfigObject& config, HeaderNumbers& out) {
  constexpr auto kMax = static_cast<uint64_t>(ModelShape::kMaxDim);
  for (const HeadFields& heads : kHeads) {
    if (FindField(config, heads.count) == nullptr) continue;
    absl::string_view first = heads.count;
    absl::string_view second = heads.width;
    // Granite's configs may leave the width of a head to the number of heads.
    if (TextOf(config, second) == "auto") {
      first = "mamba_expand";
      second = "hidden_size";
    }
    ASSIGN_OR_RETURN(const uint64_t count, RequiredCount(config, first));
    ASSIGN_OR_RETURN(const uint64_t width, RequiredCount(config, second));
    if (count > kMax) return BadField(first, absl::StrCat("is over ", kMax));
    if (width > kMax) return BadField(second, absl::StrCat("is over ", kMax));
    out.Int("ssm.inner_size", count * width);
  }
  return absl::OkStatus();
}

// The widths of layers that are an FFN alone.
absl::Status AddFfnWidths(const ConfigObject& config, const LayerList& list,
                          HeaderNumbers& out) {
  const bool has_experts = list.Has(LayerKind::kExperts);
  if (has_experts && list.Has(LayerKind::kFfn)) {
    return absl::UnimplementedError(
        absl::StrCat("config.json: \"", list.field,
                     "\" has FFNs with experts and FFNs without"));
  }
  constexpr absl::string_view kLatent = "moe_latent_size";
  if (has_experts && FindField(config, kLatent) != nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("config.json: \"", kLatent,
                     "\" is set; experts of a narrower input are not planned"));
  }
  ASSIGN_OR_RETURN(const uint64_t width,
                   RequiredCount(config, has_experts ? "moe_intermediate_size"
                                                     : "intermediate_size"));
  out.List(
      "feed_forward_length", GgufType::kU32,
      list.Where(has_experts ? LayerKind::kExperts : LayerKind::kFfn, width));
  return absl::OkStatus();
}

}  // namespace

bool ListsExpertLayers(const ConfigObject& config) {
  const absl::StatusOr<LayerList> list = ListOf(config);
  return list.ok() && list->Has(LayerKind::kExperts);
}

absl::Status AddStates(const ConfigObject& config,
                       const Architecture& architecture, HeaderNumbers& out) {
  for (const WidthKey& key : kWidths) {
    const ConfigValue* value = FindField(config, key.from);
    if (value == nullptr) continue;
    ASSIGN_OR_RETURN(const uint64_t width, CountOf(*value, key.from));
    out.Int(key.to, width);
  }
  RETURN_IF_ERROR(AddInnerWidth(config, out));
  ASSIGN_OR_RETURN(const LayerList list, ListOf(config));
  const bool has_ffn_layers =
      list.Has(LayerKind::kFfn) || list.Has(LayerKind::kExperts);
  if (has_ffn_layers && !architecture.has_single_sublayers) {
    return BadField(list.field, absl::StrCat("has layers without a mixer, "
                                             "which ",
                                             architecture.name, " has not"));
  }
  if (architecture.recurrent_layers == planner::RecurrentRule::kInterval) {
    // Without a list, full_attention_interval says it.
    if (!list.kinds.empty()) {
      out.List("attention.recurrent_layers", GgufType::kBool,
               list.Where(LayerKind::kState, 1));
    }
    return absl::OkStatus();
  }
  if (list.kinds.empty()) return BadField(list.field, "is missing");
  ASSIGN_OR_RETURN(const uint64_t n_kv_heads,
                   RequiredCount(config, "num_key_value_heads"));
  out.List("attention.head_count_kv", GgufType::kU32,
           list.Where(LayerKind::kAttention, n_kv_heads));
  if (!architecture.has_single_sublayers) return absl::OkStatus();
  return AddFfnWidths(config, list, out);
}

}  // namespace plimsoll::services
