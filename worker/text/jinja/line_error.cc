#include "worker/text/jinja/line_error.h"

#include "absl/strings/str_cat.h"

namespace plimsoll::worker::jinja {

absl::Status LineError(int line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
}

}  // namespace plimsoll::worker::jinja
