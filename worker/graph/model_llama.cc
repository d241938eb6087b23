#include "worker/graph/model_llama.h"

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

class LlamaGraph final : public ModelGraph {
 public:
  LlamaGraph(const ModelParts& parts, const GraphParameters& parameters)
      : ModelGraph(parts, parameters) {
    for (int64_t il = parts.first_layer; il < EndLayer(); ++il) {
      const std::string p = absl::StrCat("blk.", il, ".");
      layers_.push_back({.attn_norm = Vector(p + "attn_norm.weight"),
                         .q = Matrix(p + "attn_q.weight"),
                         .k = Matrix(p + "attn_k.weight"),
                         .v = Matrix(p + "attn_v.weight"),
                         .attn_output = Matrix(p + "attn_output.weight"),
                         .ffn_norm = Vector(p + "ffn_norm.weight"),
                         .gate = Matrix(p + "ffn_gate.weight"),
                         .up = Matrix(p + "ffn_up.weight"),
                         .down = Matrix(p + "ffn_down.weight")});
    }
  }

 private:
  struct LayerWeights {
    const float* attn_norm;
    WeightMatrix q, k, v, attn_output;
    const float* ffn_norm;
    WeightMatrix gate, up, down;
  };

  // x += Wo attention(RMS(x)).
  absl::Status AttentionBlock(const StepBatch& batch, int64_t il) override {
    const LayerWeights& w = layers_[IndexOf(il)];
    ASSIGN_OR_RETURN(const Input h, NormedResidual(w.attn_norm));
    RETURN_IF_ERROR(Project(h, {{w.q, Query()}, {w.k, Key()}, {w.v, Value()}}));
    ASSIGN_OR_RETURN(const Input o, SelfAttention(batch, il, /*norms=*/{}));
    if (n_rows() == 0) return absl::OkStatus();
    return Project(o, {{w.attn_output, Residual(), /*accumulate=*/true}});
  }

  // x += Wdown (silu(Wgate RMS(x)) * Wup RMS(x)).
  absl::Status FfnBlock(int64_t il) override {
    const LayerWeights& w = layers_[IndexOf(il)];
    ASSIGN_OR_RETURN(const Input h, NormedResidual(w.ffn_norm));
    ASSIGN_OR_RETURN(const Input f, GatedInput(h, w.gate, w.up, w.down.dtype));
    return Project(f, {{w.down, Residual(), /*accumulate=*/true}});
  }

  std::vector<LayerWeights> layers_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> BuildLlama(
    const planner::GgufHeader& header, const ModelParts& parts) {
  const int64_t head_dim = parts.shape->layers.front().head_dim;
  ASSIGN_OR_RETURN(
      const double eps,
      PositiveFloat(header, "llama.attention.layer_norm_rms_epsilon", 0));
  ASSIGN_OR_RETURN(RopeParameters rope, ReadRope(header, "llama", head_dim,
                                                 kernels::RopeStyle::kNorm));
  rope.freq_factors = FindVector(parts, "rope_freqs.weight");
  const GraphParameters parameters = {
      .rms_eps = static_cast<float>(eps),
      .embedding_scale = 1.0f,
      .attention_scale = 1.0f / std::sqrt(static_cast<float>(head_dim)),
      .rope = rope,
      .window_rope = rope,
      .activation = kernels::Activation::kSilu};
  return std::make_unique<LlamaGraph>(parts, parameters);
}

}  // namespace plimsoll::worker
