#include "services/cli/flags/element_types.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace plimsoll::cli {
namespace {

// Returns the type of this name, whose letters may be small or large, or null.
const DTypeInfo* FindNamedType(absl::string_view name) {
  for (const DTypeInfo& info : kDTypes) {
    if (absl::EqualsIgnoreCase(info.name, name)) return &info;
  }
  return nullptr;
}

absl::StatusOr<DType> ParseDType(absl::string_view text) {
  const DTypeInfo* info = FindNamedType(text);
  if (info == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text.substr(0, 40),
        "' is not an element type; keys and values are kept as "
        "f16, f32, bf16, q8_0, q5_1 or q4_0, and plans know more"));
  }
  return info->dtype;
}

}  // namespace

absl::StatusOr<KvTypes> ParseKvTypes(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  if (parts.size() > 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text.substr(0, 40),
                     "' names more than two types; write one for both or "
                     "KEYS,VALUES"));
  }
  KvTypes types;
  ASSIGN_OR_RETURN(types.k, ParseDType(parts.front()));
  ASSIGN_OR_RETURN(types.v, ParseDType(parts.back()));
  return types;
}

absl::StatusOr<std::optional<DType>> ParseWeights(absl::string_view text) {
  if (text == "file") return std::optional<DType>();
  const DTypeInfo* info = FindNamedType(text);
  if (info != nullptr) return std::optional<DType>(info->dtype);
  const auto add_name = [](std::string* out, const DTypeInfo& type) {
    absl::StrAppend(out, type.name);
  };
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text.substr(0, 40),
      "' is not an element type; write file (as the weights are), or one of ",
      absl::StrJoin(kDTypes, ", ", add_name)));
}

}  // namespace plimsoll::cli
