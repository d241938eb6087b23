// Reads the widths of latent attention from a header.
#ifndef PLIMSOLL_PLANNER_MODEL_LATENT_SHAPE_H_
#define PLIMSOLL_PLANNER_MODEL_LATENT_SHAPE_H_

#include "absl/status/status.h"
#include "planner/model/hyperparameters.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// Sets `latent` and the head_dim of every layer, whose heads are set already.
// Errors: kInvalidArgument naming a key that is missing or makes no sense;
// kUnimplemented for a file of the old form, without attn_k_b and attn_v_b.
// Source: GGUF keys `A.attention.{kv_lora_rank,q_lora_rank}`,
// `A.attention.{key,value}_length` and the same with `_mla`,
// `A.rope.dimension_count`.
absl::Status ReadLatentHeads(const Hyperparameters& keys, ModelShape& shape);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_LATENT_SHAPE_H_
