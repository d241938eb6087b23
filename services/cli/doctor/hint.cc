#include "services/cli/doctor/hint.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace plimsoll::cli {
namespace {

std::string OneLine(absl::string_view text) {
  return absl::StrJoin(
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty()), " ");
}

}  // namespace

Hint SplitHint(absl::string_view message) {
  constexpr absl::string_view kMark = "\n  try: ";
  const size_t mark = message.find(kMark);
  if (mark == absl::string_view::npos) return {OneLine(message), ""};
  const absl::string_view rest = message.substr(mark + kMark.size());
  return {OneLine(message.substr(0, mark)),
          OneLine(rest.substr(0, rest.find(kMark)))};
}

}  // namespace plimsoll::cli
