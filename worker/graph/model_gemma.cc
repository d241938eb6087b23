#include "worker/graph/model_gemma.h"

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/graph/model_graph.h"

namespace plimsoll::worker {
namespace {

using kernels::WeightMatrix;

// Norm weights in the file already contain Gemma's "+ 1".
class Gemma3Graph final : public ModelGraph {
 public:
  Gemma3Graph(const ModelParts& parts, const GraphParameters& parameters)
      : ModelGraph(parts, parameters) {
    for (int64_t il = parts.first_layer; il < EndLayer(); ++il) {
      const std::string p = absl::StrCat("blk.", il, ".");
      layers_.push_back(
          {.attn_norm = Vector(p + "attn_norm.weight"),
           .q = Matrix(p + "attn_q.weight"),
           .k = Matrix(p + "attn_k.weight"),
           .v = Matrix(p + "attn_v.weight"),
           .q_norm = Vector(p + "attn_q_norm.weight"),
           .k_norm = Vector(p + "attn_k_norm.weight"),
           .attn_output = Matrix(p + "attn_output.weight"),
           .post_attention_norm = Vector(p + "post_attention_norm.weight"),
           .ffn_norm = Vector(p + "ffn_norm.weight"),
           .gate = Matrix(p + "ffn_gate.weight"),
           .up = Matrix(p + "ffn_up.weight"),
           .down = Matrix(p + "ffn_down.weight"),
           .post_ffw_norm = Vector(p + "post_ffw_norm.weight")});
    }
  }

 private:
  struct LayerWeights {
    const float* attn_norm;
    WeightMatrix q, k, v;
    const float* q_norm;
    const float* k_norm;
    WeightMatrix attn_output;
    const float* post_attention_norm;
    const float* ffn_norm;
    WeightMatrix gate, up, down;
    const float* post_ffw_norm;
  };

  // x += RMS(Wo attention(RMS(x))), with q and k normed per head.
  absl::Status AttentionBlock(const StepBatch& batch, int64_t il) override {
    const LayerWeights& w = layers_[IndexOf(il)];
    ASSIGN_OR_RETURN(const Input h, NormedResidual(w.attn_norm));
    RETURN_IF_ERROR(Project(h, {{w.q, Query()}, {w.k, Key()}, {w.v, Value()}}));
    ASSIGN_OR_RETURN(const Input o,
                     SelfAttention(batch, il, {.q = w.q_norm, .k = w.k_norm}));
    if (n_rows() == 0) return absl::OkStatus();
    RETURN_IF_ERROR(Project(o, {{w.attn_output, Normed()}}));
    AddNormed(w.post_attention_norm);
    return absl::OkStatus();
  }

  // x += RMS(Wdown (gelu(Wgate RMS(x)) * Wup RMS(x))).
  absl::Status FfnBlock(int64_t il) override {
    const LayerWeights& w = layers_[IndexOf(il)];
    ASSIGN_OR_RETURN(const Input h, NormedResidual(w.ffn_norm));
    ASSIGN_OR_RETURN(const Input f, GatedInput(h, w.gate, w.up, w.down.dtype));
    RETURN_IF_ERROR(Project(f, {{w.down, Normed()}}));
    AddNormed(w.post_ffw_norm);
    return absl::OkStatus();
  }

  std::vector<LayerWeights> layers_;
};

// 27B scales by the width per head instead of head_dim.
// Source: MODELS.md 3.5; Gemma 3's published configuration
// (query_pre_attn_scalar).
constexpr int64_t kLayersOf27B = 62;

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> BuildGemma3(
    const planner::GgufHeader& header, const ModelParts& parts) {
  const planner::ModelShape& shape = *parts.shape;
  const int64_t head_dim = shape.layers.front().head_dim;
  ASSIGN_OR_RETURN(const auto softcap,
                   header.Float("gemma3.final_logit_softcapping"));
  if (softcap.value_or(0) != 0) {
    return absl::UnimplementedError(
        "gemma3.final_logit_softcapping is not 0: this build has no final "
        "softcap");
  }
  ASSIGN_OR_RETURN(
      const double eps,
      PositiveFloat(header, "gemma3.attention.layer_norm_rms_epsilon", 0));
  ASSIGN_OR_RETURN(
      const RopeParameters rope,
      ReadRope(header, "gemma3", head_dim, kernels::RopeStyle::kNeox));
  RopeParameters window_rope = rope;
  ASSIGN_OR_RETURN(window_rope.base,
                   PositiveFloat(header, "gemma3.rope.freq_base_swa", 10'000));
  window_rope.scale = 1.0;
  // Of the whole model: these may be some of its layers.
  ASSIGN_OR_RETURN(const auto n_layers, header.Int("gemma3.block_count"));
  const int64_t scaled_dim =
      n_layers == kLayersOf27B ? shape.model_dim / shape.n_heads : head_dim;
  const GraphParameters parameters = {
      .rms_eps = static_cast<float>(eps),
      .embedding_scale = std::sqrt(static_cast<float>(shape.model_dim)),
      .attention_scale = 1.0f / std::sqrt(static_cast<float>(scaled_dim)),
      .rope = rope,
      .window_rope = window_rope,
      .activation = kernels::Activation::kGeluTanh};
  return std::make_unique<Gemma3Graph>(parts, parameters);
}

}  // namespace plimsoll::worker
