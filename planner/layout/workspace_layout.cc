#include "planner/layout/workspace_layout.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

using enum StepBuffer;

// The stages of a layer, in the order in which a graph runs them. Sampled rows
// come after the last layer.
enum Stage {
  kAttnNorm,
  kQkv,
  kRope,
  kStoreKv,
  kAttend,
  kPackAttention,
  kOutputProduct,
  kAttnResidual,
  kFfnNorm,
  kGateUp,
  kActivate,
  kDownProduct,
  kFfnResidual,
  kAddPerLayer,
  kSample,
};

struct Lifetime {
  StepBuffer buffer;
  int first;
  int last;
};

// Each buffer has one lifetime: the hull of its uses. Buffers are placed in
// this order, each above all earlier ones that live at the same time. So an
// offset is a longest path over a fixed graph, and no buffer can grow while the
// whole shrinks.
//
// Inputs of products live until the product, because exact kernels read them
// beside the packed form.
using Lifetimes = std::array<Lifetime, kNumStepBuffers>;
constexpr Lifetimes kLifetimes = {{
    {kResidual, kAttnNorm, kSample},
    {kAngles, kAttnNorm, kSample},
    {kPrefixAngles, kAttnNorm, kSample},
    {kScratch, kAttnNorm, kSample},
    {kNormed, kAttnNorm, kAddPerLayer},
    {kActivations, kAttnNorm, kAddPerLayer},
    {kQuery, kQkv, kAttend},
    {kPrefixQuery, kRope, kAttend},
    {kBranch, kQkv, kQkv},
    {kHeads, kQkv, kOutputProduct},
    {kChunkKey, kStoreKv, kAttend},
    {kChunkValue, kStoreKv, kAttend},
    {kKey, kQkv, kStoreKv},
    {kValue, kQkv, kStoreKv},
    {kAttention, kAttend, kOutputProduct},
    {kGate, kGateUp, kAddPerLayer},
    {kUp, kGateUp, kAddPerLayer},
    {kRouter, kFfnNorm, kDownProduct},
    {kRouting, kFfnNorm, kFfnResidual},
    {kExpertRows, kGateUp, kFfnResidual},
    {kFfnSum, kAttnNorm, kSample},
    {kPerLayer, kAttnNorm, kSample},
    {kMixing, kAttnNorm, kSample},
    {kSampled, kSample, kSample},
    {kSampledActivations, kSample, kSample},
}};

// A layer may read an earlier layer's rings: then the chunk beside these
// lives until the last of them has read it.
constexpr Lifetimes kSharingLifetimes = [] {
  Lifetimes lifetimes = kLifetimes;
  for (Lifetime& lifetime : lifetimes) {
    if (lifetime.buffer != kChunkKey && lifetime.buffer != kChunkValue)
      continue;
    lifetime.first = kAttnNorm;
    lifetime.last = kAddPerLayer;
  }
  return lifetimes;
}();

absl::Status BuffersTooBig() {
  return absl::OutOfRangeError("a step's buffers do not fit in int64 bytes");
}

// For each expert of a row: which one, its weight, its place, and the row
// there. For each expert: where its rows begin.
constexpr int64_t kRoutingWordBytes = 4;
constexpr int64_t kRoutingPlaceBytes = 4 * kRoutingWordBytes;

// The bytes of each buffer.
class Sizes {
 public:
  void Set(StepBuffer buffer, Checked bytes) {
    bytes_[static_cast<size_t>(buffer)] = bytes;
  }
  Checked operator[](size_t buffer) const { return bytes_.at(buffer); }

 private:
  std::array<Checked, kNumStepBuffers> bytes_ = {0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                 0, 0, 0, 0, 0, 0, 0};
};

Checked Floats(int64_t n) { return Checked(n) * kFloatBytes; }

// A packed row of `n` activations.
Checked Packed(int64_t n, const WorkspaceParameters& parameters) {
  return Checked(CeilDiv(n, parameters.activation_block)) *
         parameters.activation_block_bytes;
}

