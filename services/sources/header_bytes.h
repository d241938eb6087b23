// A GGUF header small enough for a message: without the vocabulary, with its
// counts.
#ifndef PLIMSOLL_SERVICES_SOURCES_HEADER_BYTES_H_
#define PLIMSOLL_SERVICES_SOURCES_HEADER_BYTES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_reader.h"
#include "planner/model/model_shape.h"

namespace plimsoll::services {

// Of a ModelHeader's `gguf`.
inline constexpr int64_t kMaxHeaderBytes = 1 << 20;
// Strings longer than this (a chat template) play no part in a plan.
inline constexpr int64_t kMaxHeaderStringBytes = 4'096;

// The header as GGUF bytes (version 3, little-endian) with everything that
// decides memory: all tensors, all numbers, short strings, arrays of numbers
// that are inline. Of the tokenizer only the counts in `vocab` stay, under
// plimsoll.vocab.{model,n_tokens,token_bytes,n_merges,merge_bytes}.
std::string HeaderBytes(const planner::GgufHeader& header,
                        const planner::VocabShape& vocab);

// The shape of the model whose header such bytes are, in a file of
// `file_bytes`. Bytes of a real file's beginning are accepted as well, if they
// hold its whole header.
// The work is bounded by the bytes that are given, not by what they claim.
// Errors: kInvalidArgument beyond kMaxHeaderBytes, if the header ends early and
// for what ReadGgufHeader refuses; what ShapeFromGguf reports.
absl::StatusOr<planner::ModelShape> ShapeFromHeaderBytes(
    absl::string_view bytes, uint64_t file_bytes);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SOURCES_HEADER_BYTES_H_
