#include "worker/graph/decoder/runnable.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "planner/model/architectures.h"
#include "worker/graph/attention/attention_mixer.h"
#include "worker/graph/attention/latent_attention_mixer.h"
#include "worker/graph/decoder/decoder_graph.h"
#include "worker/graph/expert_ffn.h"
#include "worker/graph/gated_and_expert_ffn.h"
#include "worker/graph/gated_ffn.h"
#include "worker/graph/recurrent/delta_net_mixer.h"
#include "worker/graph/recurrent/mamba2_mixer.h"
#include "worker/graph/recurrent/short_conv_mixer.h"

namespace plimsoll::worker {
namespace {

using planner::Architecture;
using planner::LayerShape;
using planner::MixerKind;

bool IsLatent(const Architecture& architecture) {
  return architecture.mixer == planner::MixerKind::kLatentAttention;
}

absl::string_view MissingInMixer(const Architecture& architecture) {
  return IsLatent(architecture) ? LatentAttentionMixer::Missing(architecture)
                                : AttentionMixer::Missing(architecture);
}

// True if a mixer of the kind reads a layer's tensor of that name.
bool IsReadBy(MixerKind mixer, const Architecture& architecture,
              absl::string_view tensor) {
  switch (mixer) {
    case MixerKind::kAttention:
      return AttentionMixer::Reads(architecture, tensor);
    case MixerKind::kLatentAttention:
      return LatentAttentionMixer::Reads(tensor);
    case MixerKind::kShortConv:
      return ShortConvMixer::Reads(tensor);
    case MixerKind::kDeltaNet:
      return DeltaNetMixer::Reads(tensor);
    case MixerKind::kMamba2:
      return Mamba2Mixer::Reads(tensor);
    case MixerKind::kNone:
      break;
  }
  return false;
}

absl::string_view MissingInFfn(const Architecture& architecture,
                               planner::FfnKind kind) {
  switch (kind) {
    case planner::FfnKind::kExperts:
      return ExpertFfn::Missing(architecture);
    case planner::FfnKind::kExpertsBesideGated:
      return GatedAndExpertFfn::Missing(architecture);
    case planner::FfnKind::kGated:
    case planner::FfnKind::kFusedGated:
    case planner::FfnKind::kPlain:
    case planner::FfnKind::kNone:
      break;
  }
  return "";
}

// The feature that the model needs and the graph's classes lack; empty if none.
absl::string_view MissingFeature(const Architecture& architecture,
                                 const planner::ModelShape& shape) {
  const absl::string_view in_mixer = MissingInMixer(architecture);
  if (!in_mixer.empty()) return in_mixer;
  for (const LayerShape& layer : shape.layers) {
    const absl::string_view in_ffn = MissingInFfn(architecture, layer.ffn);
    if (!in_ffn.empty()) return in_ffn;
  }
  return DecoderGraph::Missing(architecture, shape);
}

// The name of a layer's tensor after "blk.N."; empty if no layer has it.
absl::string_view LayerTensor(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "blk.")) return "";
  const size_t dot = name.find('.');
  return dot == absl::string_view::npos ? "" : name.substr(dot + 1);
}

// True if some class of the graph reads the tensor.
bool IsRead(const Architecture& architecture, absl::string_view name) {
  absl::string_view product = name;
  if (absl::ConsumeSuffix(&product, ".scale") &&
      IsRead(architecture, absl::StrCat(product, ".weight"))) {
    return true;  // a product's scale is read with its matrix
  }
  const absl::string_view of_layer = LayerTensor(name);
  if (of_layer.empty()) return DecoderGraph::Reads(name);
  return IsReadBy(architecture.mixer, architecture, of_layer) ||
         IsReadBy(architecture.recurrent, architecture, of_layer) ||
         GatedFfn::Reads(architecture, of_layer) ||
         ExpertFfn::Reads(architecture, of_layer) ||
         GatedAndExpertFfn::Reads(architecture, of_layer) ||
         DecoderGraph::ReadsInLayer(architecture, of_layer);
}

}  // namespace

absl::Status CheckArchitecture(const planner::ModelShape& shape) {
  const auto refuse = [&](absl::string_view what) {
    return absl::UnimplementedError(
        absl::StrCat("architecture \"", shape.architecture, "\"", what,
                     " can be planned but not run by this build"));
  };
  const Architecture* architecture =
      planner::FindArchitecture(shape.architecture);
  if (architecture == nullptr) return refuse("");
  const absl::string_view missing = MissingFeature(*architecture, shape);
  if (!missing.empty()) return refuse(absl::StrCat(" with ", missing));
  for (const planner::WeightTensor& tensor : shape.weights) {
    if (IsRead(*architecture, tensor.name)) continue;
    return refuse(absl::StrCat(" with tensor \"", tensor.name, "\""));
  }
  return absl::OkStatus();
}

absl::Status CheckRunnable(const planner::ModelShape& shape,
                           const planner::MemoryPlan& plan) {
  RETURN_IF_ERROR(CheckArchitecture(shape));
  if (!plan.not_runnable.empty()) {
    return absl::UnimplementedError(plan.not_runnable.front());
  }
  return planner::LoadOptionsOf(plan.options).status();
}

}  // namespace plimsoll::worker