// The buffers that only experts have.
void SetExpertSizes(const ModelShape& shape, int64_t n_rows, Sizes& sizes) {
  if (shape.n_experts == 0) return;
  const Checked places = Checked(n_rows) * shape.n_experts_used;
  sizes.Set(kRouting, places * kRoutingPlaceBytes +
                          Checked(shape.n_experts + 1) * kRoutingWordBytes);
  sizes.Set(kExpertRows, places * Floats(shape.model_dim));
}

Sizes SizesOf(const ModelShape& shape, const StepWidths& widths,
              const StepSize& step, const WorkspaceParameters& parameters) {
  const Checked rows = step.n_rows;
  // There is a second base only if some layers have a window.
  const Checked angles = Floats(widths.head_dim) * (widths.has_windows ? 2 : 1);
  const int64_t products = std::max(widths.product, widths.ffn);
  const int64_t widest =
      std::max({shape.model_dim, shape.branch_rank, products});
  const bool has_streams = shape.n_streams > 1;
  const Checked residual =
      Floats(shape.model_dim) * (has_streams ? shape.n_streams + 1 : 1);

  Sizes sizes;
  const auto set = [&sizes](StepBuffer buffer, Checked bytes) {
    sizes.Set(buffer, bytes);
  };
  set(kResidual, rows * residual);
  set(kNormed, rows * Floats(shape.model_dim));
  set(kActivations, rows * Packed(widest, parameters));
  set(kAngles, rows * angles);
  set(kPrefixAngles, rows * angles);
  set(kQuery, rows * Floats(std::max(widths.query, widths.recurrent)));
  set(kPrefixQuery, rows * Floats(widths.query));
  set(kBranch, rows * Floats(shape.branch_rank));
  set(kHeads, rows * Floats(widths.heads));
  set(kKey, rows * Floats(widths.kv));
  set(kValue, rows * Floats(widths.kv));
  if (step.has_rings) {
    set(kChunkKey, rows * widths.chunk_key_bytes);
    set(kChunkValue, rows * widths.chunk_value_bytes);
  }
  set(kAttention, rows * Floats(widths.attended));
  set(kGate, rows * Floats(widths.ffn));
  set(kUp, rows * Floats(widths.ffn));
  set(kRouter, rows * Floats(shape.n_experts));
  SetExpertSizes(shape, step.n_rows, sizes);
  if (widths.has_ffn_sums) set(kFfnSum, rows * Floats(shape.model_dim));
  set(kPerLayer, rows * Floats(shape.ple_dim) * shape.n_layers);
  if (has_streams) {
    set(kMixing, rows * Floats(shape.n_streams) * (shape.n_streams + 1));
  }
  set(kSampled, Checked(step.n_sampled) * residual);
  set(kSampledActivations,
      Checked(step.n_sampled) * Packed(shape.model_dim, parameters));
  set(kScratch, parameters.kernel_scratch_bytes);
  return sizes;
}

// Makes a width the widest one.
struct Widen {
  bool overflow = false;

  void operator()(int64_t& widest, Checked width) {
    overflow |= width.overflow();
    widest = std::max(widest, width.Get().value_or(0));
  }
};

// Widens by what the layer's mixer needs.
void WidenByMixer(const ModelShape& shape, const LayerShape& layer,
                  Widen& widen, StepWidths& widths) {
  const Checked n_heads = shape.n_heads;
  // Layers that do not attend count too, because angles are made for all
  // layers.
  widen(widths.head_dim, layer.head_dim);
  widen(widths.query, n_heads * layer.head_dim);
  if (layer.mixer == MixerKind::kLatentAttention) {
    const LatentShape& latent = shape.latent;
    widen(widths.query, latent.query_rank);
    widen(widths.heads, n_heads * std::max(latent.key_dim, latent.value_dim));
    widen(widths.attended, n_heads * latent.rank);
    widen(widths.product, n_heads * latent.value_dim);
    widen(widths.product, latent.query_rank);
  } else if (layer.Attends()) {
    widen(widths.attended, n_heads * layer.head_dim);
    widen(widths.product, n_heads * layer.head_dim);
    if (shape.has_attention_gates) {
      widen(widths.heads, n_heads * layer.head_dim * 2);
    }
  } else if (layer.IsRecurrent()) {
    const RecurrentShape& recurrent = shape.recurrent;
    // Without heads, the convolution's output is the layer's.
    const bool has_heads = recurrent.n_heads > 0;
    const int64_t inner =
        has_heads ? recurrent.InnerDim() : recurrent.n_channels;
    widen(widths.recurrent, recurrent.product_dim);
    widen(widths.heads, has_heads ? recurrent.n_channels : 0);
    widen(widths.attended, inner);
    widen(widths.product, inner);
  }
}

