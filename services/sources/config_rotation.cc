#include "services/sources/config_rotation.h"

#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/model/hyperparameters.h"

namespace plimsoll::services {
namespace {

using planner::ModelShape;

absl::Status Unsupported(absl::string_view what) {
  return absl::UnimplementedError(absl::StrCat(
      "config.json: ", what, " cannot be written into a GGUF file"));
}

// Reads one config and writes the keys of the rotation.
class RotationReader {
 public:
  RotationReader(const ConfigObject& config,
                 const planner::Architecture& architecture,
                 planner::HeaderNumbers& out)
      : config_(config), architecture_(architecture), out_(out) {}

  absl::StatusOr<std::vector<ConfigVector>> Run() {
    FindParameters();
    RETURN_IF_ERROR(SetBases());
    RETURN_IF_ERROR(SetRotated());
    if (scaling_ == nullptr) return std::move(vectors_);
    RETURN_IF_ERROR(SetQueryGrowth());
    std::string kind = TextOf(*scaling_, "rope_type");
    if (kind.empty()) kind = TextOf(*scaling_, "type");
    if (kind == "linear") RETURN_IF_ERROR(SetLinear());
    if (kind == "yarn") RETURN_IF_ERROR(SetYarn());
    if (kind == "llama3") RETURN_IF_ERROR(AddLlama3Divisors());
    if (kind == "longrope" || kind == "su") RETURN_IF_ERROR(AddLongDivisors());
    for (const absl::string_view known :
         {"", "default", "linear", "yarn", "llama3", "longrope", "su"}) {
      if (kind == known) return std::move(vectors_);
    }
    return Unsupported(
        absl::StrCat("rope scaling of the type \"", kind.substr(0, 64), "\""));
  }

 private:
  // Newer configs have all in rope_parameters, for all layers or by kind of
  // layer.
  void FindParameters() {
    scaling_ = FindObject(config_, "rope_scaling");
    const ConfigObject* all = FindObject(config_, "rope_parameters");
    if (all == nullptr) return;
    scaling_ = all;
    if (const auto* full = FindObject(*all, "full_attention")) scaling_ = full;
    window_ = FindObject(*all, "sliding_attention");
    with_base_ = scaling_;
  }

  absl::Status SetBases() {
    ASSIGN_OR_RETURN(
        base_, RequiredNumber(with_base_ == nullptr ? config_ : *with_base_,
                              "rope_theta"));
    if (base_ <= 0) return BadField("rope_theta", "is not above 0");
    out_.Float("rope.freq_base", base_);
    if (architecture_.window_rope != planner::WindowRope::kOwnBase) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::optional<double> window_base,
                     window_ == nullptr
                         ? NumberOf(config_, "rope_local_base_freq")
                         : NumberOf(*window_, "rope_theta"));
    if (window_base) out_.Float("rope.freq_base_swa", *window_base);
    return absl::OkStatus();
  }

  absl::Status SetRotated() {
    const planner::Hyperparameters keys(out_.header(),
                                        std::string(architecture_.name));
    ASSIGN_OR_RETURN(const int64_t model_dim,
                     keys.Int("embedding_length", 1, ModelShape::kMaxDim));
    ASSIGN_OR_RETURN(const int64_t n_heads,
                     keys.Int("attention.head_count", 1, ModelShape::kMaxDim));
    ASSIGN_OR_RETURN(const int64_t head_dim,
                     keys.Int("attention.key_length", 1, ModelShape::kMaxDim,
                              model_dim / n_heads));
    ASSIGN_OR_RETURN(const int64_t n_ctx,
                     keys.Int("context_length", 1, ModelShape::kMaxContext));
    n_ctx_ = static_cast<double>(n_ctx);
    ASSIGN_OR_RETURN(std::optional<double> part,
                     NumberOf(config_, "partial_rotary_factor"));
    if (!part && with_base_ != nullptr) {
      ASSIGN_OR_RETURN(part, NumberOf(*with_base_, "partial_rotary_factor"));
    }
    const double n_rot = static_cast<double>(head_dim) * part.value_or(1);
    if (!(n_rot >= 2 && n_rot <= static_cast<double>(head_dim))) {
      return BadField("partial_rotary_factor", "is not between 0 and 1");
    }
    n_rot_ = static_cast<int64_t>(n_rot);
    out_.Int("rope.dimension_count", static_cast<uint64_t>(n_rot_));
    return absl::OkStatus();
  }

