// What one architecture adds to what all have in common, as a table.
#ifndef PLIMSOLL_PLANNER_MODEL_ARCHITECTURES_H_
#define PLIMSOLL_PLANNER_MODEL_ARCHITECTURES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::planner {

// Which layers see a sliding window, if the model has one.
enum class WindowRule {
  kNone,     // a window is refused
  kPattern,  // all but every n-th layer, or as a list of flags says
  kAll,      // every layer
};

// How biases of the attention's products are there.
enum class BiasRule { kNone, kOptional, kQkv, kQkvAndOutput };

struct Architecture {
  absl::string_view name;  // general.architecture
  WindowRule windows = WindowRule::kNone;
  int64_t window_period = 0;  // for kPattern; 0: the file must say
  BiasRule biases = BiasRule::kNone;
  bool has_qk_norm = false;
  bool has_post_norms = false;  // after attention and after the FFN
  bool is_fused = false;        // q, k, v in one tensor; gate and up in another
  bool has_sinks = false;       // a logit a head that takes no value
  bool has_altup = false;       // several residual streams, mixed per layer
  bool has_layer_scale = false;
  bool is_gated_by_residual = false;  // experts beside a dense FFN
};

// The architecture of that name, or nullptr.
const Architecture* FindArchitecture(absl::string_view name);

// The architectures that this build can describe, for messages:
// "gemma2, gemma3, ...".
std::string SupportedArchitectures();

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_ARCHITECTURES_H_