// For every lifetime, the earlier lifetimes that overlap it, as bits.
using Meets = std::array<uint32_t, kNumStepBuffers>;
constexpr Meets MeetsOf(const Lifetimes& lifetimes) {
  Meets meets = {};
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      const bool is_apart = lifetimes[k].last < lifetimes[i].first ||
                            lifetimes[i].last < lifetimes[k].first;
      if (!is_apart) meets[i] |= uint32_t{1} << k;
    }
  }
  return meets;
}
constexpr Meets kMeets = MeetsOf(kLifetimes);
constexpr Meets kSharingMeets = MeetsOf(kSharingLifetimes);

// The end of the buffers that are placed already and are in `meets`, as bits.
int64_t EndBelow(uint32_t meets, const WorkspacePlan& plan) {
  int64_t end = 0;
  for (uint32_t rest = meets; rest != 0; rest &= rest - 1) {
    const auto k = static_cast<size_t>(std::countr_zero(rest));
    const WorkspaceBuffer& other = plan[kLifetimes[k].buffer];
    end = std::max(end, other.offset + other.bytes);
  }
  return end;
}

absl::Status BadRows(int64_t n_rows, int64_t n_sampled) {
  return absl::InvalidArgumentError(
      absl::StrCat("a step's rows must be positive, got n_rows ", n_rows,
                   " and n_sampled ", n_sampled));
}

// Places the buffers. `keeps_chunks` is true if later layers read the chunks
// beside rings.
absl::StatusOr<WorkspacePlan> Place(const Sizes& sizes, bool keeps_chunks,
                                    int64_t alignment) {
  const Lifetimes& lifetimes = keeps_chunks ? kSharingLifetimes : kLifetimes;
  const Meets& meets = keeps_chunks ? kSharingMeets : kMeets;
  WorkspacePlan plan = {};
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const Lifetime& lifetime = lifetimes[i];
    const auto index = static_cast<size_t>(lifetime.buffer);
    const Checked padded = Checked(EndBelow(meets[i], plan)) + (alignment - 1);
    if ((padded + sizes[index]).overflow()) return BuffersTooBig();
    const int64_t offset = *padded.Get() & -alignment;
    const int64_t bytes = *sizes[index].Get();
    plan.buffers[index] = {offset, bytes, lifetime.first, lifetime.last};
    plan.bytes = std::max(plan.bytes, offset + bytes);
  }
  return plan;
}

}  // namespace

const char* StepBufferName(StepBuffer buffer) {
  constexpr std::array<const char*, kNumStepBuffers> kNames = {
      "residual",      "normed",    "activations",  "angles",
      "prefix_angles", "query",     "prefix_query", "branch",
      "heads",         "key",       "value",        "chunk_key",
      "chunk_value",   "attention", "gate",         "up",
      "router",        "routing",   "expert_rows",  "ffn_sum",
      "per_layer",     "mixing",    "sampled",      "sampled_activations",
      "scratch"};
  return kNames[static_cast<size_t>(buffer)];
}

