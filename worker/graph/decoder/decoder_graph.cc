#include "worker/graph/decoder/decoder_graph.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/graph/attention/attention_mixer.h"
#include "worker/graph/attention/latent_attention_mixer.h"
#include "worker/graph/expert_ffn.h"
#include "worker/graph/gated_and_expert_ffn.h"
#include "worker/graph/gated_ffn.h"
#include "worker/graph/recurrent/delta_net_mixer.h"
#include "worker/graph/recurrent/mamba2_mixer.h"
#include "worker/graph/recurrent/short_conv_mixer.h"

namespace plimsoll::worker {

using planner::StepBuffer;

namespace {

constexpr absl::string_view kMtpOutputNorm = "nextn.shared_head_norm.weight";
constexpr absl::string_view kMtpOutput = "nextn.shared_head_head.weight";

// The vocabulary projection of a model.
kernels::WeightMatrix OutputOf(const StepContext& context) {
  return context.Matrix(context.inputs().shape->tied_output
                            ? "token_embd.weight"
                            : "output.weight");
}

// The FFN of a layer that has one.
std::unique_ptr<Sublayer> MakeFfn(const planner::Architecture& architecture,
                                  int64_t layer, StepContext& context) {
  switch (context.Layer(layer).ffn) {
    case planner::FfnKind::kExperts:
      return std::make_unique<ExpertFfn>(architecture, layer, context);
    case planner::FfnKind::kExpertsBesideGated:
      return std::make_unique<GatedAndExpertFfn>(architecture, layer, context);
    case planner::FfnKind::kGated:
    case planner::FfnKind::kFusedGated:
    case planner::FfnKind::kPlain:
    case planner::FfnKind::kNone:
      break;
  }
  return std::make_unique<GatedFfn>(architecture, layer, context);
}

}  // namespace

DecoderGraph::DecoderGraph(const planner::Architecture& architecture,
                           const GraphInputs& inputs,
                           const GraphParameters& parameters)
    : context_(inputs, parameters),
      attention_scratch_(inputs.plan->n_rows),
      logits_(reinterpret_cast<float*>(
          inputs.arena->Region(*inputs.plan, "logits").data)) {
  if (inputs.shape->ple_dim > 0) per_layer_inputs_.emplace(context_);
  if (context_.n_streams() > 1) streams_.emplace(context_);
  if (absl::c_any_of(inputs.shape->layers,
                     std::mem_fn(&planner::LayerShape::IsRecurrent))) {
    state_rows_.emplace(inputs.plan->n_rows);
  }
  for (int64_t il = inputs.first_layer; il < context_.EndLayer(); ++il) {
    layers_.push_back(MakeLayer(architecture, il));
  }
  if (inputs.trunk != nullptr) {
    SetMtpEnds(parameters);
    return;
  }
  if (inputs.input.empty()) embedding_ = context_.Matrix("token_embd.weight");
  if (!context_.HasLogits()) return;
  output_norm_ = context_.Vector("output_norm.weight");
  output_ = OutputOf(context_);
}

void DecoderGraph::SetMtpEnds(const GraphParameters& parameters) {
  mtp_input_.emplace(context_, parameters);
  const std::string prefix = absl::StrCat("blk.", inputs().first_layer, ".");
  output_norm_ = context_.Vector(absl::StrCat(prefix, kMtpOutputNorm));
  const std::string own = absl::StrCat(prefix, kMtpOutput);
  output_ = context_.Has(own)
                ? context_.Matrix(own)
                : OutputOf(StepContext(*inputs().trunk, parameters));
}

std::unique_ptr<Sublayer> DecoderGraph::MakeMixer(
    const planner::Architecture& architecture, int64_t layer) {
  switch (context_.Layer(layer).mixer) {
    case planner::MixerKind::kLatentAttention:
      return std::make_unique<LatentAttentionMixer>(layer, context_,
                                                    attention_scratch_);
    case planner::MixerKind::kShortConv:
      return std::make_unique<ShortConvMixer>(layer, context_, *state_rows_);
    case planner::MixerKind::kDeltaNet:
      return std::make_unique<DeltaNetMixer>(architecture, layer, context_,
                                             *state_rows_);
    case planner::MixerKind::kMamba2:
      return std::make_unique<Mamba2Mixer>(layer, context_, *state_rows_);
    case planner::MixerKind::kAttention:
    case planner::MixerKind::kNone:
      break;
  }
  return std::make_unique<AttentionMixer>(architecture, layer, context_,
                                          attention_scratch_);
}

DecoderGraph::Layer DecoderGraph::MakeLayer(
    const planner::Architecture& architecture, int64_t layer) {
  Layer made;
  const auto add = [&made](std::unique_ptr<Sublayer> sublayer) {
    made.sublayers.push_back(std::move(sublayer));
  };
  if (streams_) add(std::make_unique<PredictStreams>(layer, context_));
  const planner::LayerShape& shape = context_.Layer(layer);
  if (shape.mixer != planner::MixerKind::kNone) {
    add(MakeMixer(architecture, layer));
  }
  if (shape.ffn != planner::FfnKind::kNone) {
    add(MakeFfn(architecture, layer, context_));
  }
  if (streams_) add(std::make_unique<CorrectStreams>(layer, context_));
  if (per_layer_inputs_) {
    add(std::make_unique<PerLayerEmbedding>(architecture, layer, context_));
  }
  return made;
}

absl::string_view DecoderGraph::Missing(
    const planner::Architecture& architecture,
    const planner::ModelShape& shape) {
  const bool is_whole = shape.has_first_layer && shape.has_last_layer;
  if (shape.n_streams > 1 && !is_whole) {
    return "several residual streams and layers on several devices";
  }
  if (shape.ple_dim > 0 && !is_whole) {
    return "per-layer embeddings and layers on several devices";
  }
  if (architecture.score_scale == planner::ScoreScale::kOne) return "";
  const int64_t head_dim = shape.layers.front().head_dim;
  const bool is_even =
      absl::c_all_of(shape.layers, [&](const planner::LayerShape& layer) {
        return layer.head_dim == head_dim;
      });
  return is_even ? "" : "heads of two widths, which scale scores";
}

bool DecoderGraph::Reads(absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {"token_embd.weight",
                                            "output_norm.weight",
                                            "output.weight",
                                            "rope_freqs.weight",
                                            "rope_factors_long.weight",
                                            "rope_factors_short.weight"};
  return absl::c_linear_search(kTensors, tensor) ||
         PerLayerInputs::Reads(tensor) || ResidualStreams::Reads(tensor);
}

bool DecoderGraph::ReadsInLayer(const planner::Architecture& architecture,
                                absl::string_view tensor) {
  // Only a sum that is normed is scaled.
  return (architecture.has_post_norms &&
          tensor == "layer_output_scale.weight") ||
         PerLayerEmbedding::Reads(architecture, tensor) ||
         PredictStreams::Reads(tensor) || MtpInput::Reads(tensor) ||
         tensor == kMtpOutputNorm || tensor == kMtpOutput;
}

absl::Status DecoderGraph::FinishLoad() {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const int64_t layer = inputs().first_layer + static_cast<int64_t>(i);
    const kernels::BufferView scale = FindWeight(
        inputs(), absl::StrCat("blk.", layer, ".layer_output_scale.weight"));
    if (scale.data == nullptr) continue;
    RETURN_IF_ERROR(context_.backend().Download(
        scale.Slice(0, sizeof(float)),
        std::as_writable_bytes(std::span(&layers_[i].output_scale, 1))));
  }
  return absl::OkStatus();
}

