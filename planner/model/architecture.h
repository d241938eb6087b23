// The specification of one architecture, as data. The planner's tensor table
// and the worker's graph read the same specification; architectures/NAME.cc
// holds it.
#ifndef PLIMSOLL_PLANNER_MODEL_ARCHITECTURE_H_
#define PLIMSOLL_PLANNER_MODEL_ARCHITECTURE_H_

#include <array>
#include <cstdint>
#include <span>

#include "absl/strings/string_view.h"
#include "planner/model/checkpoint_form.h"
#include "planner/model/model_shape.h"
#include "planner/model/tensor_role.h"

namespace plimsoll::planner {

// The layers that have a sliding window, if the model has one.
enum class WindowRule {
  kNone,     // a window is refused
  kPattern,  // all layers except every n-th, or by a list of flags
  kAll,      // every layer
};

// The layers that keep a state instead of keys and values.
enum class RecurrentRule {
  kNone,
  // A layer that A.attention.recurrent_layers flags keeps a state; without
  // flags, all layers but the last of every A.full_attention_interval do.
  kInterval,
  kWithoutKvHeads,  // layers with 0 in A.attention.head_count_kv
};

// The biases of attention's products.
enum class BiasRule {
  kNone,
  kOptional,  // biases that the file has: q, k, v, output, gated FFN
  kQkv,       // queries, keys and values
  kAll,       // these, the output and the experts
};

// The pairs of a head's elements that are rotated together.
enum class RopePairs {
  kAdjacent,  // 2p and 2p + 1
  kHalves,    // p and p + half of the rotated ones
  kNone,      // nothing is rotated
};

// The norms of query and key heads before the rotation.
enum class HeadNorms {
  kNone,
  kEach,           // each head by itself
  kEachIfPresent,  // kEach in files that have the weights
  kTogether,       // all heads of queries, and all of keys
  // Each head by itself and without a weight, in layers that rotate. The result
  // is the same before and after the rotation.
  kPlain,
};

// The rotation of queries and keys in layers with a window.
enum class WindowRope {
  kAsOthers,
  kUnscaled,  // the base of other layers, no scaling
  kOwnBase,   // A.rope.freq_base_swa or 10,000, no scaling
  kOnly,      // as in models without windows; other layers do not rotate
};

// The factor by which attention scores (query times key) are multiplied.
enum class ScoreScale {
  kHeadDim,  // 1 / sqrt(head_dim)
  kOne,
};

// The queries that grow with their position p: they are multiplied by
// 1 + s ln(1 + floor(p / n)), where s is A.attention.temperature_scale.
enum class GrowingQueries {
  kNone,
  kAll,        // n is the original context of rope scaling; s is 0 by default
  kUnrotated,  // those of layers that do not rotate, with p + 1 for p; n is
               // A.attention.temperature_length or 8,192; s is 0.1 by default
};

enum class GateActivation {
  kSilu,
  kGeluTanh,
  kSquaredRelu,   // in networks without gates
  kClampedSwish,  // x sigmoid(1.702 x), clamped inputs, up + 1
};

// The conversion of a router's logits to scores, which choose experts and
// weight their outputs.
enum class RouterGate {
  kSoftmax,          // over all experts
  kSigmoid,          // each score by itself
  kSoftmaxOfChosen,  // over the chosen experts
  kByBias,  // kSigmoid in files with a bias for the choice, else kSoftmax
};

// The expert that every row has beside the chosen ones.
enum class SharedExpert {
  kNone,
  kGated,         // its output is weighted by a sigmoid gate of its own
  kPlain,         // its output is added without a weight
  kPlainIfGiven,  // kPlain in files with its width or a number of such experts
};

// Turns x into cap * tanh(x / cap). The cap is the value of `key` (after "A.")
// or `fallback`. 0 is no cap; an empty key means that there is never a cap.
struct SoftCap {
  absl::string_view key;
  double fallback = 0;
};

// The value of a number that config.json may leave out.
struct ConfigDefault {
  absl::string_view name;
  double value;
};

// Fields are grouped by subject, which costs some padding.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct Architecture {
  // The value of general.architecture, and the prefix A of the keys "A.*".
  absl::string_view name;
  // The models in files of this architecture, by their usual names.
  absl::string_view models;
  // The model_type that config.json gives such models; unused ones are empty.
  std::array<absl::string_view, 3> config_types = {};
  // Numbers that config.json of such models may leave out.
  std::span<const ConfigDefault> config_defaults = {};
  // True if a config.json without a statement about it means a tied output. A
  // GGUF file shows it, because an output of its own is a tensor.
  bool is_tied = false;
  // The chat format of files without a template, as --chat-format names it.
  // Empty: none.
  absl::string_view chat_format = {};
  // Facts that are needed to convert a checkpoint.
  CheckpointForm checkpoint = {};

