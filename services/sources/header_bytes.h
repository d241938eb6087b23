// A GGUF header that is small enough for a message: the counts of the
// vocabulary replace the vocabulary.
#ifndef PLIMSOLL_SERVICES_SOURCES_HEADER_BYTES_H_
#define PLIMSOLL_SERVICES_SOURCES_HEADER_BYTES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_reader.h"
#include "planner/model/model_shape.h"

namespace plimsoll::services {

// The limit of a ModelHeader's `gguf`.
inline constexpr int64_t kMaxHeaderBytes = 1 << 20;
// Longer strings, such as a chat template, play no part in a plan.
inline constexpr int64_t kMaxHeaderStringBytes = 4'096;

// Returns the header as GGUF bytes (version 3, little-endian) with everything
// that decides memory: all tensors, all numbers, short strings, and inline
// arrays of numbers. The tokenizer is replaced by the counts in `vocab`, under
// plimsoll.vocab.{model,n_tokens,token_bytes,n_merges,merge_bytes}.
std::string HeaderBytes(const planner::GgufHeader& header,
                        const planner::VocabShape& vocab);

// Returns the shape of the model with the header `bytes`, in a file of
// `file_bytes`. The beginning of a real file is accepted too, if it holds the
// whole header. The size of `bytes` limits the work, not the numbers in them.
// Errors: kInvalidArgument beyond kMaxHeaderBytes, if the header ends early,
// and for what ReadGgufHeader refuses; those of ShapeFromGguf.
absl::StatusOr<planner::ModelShape> ShapeFromHeaderBytes(
    absl::string_view bytes, uint64_t file_bytes);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SOURCES_HEADER_BYTES_H_