absl::Status DecoderGraph::Step(const StepBatch& batch) {
  const auto n_rows = static_cast<int64_t>(batch.tokens.size());
  PLIMSOLL_CHECK(n_rows > 0 && n_rows <= inputs().plan->n_rows,
                 "the scheduler keeps to the plan's rows");
  context_.Begin(n_rows);
  kernels::Backend& backend = context_.backend();
  const auto n = static_cast<size_t>(n_rows * context_.model_dim());
  const auto first =
      static_cast<size_t>(batch.first_row * context_.model_dim());
  const kernels::BufferView rows = {context_.Bytes(StepBuffer::kResidual),
                                    static_cast<int64_t>(n * sizeof(float))};
  // Both copies happen outside of the piece that a backend starts at once.
  if (!inputs().input.empty()) {
    RETURN_IF_ERROR(
        backend.Upload(std::as_bytes(inputs().input.subspan(first, n)), rows));
  }
  absl::Status status;
  // A step that waits for the CPU in each of its layers is no one piece.
  const bool is_one_piece = batch.only_decodes && inputs().host == nullptr;
  if (is_one_piece) status = backend.BeginStep(n_rows);
  if (status.ok()) status = Compute(batch);
  status.Update(backend.EndStep());
  if (!status.ok() || context_.HasLogits()) return status;
  return backend.Download(
      rows, std::as_writable_bytes(inputs().output.subspan(first, n)));
}