  // The context of the first training, which two places may name.
  absl::StatusOr<double> OriginalContext() {
    constexpr absl::string_view kName = "original_max_position_embeddings";
    ASSIGN_OR_RETURN(std::optional<double> n_ctx, NumberOf(*scaling_, kName));
    if (!n_ctx) {
      ASSIGN_OR_RETURN(n_ctx, NumberOf(config_, kName));
    }
    const double original = n_ctx.value_or(n_ctx_);
    if (original < 1 || original > static_cast<double>(1 << 30)) {
      return BadField(kName, "is not a context");
    }
    out_.Int("rope.scaling.original_context_length",
             static_cast<uint64_t>(original));
    return original;
  }

  absl::Status SetLinear() {
    ASSIGN_OR_RETURN(const double factor, RequiredNumber(*scaling_, "factor"));
    out_.Text("rope.scaling.type", "linear").Float(kFactor, factor);
    return absl::OkStatus();
  }

  absl::Status SetYarn() {
    ASSIGN_OR_RETURN(const double factor, RequiredNumber(*scaling_, "factor"));
    if (factor < 1) return BadField("factor", "of yarn is below 1");
    out_.Text("rope.scaling.type", "yarn").Float(kFactor, factor);
    RETURN_IF_ERROR(OriginalContext().status());
    for (const absl::string_view beta : {"beta_fast", "beta_slow"}) {
      ASSIGN_OR_RETURN(const auto value, NumberOf(*scaling_, beta));
      if (value) out_.Float(absl::StrCat("rope.scaling.yarn_", beta), *value);
    }
    ASSIGN_OR_RETURN(const double multiplier, SetLogMultiplier());
    const ConfigValue* truncates = FindField(*scaling_, "truncate");
    if (truncates != nullptr && !truncates->bool_value()) {
      return Unsupported("yarn without \"truncate\"");
    }
    // Readers of the file compute the usual one.
    ASSIGN_OR_RETURN(const auto magnitude,
                     NumberOf(*scaling_, "attention_factor"));
    const double growth = 0.1 * std::log(factor);
    const double usual = (1 + growth) / (1 + multiplier * growth);
    if (magnitude && std::abs(*magnitude - usual) > 1e-4) {
      return Unsupported("yarn's \"attention_factor\" of its own");
    }
    return absl::OkStatus();
  }

  // Returns the multiplier of the logarithm in the divisor of YaRN's magnitude.
  // Readers look for its key only in models whose queries grow. The dividend
  // has a multiplier too ("mscale"), which readers take for 1.
  absl::StatusOr<double> SetLogMultiplier() {
    ASSIGN_OR_RETURN(const auto dividend, NumberOf(*scaling_, "mscale"));
    ASSIGN_OR_RETURN(const auto divisor, NumberOf(*scaling_, "mscale_all_dim"));
    if (!dividend && !divisor) return 0.0;
    const double multiplier = divisor.value_or(0);
    if (!GrowsQueries() || dividend != 1.0 || multiplier < 0) {
      return Unsupported("yarn's \"mscale\" with this \"mscale_all_dim\"");
    }
    out_.Float("rope.scaling.yarn_log_multiplier", multiplier);
    return multiplier;
  }

  bool GrowsQueries() const {
    return architecture_.growing_queries == planner::GrowingQueries::kAll;
  }

  // The scale of queries that grow with their position.
  absl::Status SetQueryGrowth() {
    constexpr absl::string_view kName = "llama_4_scaling_beta";
    ASSIGN_OR_RETURN(const auto scale, NumberOf(*scaling_, kName));
    if (scale.value_or(0) == 0) return absl::OkStatus();
    if (!GrowsQueries()) {
      return Unsupported(
          absl::StrCat("\"", kName, "\" of ", architecture_.name));
    }
    if (*scale < 0) return BadField(kName, "is below 0");
    out_.Float("attention.temperature_scale", *scale);
    return OriginalContext().status();
  }

