// Reads how a tokenizer.json prepares and cuts text before tokens are merged.
#ifndef PLIMSOLL_SERVICES_CONVERT_TEXT_CUTTING_H_
#define PLIMSOLL_SERVICES_CONVERT_TEXT_CUTTING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/convert/input.h"

namespace plimsoll::services {

// True if `tokenizer`, a tokenizer.json, maps bytes to characters.
bool IsByteLevel(const Json& tokenizer);

// Returns the expressions that cut text, in their order.
// Errors: kUnimplemented naming a kind of normalizer or pre-tokenizer that is
// not supported for byte-level BPE.
absl::StatusOr<std::vector<std::string>> ReadExpressions(const Json& tokenizer);

// Returns whether a space is put in front of a text, for SentencePiece's way to
// mark spaces by U+2581.
// Errors: kUnimplemented naming a normalizer or pre-tokenizer of another kind.
absl::StatusOr<bool> ReadSpacePrefix(const Json& tokenizer);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_CONVERT_TEXT_CUTTING_H_