absl::Status DecoderGraph::Compute(const StepBatch& batch) {
  kernels::Backend& backend = context_.backend();
  RETURN_IF_ERROR(ComputeAngles(batch.positions, StepBuffer::kAngles));
  if (context_.HasPrefixQueries(batch)) {
    RETURN_IF_ERROR(
        ComputeAngles(batch.prefix_positions, StepBuffer::kPrefixAngles));
  }
  SetQueryFactors(batch.positions);
  if (state_rows_) state_rows_->List(batch, *inputs().cache);
  if (mtp_input_) {
    RETURN_IF_ERROR(mtp_input_->Compute(batch));
  } else if (inputs().input.empty()) {
    RETURN_IF_ERROR(
        backend.GetRows({.table = embedding_,
                         .tokens = batch.tokens.data(),
                         .n_rows = context_.n_rows(),
                         .scale = context_.parameters().embedding_scale,
                         .out = context_.Residual()}));
  }
  if (per_layer_inputs_) RETURN_IF_ERROR(per_layer_inputs_->Compute(batch));
  if (streams_) RETURN_IF_ERROR(streams_->Split());
  for (const Layer& layer : layers_) RETURN_IF_ERROR(AddLayer(layer, batch));
  RETURN_IF_ERROR(context_.FinishResidual());
  if (streams_) RETURN_IF_ERROR(streams_->Merge());
  if (inputs().mtp_rows != nullptr) RETURN_IF_ERROR(KeepMtpRows());
  if (context_.HasLogits()) return StepLogits(batch);
  return backend.Synchronize();
}

absl::Status DecoderGraph::KeepMtpRows() {
  if (context_.n_rows() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const ProductInput normed,
      context_.NormedInput(context_.Residual(), output_norm_,
                           context_.parameters().output_norm_scale));
  const int64_t zero = 0;
  return context_.backend().CopyRows(
      {.src = reinterpret_cast<const std::byte*>(normed.x),
       .src_offsets = &zero,
       .dst = reinterpret_cast<std::byte*>(inputs().mtp_rows),
       .dst_offsets = &zero,
       .n_rows = 1,
       .row_bytes = context_.n_rows() * context_.model_dim() *
                    static_cast<int64_t>(sizeof(float))});
}

absl::Status DecoderGraph::AddLayer(const Layer& layer,
                                    const StepBatch& batch) {
  for (const std::unique_ptr<Sublayer>& sublayer : layer.sublayers) {
    RETURN_IF_ERROR(sublayer->Add(batch));
    if (batch.progress != nullptr) batch.progress->Touch();
    if (context_.n_rows() == 0) return absl::OkStatus();
  }
  if (layer.output_scale != 1) context_.ScaleResidual(layer.output_scale);
  return absl::OkStatus();
}