void StepWidths::WidenBy(const StepWidths& other) {
  for (int64_t StepWidths::*const width :
       {&StepWidths::query, &StepWidths::recurrent, &StepWidths::heads,
        &StepWidths::attended, &StepWidths::product, &StepWidths::kv,
        &StepWidths::ffn, &StepWidths::head_dim, &StepWidths::chunk_key_bytes,
        &StepWidths::chunk_value_bytes}) {
    this->*width = std::max(this->*width, other.*width);
  }
  has_windows |= other.has_windows;
  has_ffn_sums |= other.has_ffn_sums;
  shares_windows |= other.shares_windows;
}

absl::StatusOr<StepWidths> WidthsOf(const ModelShape& shape, DType k_type,
                                    DType v_type) {
  StepWidths widths;
  Widen widen;
  // Layers are of few kinds, so layers like the last two different ones are
  // skipped.
  const LayerShape* seen[2] = {nullptr, nullptr};
  for (const LayerShape& layer : shape.layers) {
    if (seen[0] != nullptr && layer.IsLike(*seen[0])) continue;
    if (seen[1] != nullptr && layer.IsLike(*seen[1])) continue;
    seen[1] = seen[0];
    seen[0] = &layer;
    WidenByMixer(shape, layer, widen, widths);
    widen(widths.kv, Checked(layer.n_kv_heads) * layer.head_dim);
    widen(widths.ffn, layer.ffn_dim);
    widen(widths.ffn, Checked(shape.n_experts_used) * layer.expert_ffn_dim);
    widen(widths.ffn, layer.shared_ffn_dim);
    widen(widths.ffn, shape.ple_dim);
    widths.has_ffn_sums |= layer.ffn == FfnKind::kExpertsBesideGated;
    if (layer.window == 0) continue;
    widths.has_windows = true;
    ASSIGN_OR_RETURN(const int64_t k_row, RowBytes(k_type, layer.head_dim));
    ASSIGN_OR_RETURN(const int64_t v_row,
                     RowBytes(v_type, layer.StoredValueDim()));
    widen(widths.chunk_key_bytes, Checked(layer.n_kv_heads) * k_row);
    widen(widths.chunk_value_bytes, Checked(layer.n_kv_heads) * v_row);
  }
  for (size_t il = 0; il < shape.layers.size(); ++il) {
    const LayerShape& layer = shape.layers[il];
    widths.shares_windows |=
        layer.window > 0 && layer.kv_source != static_cast<int64_t>(il);
  }
  if (widen.overflow) return BuffersTooBig();
  return widths;
}

absl::StatusOr<WorkspacePlan> WorkspaceLayout(const ModelShape& shape,
                                              const StepWidths& widths,
                                              const StepSize& step,
                                              const DeviceProfile& profile) {
  if (step.n_rows <= 0 || step.n_sampled <= 0) {
    return BadRows(step.n_rows, step.n_sampled);
  }
  const Sizes sizes = SizesOf(shape, widths, step, profile.workspace);
  return Place(sizes, step.has_rings && widths.shares_windows,
               profile.alignment);
}

absl::StatusOr<WorkspacePlan> ExpertWorkspaceLayout(
    const ModelShape& shape, int64_t n_rows, const DeviceProfile& profile) {
  if (n_rows <= 0) return BadRows(n_rows, /*n_sampled=*/n_rows);
  Widen widen;
  int64_t ffn = 0;  // width of all experts of a token
  for (const LayerShape& layer : shape.layers) {
    widen(ffn, Checked(shape.n_experts_used) * layer.expert_ffn_dim);
  }
  if (widen.overflow) return BuffersTooBig();
  const Checked rows = n_rows;
  Sizes sizes;
  sizes.Set(kNormed, rows * Floats(shape.model_dim));
  sizes.Set(kActivations,
            rows * Packed(std::max(shape.model_dim, ffn), profile.workspace));
  sizes.Set(kGate, rows * Floats(ffn));
  sizes.Set(kUp, rows * Floats(ffn));
  SetExpertSizes(shape, n_rows, sizes);
  sizes.Set(kScratch, profile.workspace.kernel_scratch_bytes);
  return Place(sizes, /*keeps_chunks=*/false, profile.alignment);
}

}  // namespace plimsoll::planner
