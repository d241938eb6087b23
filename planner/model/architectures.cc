#include "planner/model/architectures.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace plimsoll::planner {
namespace {

// In alphabetical order, for messages. Source: MODELS.md 3.
constexpr std::array<Architecture, 10> kArchitectures = {{
    {.name = "gemma2",
     .windows = WindowRule::kPattern,
     .window_period = 2,
     .has_post_norms = true},
    {.name = "gemma3",
     .windows = WindowRule::kPattern,
     .window_period = 6,
     .has_qk_norm = true,
     .has_post_norms = true},
    {.name = "gemma3n",
     .windows = WindowRule::kPattern,
     .window_period = 5,
     .has_qk_norm = true,
     .has_post_norms = true,
     .has_altup = true},
    {.name = "gemma4",
     .windows = WindowRule::kPattern,
     .has_qk_norm = true,
     .has_post_norms = true,
     .has_layer_scale = true,
     .is_gated_by_residual = true},
    {.name = "gpt-oss",
     .windows = WindowRule::kPattern,
     .window_period = 2,
     .biases = BiasRule::kQkvAndOutput,
     .has_sinks = true},
    {.name = "llama", .biases = BiasRule::kOptional},
    {.name = "phi3", .windows = WindowRule::kAll, .is_fused = true},
    {.name = "qwen2", .biases = BiasRule::kQkv},
    {.name = "qwen3", .has_qk_norm = true},
    {.name = "qwen3moe", .has_qk_norm = true},
}};

}  // namespace

const Architecture* FindArchitecture(absl::string_view name) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return &architecture;
  }
  return nullptr;
}

std::string SupportedArchitectures() {
  return absl::StrJoin(kArchitectures, ", ",
                       [](std::string* out, const Architecture& a) {
                         absl::StrAppend(out, a.name);
                       });
}

}  // namespace plimsoll::planner