absl::Status DecoderGraph::ComputeAngles(const std::vector<int64_t>& positions,
                                         StepBuffer buffer) {
  float* out = context_.Buffer(buffer);
  const GraphParameters& parameters = context_.parameters();
  for (const RopeParameters* rope :
       {&parameters.rope, &parameters.window_rope}) {
    if (rope->n_rot == 0) continue;
    RETURN_IF_ERROR(
        context_.backend().RopeAngles({.positions = positions.data(),
                                       .n_rows = context_.n_rows(),
                                       .n_rot = rope->n_rot,
                                       .base = rope->base,
                                       .scale = rope->scale,
                                       .freq_factors = rope->freq_factors,
                                       .magnitude = rope->magnitude,
                                       .out = out,
                                       .ramp = rope->ramp}));
    out += context_.n_rows() * rope->n_rot;
  }
  return absl::OkStatus();
}

void DecoderGraph::SetQueryFactors(const std::vector<int64_t>& positions) {
  const QueryGrowth& growth = context_.parameters().query_growth;
  std::vector<float>& factors = attention_scratch_.query_factors;
  factors.clear();
  if (growth.scale == 0) return;
  for (const int64_t position : positions) {
    factors.push_back(growth.FactorAt(position));
  }
}

absl::Status DecoderGraph::StepLogits(const StepBatch& batch) {
  if (batch.sampled_rows.empty()) return context_.backend().Synchronize();
  float* sampled = context_.Buffer(StepBuffer::kSampled);
  if (context_.Residual() != sampled) {
    RETURN_IF_ERROR(
        context_.GatherRows({context_.Residual(), context_.model_dim()},
                            batch.sampled_rows, sampled));
  }
  return SampledLogits(static_cast<int64_t>(batch.sampled_rows.size()),
                       batch.first_sampled, batch.top);
}

absl::Status DecoderGraph::ComputeLogits(std::span<const int32_t> rows) {
  float* sampled = context_.Buffer(StepBuffer::kSampled);
  PLIMSOLL_CHECK(context_.Residual() != sampled, "the step kept all rows");
  RETURN_IF_ERROR(context_.GatherRows(
      {context_.Residual(), context_.model_dim()}, rows, sampled));
  return SampledLogits(static_cast<int64_t>(rows.size()), 0, {});
}

absl::Status DecoderGraph::SampledLogits(
    int64_t n_sampled, int64_t first,
    std::span<const kernels::TopOutputs> top) {
  PLIMSOLL_CHECK(first + n_sampled <= inputs().plan->n_sampled,
                 "the scheduler keeps to the plan's sampled rows");
  const int64_t dim = context_.model_dim();
  float* sampled = context_.Buffer(StepBuffer::kSampled);
  std::byte* packed =
      context_.PackedInputs(dim, StepBuffer::kSampledActivations);
  RETURN_IF_ERROR(context_.backend().RmsNorm(
      {.x = sampled,
       .weight = output_norm_,
       .out = sampled,
       .n_rows = n_sampled,
       .dim = dim,
       .eps = context_.parameters().stream_eps,
       .accumulate = false,
       .packed = packed,
       .scale = context_.parameters().output_norm_scale,
       .subtracts_mean = context_.parameters().norms_subtract_means}));
  RETURN_IF_ERROR(
      context_.backend().MatMul({.w = output_,
                                 .x = sampled,
                                 .packed = packed,
                                 .out = logits_ + first * output_.rows,
                                 .n_rows = n_sampled,
                                 .accumulate = false,
                                 .top = top,
                                 .soft_cap = context_.parameters().logit_cap}));
  return context_.backend().Synchronize();
}

}  // namespace plimsoll::worker
