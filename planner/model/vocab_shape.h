// The tokenizer's tables as a GGUF header declares them. Counts, lengths and
// types are checked; no string is read.
#ifndef PLIMSOLL_PLANNER_MODEL_VOCAB_SHAPE_H_
#define PLIMSOLL_PLANNER_MODEL_VOCAB_SHAPE_H_

#include "absl/status/statusor.h"
#include "planner/gguf/gguf_reader.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// Returns the vocabulary's shape; n_tokens is 0 for "no_vocab" and "none".
// Errors: kInvalidArgument naming the key that is missing, of a wrong type or
// length, or a special id that is not a token; kUnimplemented naming another
// tokenizer model.
// Source: GGUF keys `tokenizer.ggml.*`, and `plimsoll.vocab.*` for a header
// that is sent without its tokenizer.
absl::StatusOr<VocabShape> ReadVocabShape(const GgufHeader& header);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_VOCAB_SHAPE_H_