  // Slow pairs are slowed down by `factor`, quick ones are not, and those
  // between are blended. Source: the published code of Llama 3.1.
  absl::Status AddLlama3Divisors() {
    ASSIGN_OR_RETURN(const double factor, RequiredNumber(*scaling_, "factor"));
    ASSIGN_OR_RETURN(const double low,
                     RequiredNumber(*scaling_, "low_freq_factor"));
    ASSIGN_OR_RETURN(const double high,
                     RequiredNumber(*scaling_, "high_freq_factor"));
    ASSIGN_OR_RETURN(
        const double original,
        RequiredNumber(*scaling_, "original_max_position_embeddings"));
    if (!(factor > 0 && low > 0 && high > low && original > 0)) {
      return BadField("rope_scaling", "has factors that make no sense");
    }
    ConfigVector divisors = {"rope_freqs.weight", {}};
    for (int64_t i = 0; i < n_rot_ / 2; ++i) {
      const double wave = 2 * std::numbers::pi *
                          std::pow(base_, static_cast<double>(2 * i) /
                                              static_cast<double>(n_rot_));
      double divisor = factor;
      if (wave < original / high) {
        divisor = 1;
      } else if (wave <= original / low) {
        const double smooth = (original / wave - low) / (high - low);
        divisor = 1 / ((1 - smooth) / factor + smooth);
      }
      divisors.values.push_back(static_cast<float>(divisor));
    }
    vectors_.push_back(std::move(divisors));
    return absl::OkStatus();
  }

  // One divisor for each pair, for short and for long contexts. Source: arXiv
  // 2402.13753, and the published code of Phi 3.
  absl::Status AddLongDivisors() {
    for (const absl::string_view option : {"short_mscale", "long_mscale"}) {
      if (FindField(*scaling_, option) == nullptr) continue;
      return Unsupported(absl::StrCat("longrope's \"", option, "\""));
    }
    RETURN_IF_ERROR(AddDivisors("long_factor", "rope_factors_long.weight"));
    RETURN_IF_ERROR(AddDivisors("short_factor", "rope_factors_short.weight"));
    ASSIGN_OR_RETURN(const double original, OriginalContext());
    ASSIGN_OR_RETURN(const auto given, NumberOf(*scaling_, "attention_factor"));
    ASSIGN_OR_RETURN(const auto factor, NumberOf(*scaling_, "factor"));
    const double ratio = factor.value_or(n_ctx_ / original);
    double magnitude = 1;
    if (ratio > 1) {
      magnitude = std::sqrt(1 + std::log(ratio) / std::log(original));
    }
    out_.Float("rope.scaling.attn_factor", given.value_or(magnitude));
    return absl::OkStatus();
  }

  absl::Status AddDivisors(absl::string_view field, absl::string_view name) {
    const ConfigValue* list = FindField(*scaling_, field);
    if (list == nullptr || list->list_value().values_size() != n_rot_ / 2) {
      return BadField(field, absl::StrCat("is not a list of ", n_rot_ / 2,
                                          " numbers, one for each pair"));
    }
    ConfigVector divisors = {std::string(name), {}};
    for (const ConfigValue& value : list->list_value().values()) {
      const double divisor = value.number_value();
      if (!std::isfinite(divisor) || divisor <= 0) {
        return BadField(field, "has a value that is not a number above 0");
      }
      divisors.values.push_back(static_cast<float>(divisor));
    }
    vectors_.push_back(std::move(divisors));
    return absl::OkStatus();
  }

  static constexpr absl::string_view kFactor = "rope.scaling.factor";

  const ConfigObject& config_;
  const planner::Architecture& architecture_;
  planner::HeaderNumbers& out_;
  const ConfigObject* scaling_ = nullptr;    // how angles are scaled
  const ConfigObject* window_ = nullptr;     // for layers with a window
  const ConfigObject* with_base_ = nullptr;  // where rope_theta is; or config_
  double base_ = 0;
  double n_ctx_ = 0;
  int64_t n_rot_ = 0;
  std::vector<ConfigVector> vectors_;
};

}  // namespace

absl::StatusOr<std::vector<ConfigVector>> AddRotation(
    const ConfigObject& config, const planner::Architecture& architecture,
    planner::HeaderNumbers& out) {
  return RotationReader(config, architecture, out).Run();
}

}  // namespace plimsoll::services
