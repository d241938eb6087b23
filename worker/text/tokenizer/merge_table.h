// The ranked merges of a vocabulary.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_MERGE_TABLE_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_MERGE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_reader.h"
#include "worker/text/tokenizer/hash_filter.h"
#include "worker/text/tokenizer/pair_merge.h"
#include "worker/text/tokenizer/vocab_table.h"

namespace plimsoll::worker {

// The table of merges: which two tokens merge into which, and at which rank.
// Immutable after Load.
class MergeTable {
 public:
  static constexpr int64_t kMaxMerges = 1 << 24;
  // The largest length of one merge, "left right".
  static constexpr int64_t kMaxMergeBytes = 2 * VocabTable::kMaxTokenBytes + 1;

  // Reads tokenizer.ggml.merges. If merges are equal, the first one counts.
  // Errors: kInvalidArgument naming the merge that has no space or names a
  // token outside the vocabulary.
  static absl::StatusOr<MergeTable> Load(const planner::GgufHeader& header,
                                         planner::ByteSource& source,
                                         const VocabTable& vocab);
  std::optional<MergeRule> Find(int32_t left, int32_t right) const;
  // Calls `visit(left, right)` for every merge.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.left >= 0) visit(slot.left, slot.right);
    }
  }
  // At least the number of merges.
  size_t n_slots() const { return slots_.size(); }
  int64_t MemoryBytes() const;

 private:
  struct Slot {
    int32_t left = -1;  // -1 if free
    int32_t right = -1;
    MergeRule rule = {0, -1};
  };
  absl::Status Add(int64_t rank, absl::string_view merge,
                   const VocabTable& vocab);

  std::vector<Slot> slots_;  // open addressing
  HashFilter filter_;        // most pairs have no merge
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_MERGE_TABLE_H_
