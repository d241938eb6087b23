// Tokens that a model's file forbids to draw.
#ifndef PLIMSOLL_WORKER_SAMPLING_SUPPRESSED_TOKENS_H_
#define PLIMSOLL_WORKER_SAMPLING_SUPPRESSED_TOKENS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/gguf/gguf_header.h"

namespace plimsoll::worker {

// Reads them; there are none if the file does not have the key.
// Errors: kInvalidArgument naming the key if it holds no list of ids of the
// vocabulary, or more than LogitBiasOptions::kMaxBiases.
// Source: GGUF key `tokenizer.ggml.suppress_tokens`.
absl::StatusOr<std::vector<int32_t>> ReadSuppressedTokens(
    const planner::GgufHeader& header, int64_t vocab_size);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLING_SUPPRESSED_TOKENS_H_