  // The next fields describe the parts of a layer.
  MixerKind mixer = MixerKind::kAttention;
  RecurrentRule recurrent_layers = RecurrentRule::kNone;
  MixerKind recurrent = MixerKind::kNone;  // the mixer of recurrent layers
  // The group of keys of a head of a delta net. If true, the group is the
  // head's index modulo the number of groups. If false, each group belongs to
  // equally many consecutive heads.
  bool alternates_groups = false;
  // A layer is a mixer or an FFN: an FFN where A.feed_forward_length is not 0.
  bool has_single_sublayers = false;
  FfnKind ffn = FfnKind::kGated;           // in layers without experts
  FfnKind expert_ffn = FfnKind::kExperts;  // in layers with experts
  absl::string_view ffn_norm = "ffn_norm.weight";
  // The file's name for output_norm.weight.
  absl::string_view output_norm = "output_norm.weight";
  // Norms of the residual stream first subtract the row's mean, and their
  // epsilon is A.attention.layer_norm_epsilon.
  bool norms_subtract_means = false;
  // The FFN reads the same input as attention, and both results are added.
  bool has_parallel_ffn = false;
  bool has_pre_norms = true;    // before attention and before the FFN
  bool has_post_norms = false;  // after attention and after the FFN
  GateActivation activation = GateActivation::kSilu;

  // The next fields describe experts. A file may replace values by
  // A.expert_gating_func and A.expert_weights_norm.
  RouterGate router_gate = RouterGate::kSoftmax;
  bool normalizes_weights = true;  // divides a row's weights by their sum
  // Weights multiply the inputs of experts, not their outputs.
  bool weights_inputs = false;
  SharedExpert shared_expert = SharedExpert::kNone;
  // The last A.nextn_predict_layers layers are no layers of the model: the
  // first of them is a head that predicts the token after the next one (MTP).
  bool has_mtp = false;

  // The next fields describe attention.
  WindowRule windows = WindowRule::kNone;
  int64_t window_period = 0;  // for kPattern; 0: from the file only
  int64_t window = 0;         // if the file has none; 0: none
  // Windows do not slide: a position sees the positions from the last multiple
  // of the window to itself.
  bool windows_are_chunks = false;
  BiasRule biases = BiasRule::kNone;
  bool is_qkv_fused = false;  // queries, keys and values in one tensor of
                              // the file
  HeadNorms head_norms = HeadNorms::kNone;
  // Models with this many experts norm no heads. 0: all models do.
  int64_t unnormed_experts = 0;
  bool has_value_norms = false;     // for each head of values, without a weight
  bool values_may_be_keys = false;  // in full layers without attn_v
  bool has_sinks = false;           // a logit per head that takes no value
  // Each head's output is multiplied by a sigmoid of gates, which lie behind
  // the head's queries in attn_q.
  bool has_attention_gates = false;
  ScoreScale score_scale = ScoreScale::kHeadDim;
  // Models with this many layers scale scores by model_dim / n_heads and not by
  // head_dim. 0: no model does.
  int64_t width_scaled_layers = 0;
  SoftCap score_cap = {};
  GrowingQueries growing_queries = GrowingQueries::kNone;

  // The next fields describe the rotation of queries and keys.
  RopePairs rope_pairs = RopePairs::kAdjacent;
  WindowRope window_rope = WindowRope::kAsOthers;
  // In each group of this many layers the last one does not rotate. 0: all
  // layers rotate.
  int64_t unrotated_period = 0;
  // YaRN's magnitude is a factor of scores and not of rotated elements: 1 + m
  // ln(factor), squared, where m is A.rope.scaling.yarn_log_multiplier.
  bool yarn_scales_scores = false;
  // Nothing is rotated if A.rope.scaling.finetuned is false.
  bool rope_has_switch = false;

  // The next fields describe both ends of the model.
  bool scales_embedding = false;  // by sqrt(model_dim)
  SoftCap logit_cap = {};
  // The file may have factors: A.embedding_scale of the embedding,
  // A.attention.scale of scores, A.residual_scale of the sums that each half of
  // a layer adds to the residual stream, and A.logit_scale, a divisor of
  // logits.
  bool has_scale_keys = false;
  bool multiplies_logits = false;  // by A.logit_scale

  // Several residual streams, mixed in every layer by weights that a router
  // makes (AltUp).
  bool has_altup = false;
  // A branch beside attention, of low rank (LAuReL).
  bool has_low_rank_branch = false;
  // A.activation_sparsity_scale is the limit of gates in the layers that have
  // one: the number of standard deviations above the mean of the gates.
  bool cuts_gates = false;
  // Tensors in addition to those that the fields above imply, of the model and
  // of each layer.
  std::span<const TensorRole> model_tensors = {};
  std::span<const TensorRole> layer_tensors = {};

  // The key, after "A.", of the epsilon of norms.
  constexpr absl::string_view EpsilonKey() const {
    return norms_subtract_means ? "attention.layer_norm_epsilon"
                                : "attention.layer_norm_rms_epsilon";
  }
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_ARCHITECTURE_H_
