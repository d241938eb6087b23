#include "planner/model/tensor_size.h"

#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

using enum Dim;

// A dimension of layers that keep a state.
int64_t RecurrentSizeOf(Dim dim, const ModelShape& shape) {
  const RecurrentShape& recurrent = shape.recurrent;
  switch (dim) {
    case Dim::kTaps:
      return recurrent.n_taps;
    case kChannels:
      return recurrent.n_channels;
    case kThreeModel:
      return 3 * shape.model_dim;
    case kStateHeads:
      return recurrent.n_heads;
    case kTwoStateHeads:
      return 2 * recurrent.n_heads;
    case kStateHead:
      return recurrent.head_dim;
    case kInner:
      return recurrent.InnerDim();
    case kGroups:
      return recurrent.n_groups;
    case kGroupInner:
      return recurrent.InnerDim() / recurrent.n_groups;
    default:
      break;
  }
  PLIMSOLL_CHECK(dim == kStateProduct, "SizeOf has all other dimensions");
  return recurrent.product_dim;
}

// A dimension of attention that depends on whether it is latent.
int64_t LatentSizeOf(Dim dim, const ModelShape& shape,
                     const LayerShape& layer) {
  const LatentShape& latent = shape.latent;
  const int64_t rotated = layer.head_dim - latent.rank;
  const bool is_latent = layer.mixer == MixerKind::kLatentAttention;
  switch (dim) {
    case Dim::kQueryRank:
      return latent.query_rank;
    case kLatent:
      return latent.rank;
    case kRotatedKey:
      return rotated;
    case kPlainKey:
      return latent.key_dim - rotated;
    case kValueHead:
      return latent.value_dim;
    case kPlainQuery:
      return shape.n_heads * latent.key_dim;
    case kAttended:
      return shape.n_heads * (is_latent ? latent.value_dim : layer.head_dim);
    default:
      break;
  }
  return RecurrentSizeOf(dim, shape);
}

}  // namespace

int64_t SizeOf(Dim dim, const TensorContext& context, const LayerShape& layer) {
  const ModelShape& shape = context.shape;
  const int64_t query = shape.n_heads * layer.head_dim;
  const int64_t kv = layer.n_kv_heads * layer.head_dim;
  switch (dim) {
    case kNone:
    case kOne:
      return 1;
    case kModel:
      return shape.model_dim;
    case kVocab:
      return shape.vocab_size;
    case kQuery:
      return query;
    case kQueryProduct:
      return shape.has_attention_gates ? 2 * query : query;
    case kKv:
      return kv;
    case kQkv:
      return query + 2 * kv;
    case kHead:
      return layer.head_dim;
    case kHeads:
      return shape.n_heads;
    case kFfn:
      return layer.ffn_dim;
    case kTwoFfn:
      return 2 * layer.ffn_dim;
    case kExpertFfn:
      return layer.expert_ffn_dim;
    case kTwoExpertFfn:
      return 2 * layer.expert_ffn_dim;
    case Dim::kExperts:
      return shape.n_experts;
    case kSharedFfn:
      return layer.shared_ffn_dim;
    case kRotary:
      return context.n_rot / 2;
    case Dim::kPle:
      return shape.ple_dim;
    case kAllPle:
      return shape.ple_dim * shape.n_layers;
    case kStreams:
      return shape.n_streams;
    case kStreamPairs:
      return shape.n_streams * shape.n_streams;
    case kOtherStreams:
      return shape.n_streams - 1;
    case kBranch:
      return shape.branch_rank;
    case kTwoModel:
      return 2 * shape.model_dim;
    default:
      break;
  }
  return LatentSizeOf(dim, shape, layer);
}

}  // namespace plimsoll::planner
