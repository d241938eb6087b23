// The flags' names of element types.
#ifndef PLIMSOLL_SERVICES_CLI_FLAGS_ELEMENT_TYPES_H_
#define PLIMSOLL_SERVICES_CLI_FLAGS_ELEMENT_TYPES_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"

namespace plimsoll::cli {

struct KvTypes {
  DType k = DType::kF16;
  DType v = DType::kF16;
};

// Parses "f16" for both, or "q8_0,f16" for keys and values. The letters of a
// type may be small or large. Errors: kInvalidArgument saying what is allowed.
absl::StatusOr<KvTypes> ParseKvTypes(absl::string_view text);

// Parses an element type. Returns nothing for "file". Errors: as above.
absl::StatusOr<std::optional<DType>> ParseWeights(absl::string_view text);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_FLAGS_ELEMENT_TYPES_H_
