// Reads which layers keep a state, and the widths of such layers, from a
// header.
#ifndef PLIMSOLL_PLANNER_MODEL_RECURRENT_SHAPE_H_
#define PLIMSOLL_PLANNER_MODEL_RECURRENT_SHAPE_H_

#include "absl/status/status.h"
#include "planner/model/architecture.h"
#include "planner/model/hyperparameters.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// Sets `recurrent`, and the mixers and KV heads of the layers that do not
// attend. Layers that are a mixer alone lose their FFN. Heads and widths of
// FFNs of every layer are set already.
// Errors: kInvalidArgument naming a key that is missing or makes no sense.
// Source: GGUF keys `A.attention.head_count_kv`, `A.feed_forward_length`,
// `A.attention.recurrent_layers`, `A.full_attention_interval`,
// `A.shortconv.l_cache`, `A.ssm.*`.
absl::Status ReadRecurrentLayers(const Hyperparameters& keys,
                                 const Architecture& architecture,
                                 ModelShape& shape);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_RECURRENT_SHAPE_H_
