// Keywords about numbers.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_NUMBER_KEYWORDS_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_NUMBER_KEYWORDS_H_

#include "absl/strings/string_view.h"
#include "worker/text/schema/shapes/keyword.h"

namespace plimsoll::worker {

// The rule of a keyword of this kind by its name, or null.
const KeywordRule* FindNumberKeyword(absl::string_view name);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_NUMBER_KEYWORDS_H_
