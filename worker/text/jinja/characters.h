// The case and the kind of characters, as Python defines them.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_CHARACTERS_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_CHARACTERS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::worker::jinja {

// Each `character` here is the UTF-8 of one code point.

std::string Upper(absl::string_view character);
std::string Lower(absl::string_view character);
std::string Title(absl::string_view character);
bool IsCased(absl::string_view character);

// Python's str.isspace.
bool IsSpace(absl::string_view character);
// Python's str.isprintable: repr() shows the character unchanged.
bool IsPrintable(absl::string_view character);
enum class CharacterKind { kLetter, kDigit, kNumber, kWord };
// True for a letter; a decimal digit; anything numeric; any of these or '_'.
bool IsKind(absl::string_view character, CharacterKind kind);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_CHARACTERS_H_
