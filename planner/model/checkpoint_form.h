// The differences between a GGUF file and a checkpoint of Hugging Face's
// libraries, for the models of an architecture.
#ifndef PLIMSOLL_PLANNER_MODEL_CHECKPOINT_FORM_H_
#define PLIMSOLL_PLANNER_MODEL_CHECKPOINT_FORM_H_

#include <span>

#include "absl/strings/string_view.h"

namespace plimsoll::planner {

// The name of a module in a checkpoint, and the name of its tensors in the
// file. Both names lack the layer in front and ".weight" or ".bias" at the end.
struct ModuleName {
  absl::string_view checkpoint;
  absl::string_view file;
};

struct CheckpointForm {
  // The norms of a layer that are not norms of heads. If there are none,
  // checkpoints of the architecture cannot be converted.
  std::span<const ModuleName> norms = {};
  // True if norms multiply by 1 + weight. The file has the sum.
  bool norms_lack_one = false;
  // True if the checkpoint also rotates heads in adjacent pairs (RopePairs).
  // All other checkpoints rotate halves.
  bool has_adjacent_pairs = false;
};

inline constexpr ModuleName kNormBefore[] = {{"input_layernorm", "attn_norm"}};
inline constexpr ModuleName kNormsBefore[] = {
    {"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}};
inline constexpr ModuleName kNormsAfter[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"}};
inline constexpr ModuleName kNormsAround[] = {
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"}};
inline constexpr ModuleName kGlmNorms[] = {
    {"input_layernorm", "attn_norm"},
    {"post_self_attn_layernorm", "post_attention_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"post_mlp_layernorm", "post_ffw_norm"}};
inline constexpr ModuleName kSeedNorms[] = {
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "post_attention_norm"}};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_CHECKPOINT_FORM_H_
