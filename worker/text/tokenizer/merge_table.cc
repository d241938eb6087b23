#include "worker/text/tokenizer/merge_table.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_arrays.h"

namespace plimsoll::worker {
namespace {

constexpr absl::string_view kMergesKey = "tokenizer.ggml.merges";

// The hash is one multiplication: every pair of symbols is looked up.
uint64_t HashPair(int32_t left, int32_t right) {
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
  const uint64_t both = uint64_t{static_cast<uint32_t>(left)} << 32 |
                        static_cast<uint32_t>(right);
  const uint64_t mixed = (both ^ both >> 29) * kMix;
  return mixed ^ mixed >> 32;
}

}  // namespace

absl::StatusOr<MergeTable> MergeTable::Load(const planner::GgufHeader& header,
                                            planner::ByteSource& source,
                                            const VocabTable& vocab) {
  ASSIGN_OR_RETURN(const planner::GgufArray* array, header.Array(kMergesKey));
  if (array == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(kMergesKey, " is missing"));
  }
  if (array->n > kMaxMerges) {
    return absl::InvalidArgumentError(absl::StrCat(
        kMergesKey, " has ", array->n, " merges, more than ", kMaxMerges));
  }
  MergeTable table;
  const auto n_merges = static_cast<size_t>(std::max<int64_t>(array->n, 1));
  table.slots_.resize(std::bit_ceil(2 * n_merges));
  table.filter_.Reset(n_merges);
  RETURN_IF_ERROR(
      NameKey(kMergesKey,
              planner::ForEachString(
                  source, *array, [&](int64_t rank, absl::string_view merge) {
                    return table.Add(rank, merge, vocab);
                  })));
  return table;
}

absl::Status MergeTable::Add(int64_t rank, absl::string_view merge,
                             const VocabTable& vocab) {
  const auto error = [rank](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(kMergesKey, "[", rank, "] ", what));
  };
  if (static_cast<int64_t>(merge.size()) > kMaxMergeBytes) {
    return error("is longer than two tokens");
  }
  // A token may begin with a space, so the first byte never separates.
  const size_t space = merge.find(' ', 1);
  if (space == absl::string_view::npos) return error("has no space");
  const int32_t left = vocab.Find(merge.substr(0, space));
  const int32_t right = vocab.Find(merge.substr(space + 1));
  const int32_t joined =
      vocab.Find(absl::StrCat(merge.substr(0, space), merge.substr(space + 1)));
  if (left < 0 || right < 0 || joined < 0) {
    return error("names a token that is not in tokenizer.ggml.tokens");
  }
  const size_t mask = slots_.size() - 1;
  size_t i = HashPair(left, right) & mask;
  while (slots_[i].left >= 0) {
    if (slots_[i].left == left && slots_[i].right == right) {
      return absl::OkStatus();
    }
    i = (i + 1) & mask;
  }
  slots_[i] = {left, right, {static_cast<uint32_t>(rank), joined}};
  filter_.Add(HashPair(left, right));
  return absl::OkStatus();
}

std::optional<MergeRule> MergeTable::Find(int32_t left, int32_t right) const {
  const uint64_t hash = HashPair(left, right);
  if (!filter_.MayHave(hash)) return std::nullopt;
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  while (slots_[i].left >= 0) {
    const Slot& slot = slots_[i];
    if (slot.left == left && slot.right == right) return slot.rule;
    i = (i + 1) & mask;
  }
  return std::nullopt;
}

int64_t MergeTable::MemoryBytes() const {
  return static_cast<int64_t>(sizeof(*this) +
                              slots_.capacity() * sizeof(Slot)) +
         filter_.MemoryBytes();
}

}  // namespace plimsoll::worker
