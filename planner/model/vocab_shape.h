// The tokenizer's tables as a GGUF header declares them: counts, lengths and
// types checked, no string read.
#ifndef PLIMSOLL_PLANNER_MODEL_VOCAB_SHAPE_H_
#define PLIMSOLL_PLANNER_MODEL_VOCAB_SHAPE_H_

#include "absl/status/statusor.h"
#include "planner/gguf/gguf_reader.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// Returns the vocabulary's shape; n_tokens is 0 for "no_vocab" and "none".
// Errors: kInvalidArgument naming the key that is missing, of a wrong type or
// length, or a special id that is no token; kUnimplemented naming another
// tokenizer model.
// Source: GGUF keys `tokenizer.ggml.*`; for a header that travels without its
// tokenizer `plimsoll.vocab.*`.
absl::StatusOr<VocabShape> ReadVocabShape(const GgufHeader& header);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_VOCAB_SHAPE_H_
