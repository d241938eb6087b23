// A GGUF header small enough for a message: without the vocabulary, with its
// counts.
#ifndef PLIMSOLL_SERVICES_COMMON_HEADER_BYTES_H_
#define PLIMSOLL_SERVICES_COMMON_HEADER_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "planner/gguf_reader.h"
#include "planner/model_shape.h"

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

// Such bytes as a file of `file_bytes`. The bytes must outlive it.
class HeaderSource final : public planner::ByteSource {
 public:
  HeaderSource(absl::string_view bytes, int64_t file_bytes)
      : bytes_(bytes), file_bytes_(file_bytes) {}
  int64_t Size() const override { return file_bytes_; }
  // Errors: kInvalidArgument beyond the bytes that are there.
  absl::Status Read(int64_t offset, std::span<std::byte> out) override;

 private:
  absl::string_view bytes_;
  int64_t file_bytes_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_COMMON_HEADER_BYTES_H_
