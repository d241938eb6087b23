#include "planner/model/latent_shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

// The rank is whole blocks of every type of the cache, because the two parts of
// a row are stored apart.
constexpr int64_t kRankMultiple = 32;
constexpr int64_t kRotatedMultiple = 16;

absl::Status Not(const Hyperparameters& keys, absl::string_view suffix,
                 int64_t value, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "metadata \"", keys.Key(suffix), "\" is ", value, ", not ", what));
}

// Checks that the key says what others imply.
absl::Status CheckIs(const Hyperparameters& keys, absl::string_view suffix,
                     int64_t wanted, absl::string_view what) {
  ASSIGN_OR_RETURN(const int64_t value,
                   keys.Int(suffix, 1, ModelShape::kMaxDim));
  if (value == wanted) return absl::OkStatus();
  return Not(keys, suffix, value, absl::StrCat(wanted, ", ", what));
}

absl::Status CheckForm(const Hyperparameters& keys, const ModelShape& shape) {
  constexpr absl::string_view kNewKey = "attention.key_length_mla";
  if (!keys.header().metadata.contains(keys.Key(kNewKey))) {
    return absl::UnimplementedError(absl::StrCat(
        "metadata \"", keys.Key(kNewKey),
        "\" is missing: a file of the old form has keys and values in the "
        "tensors attn_kv_b; this build needs attn_k_b and attn_v_b, which a "
        "new conversion of the model writes"));
  }
  for (const LayerShape& layer : shape.layers) {
    if (layer.n_kv_heads == 1) continue;
    return Not(keys, "attention.head_count_kv", layer.n_kv_heads,
               "1, as all heads share the cache");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadLatentHeads(const Hyperparameters& keys, ModelShape& shape) {
  RETURN_IF_ERROR(CheckForm(keys, shape));
  LatentShape& latent = shape.latent;
  ASSIGN_OR_RETURN(latent.rank, keys.Int("attention.kv_lora_rank", 1,
                                         ModelShape::kMaxHeadDim));
  ASSIGN_OR_RETURN(latent.query_rank, keys.Int("attention.q_lora_rank", 0,
                                               ModelShape::kMaxDim, 0));
  ASSIGN_OR_RETURN(const int64_t n_rot,
                   keys.Int("rope.dimension_count", 1,
                            ModelShape::kMaxLatentRow - latent.rank));
  ASSIGN_OR_RETURN(latent.key_dim, keys.Int("attention.key_length_mla",
                                            n_rot + 1, ModelShape::kMaxDim));
  ASSIGN_OR_RETURN(latent.value_dim, keys.Int("attention.value_length_mla", 1,
                                              ModelShape::kMaxDim));
  if (latent.rank % kRankMultiple != 0) {
    return Not(keys, "attention.kv_lora_rank", latent.rank,
               absl::StrCat("a multiple of ", kRankMultiple));
  }
  if (n_rot % kRotatedMultiple != 0) {
    return Not(keys, "rope.dimension_count", n_rot,
               absl::StrCat("a multiple of ", kRotatedMultiple));
  }
  const int64_t row = latent.rank + n_rot;
  RETURN_IF_ERROR(
      CheckIs(keys, "attention.key_length", row, "a row of the cache"));
  RETURN_IF_ERROR(CheckIs(keys, "attention.value_length", latent.rank,
                          "the rank of keys and values"));
  const int64_t widest = std::max({row, latent.key_dim, latent.value_dim});
  if (shape.n_heads > ModelShape::kMaxDim / widest) {
    return Not(keys, "attention.head_count", shape.n_heads,
               absl::StrCat("at most ", ModelShape::kMaxDim / widest,
                            " heads of ", widest, " elements"));
  }
  for (LayerShape& layer : shape.layers) layer.head_dim = row;
  return absl::OkStatus();
}

}  // namespace plimsoll::planner
