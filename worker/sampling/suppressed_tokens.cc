#include "worker/sampling/suppressed_tokens.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/sampling/logit_bias.h"

namespace plimsoll::worker {

absl::StatusOr<std::vector<int32_t>> ReadSuppressedTokens(
    const planner::GgufHeader& header, int64_t vocab_size) {
  constexpr char kKey[] = "tokenizer.ggml.suppress_tokens";
  constexpr auto kMost = static_cast<int64_t>(LogitBiasOptions::kMaxBiases);
  static_assert(kMost <= planner::GgufHeader::kMaxInlineElements);
  ASSIGN_OR_RETURN(const planner::GgufArray* const given, header.Array(kKey));
  std::vector<int32_t> ids;
  if (given == nullptr) return ids;
  if (given->n > kMost || std::ssize(given->numbers) != given->n) {
    return absl::InvalidArgumentError(
        absl::StrCat(kKey, " must be a list of at most ", kMost,
                     " ids, it has ", given->n, " elements"));
  }
  for (const double id : given->numbers) {
    if (!(id >= 0 && id < static_cast<double>(vocab_size)) ||
        id != std::floor(id)) {
      return absl::InvalidArgumentError(
          absl::StrCat(kKey, " names ", id, ", outside of the vocabulary of ",
                       vocab_size, " tokens"));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

}  // namespace plimsoll::worker
