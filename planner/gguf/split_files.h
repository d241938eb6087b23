// Treats a model in several GGUF files as one file.
#ifndef PLIMSOLL_PLANNER_GGUF_SPLIT_FILES_H_
#define PLIMSOLL_PLANNER_GGUF_SPLIT_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_reader.h"

namespace plimsoll::planner {

inline constexpr int64_t kMaxSplits = 1'024;

// The names of all shards, given the name of the first one:
// "m-00001-of-00003.gguf" gives three. Empty if `name` has another form.
std::vector<std::string> SplitNames(absl::string_view name);

// True if `name` is the name of a shard other than the first one.
bool IsLaterSplit(absl::string_view name);

// Returns the offset of each shard in bytes if the shards lie one after
// another, and at the end the size of all shards together. Shards begin at
// multiples of the alignment of MergeSplits' header.
// Errors: kOutOfRange on overflow.
absl::StatusOr<std::vector<int64_t>> SplitOffsets(
    const std::vector<GgufHeader>& shards);

// Returns one header with the metadata of the first shard and the tensors of
// all shards, as if the shards were one file, in which each begins at its
// SplitOffsets. Only the first shard needs the model's metadata.
// Errors: kInvalidArgument naming the shard whose split.no (from 0),
// split.count or split.tensors.count contradicts the others, or a tensor that
// occurs twice; kOutOfRange on overflow.
absl::StatusOr<GgufHeader> MergeSplits(const std::vector<GgufHeader>& shards);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_GGUF_SPLIT_FILES_H_
