#include "planner/gguf/split_files.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_stream.h"

namespace plimsoll::planner {
namespace {

absl::Status CheckKey(const GgufHeader& part, size_t index,
                      absl::string_view key, int64_t wanted) {
  ASSIGN_OR_RETURN(const auto value, part.Int(key));
  if (value == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("part ", index + 1, ": metadata \"", key, "\" is ",
                   value ? absl::StrCat(*value) : "missing", ", not ", wanted));
}

}  // namespace

std::vector<std::string> SplitNames(absl::string_view name) {
  // "-00001-of-NNNNN.gguf"
  constexpr absl::string_view kFirst = "-00001-of-";
  constexpr absl::string_view kEnd = ".gguf";
  constexpr size_t kDigits = 5;
  const size_t length = kFirst.size() + kDigits + kEnd.size();
  if (name.size() <= length) return {};
  const absl::string_view prefix = name.substr(0, name.size() - length);
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

absl::StatusOr<GgufHeader> MergeSplits(const std::vector<GgufHeader>& parts) {
  if (parts.empty()) return absl::InvalidArgumentError("there are no parts");
  GgufHeader whole = parts.front();
  whole.tensors.clear();
  whole.data_offset = 0;
  const auto n_parts = static_cast<int64_t>(parts.size());
  Checked end = 0;
  absl::flat_hash_set<absl::string_view> names;
  for (size_t i = 0; i < parts.size(); ++i) {
    RETURN_IF_ERROR(CheckKey(parts[i], i, "split.no", static_cast<int64_t>(i)));
    RETURN_IF_ERROR(CheckKey(parts[i], i, "split.count", n_parts));
    for (GgufTensor tensor : parts[i].tensors) {
      tensor.offset = end.Get().value_or(0);
      end = RoundUp(end + tensor.bytes, whole.alignment);
      whole.tensors.push_back(std::move(tensor));
    }
  }
  for (const GgufTensor& tensor : whole.tensors) {
    if (names.insert(tensor.name).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(tensor.name), " is in two parts"));
  }
  RETURN_IF_ERROR(CheckKey(parts.front(), 0, "split.tensors.count",
                           static_cast<int64_t>(whole.tensors.size())));
  // A header in front of the data is padded by less than the alignment.
  const auto file_bytes = (end + whole.alignment).Get();
  if (!file_bytes) {
    return absl::OutOfRangeError("the parts do not fit in int64 bytes");
  }
  whole.file_bytes = *file_bytes;
  return whole;
}

}  // namespace plimsoll::planner
