#include "planner/gguf/split_files.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_stream.h"

namespace plimsoll::planner {
namespace {

// A shard's name ends with "-NNNNN-of-NNNNN.gguf".
constexpr absl::string_view kFirst = "-00001-of-";
constexpr absl::string_view kEnd = ".gguf";
constexpr size_t kDigits = 5;
constexpr size_t kTailBytes = kFirst.size() + kDigits + kEnd.size();

absl::Status CheckKey(const GgufHeader& shard, size_t index,
                      absl::string_view key, int64_t wanted) {
  ASSIGN_OR_RETURN(const auto value, shard.Int(key));
  if (value == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("shard ", index + 1, ": metadata \"", key, "\" is ",
                   value ? absl::StrCat(*value) : "missing", ", not ", wanted));
}

// The largest number of which the alignment of each shard is a multiple.
int64_t CommonAlignment(const std::vector<GgufHeader>& shards) {
  int64_t alignment = shards.front().alignment;
  for (const GgufHeader& shard : shards) {
    alignment = std::gcd(alignment, shard.alignment);
  }
  return alignment;
}

}  // namespace

bool IsLaterSplit(absl::string_view name) {
  if (name.size() <= kTailBytes) return false;
  const absl::string_view prefix = name.substr(0, name.size() - kTailBytes);
  const std::vector<std::string> names = SplitNames(
      absl::StrCat(prefix, kFirst, name.substr(prefix.size() + kFirst.size())));
  const auto shard = std::ranges::find(names, name);
  return shard != names.end() && shard != names.begin();
}

std::vector<std::string> SplitNames(absl::string_view name) {
  if (name.size() <= kTailBytes) return {};
  const absl::string_view prefix = name.substr(0, name.size() - kTailBytes);
  const absl::string_view tail = name.substr(prefix.size());
  const absl::string_view digits = tail.substr(kFirst.size(), kDigits);
  int64_t n = 0;
  if (tail.substr(0, kFirst.size()) != kFirst ||
      tail.substr(kFirst.size() + kDigits) != kEnd ||
      digits.find_first_not_of("0123456789") != absl::string_view::npos ||
      !absl::SimpleAtoi(digits, &n) || n < 1 || n > kMaxSplits) {
    return {};
  }
  std::vector<std::string> names;
  for (int64_t i = 1; i <= n; ++i) {
    names.push_back(absl::StrCat(prefix, "-", absl::Dec(i, absl::kZeroPad5),
                                 "-of-", absl::Dec(n, absl::kZeroPad5),
                                 ".gguf"));
  }
  return names;
}

absl::StatusOr<std::vector<int64_t>> SplitOffsets(
    const std::vector<GgufHeader>& shards) {
  const int64_t alignment = CommonAlignment(shards);
  std::vector<int64_t> offsets;
  Checked end = 0;
  for (const GgufHeader& shard : shards) {
    offsets.push_back(end.Get().value_or(0));
    end = RoundUp(end + shard.file_bytes, alignment);
  }
  const auto bytes = end.Get();
  if (!bytes) {
    return absl::OutOfRangeError("the shards do not fit in int64 bytes");
  }
  offsets.push_back(*bytes);
  return offsets;
}

absl::StatusOr<GgufHeader> MergeSplits(const std::vector<GgufHeader>& shards) {
  if (shards.empty()) return absl::InvalidArgumentError("there are no shards");
  ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, SplitOffsets(shards));
  GgufHeader whole = shards.front();
  whole.tensors.clear();
  whole.alignment = CommonAlignment(shards);
  const auto alignment = whole.metadata.find("general.alignment");
  if (alignment != whole.metadata.end()) {
    alignment->second.value = static_cast<uint64_t>(whole.alignment);
  }
  whole.file_bytes = offsets.back();
  const auto n_shards = static_cast<int64_t>(shards.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    RETURN_IF_ERROR(
        CheckKey(shards[i], i, "split.no", static_cast<int64_t>(i)));
    RETURN_IF_ERROR(CheckKey(shards[i], i, "split.count", n_shards));
    // The reader checked that each tensor stays within its shard.
    for (GgufTensor tensor : shards[i].tensors) {
      tensor.offset += offsets[i] + shards[i].data_offset - whole.data_offset;
      whole.tensors.push_back(std::move(tensor));
    }
  }
  std::set<absl::string_view> names;
  for (const GgufTensor& tensor : whole.tensors) {
    if (names.insert(tensor.name).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(tensor.name), " is in two shards"));
  }
  RETURN_IF_ERROR(CheckKey(shards.front(), 0, "split.tensors.count",
                           static_cast<int64_t>(whole.tensors.size())));
  return whole;
}

}  // namespace plimsoll::planner
