#include "worker/text/jinja/render_meter.h"

#include "absl/strings/str_cat.h"

namespace plimsoll::worker::jinja {

absl::Status RenderMeter::CheckTextSize(int64_t bytes) const {
  if (bytes <= limits_.max_text_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a text is longer than the limit of ", limits_.max_text_bytes, " bytes"));
}

absl::Status RenderMeter::AtLine(absl::Status status, int line) {
  if (error_line_ == 0) error_line_ = line;
  return status;
}

absl::Status RenderMeter::TooDeep() {
  return absl::InvalidArgumentError(absl::StrCat(
      "the template calls itself deeper than the limit of ", kMaxCallDepth));
}

absl::Status RenderMeter::TooManySteps() const {
  return absl::InvalidArgumentError(absl::StrCat(
      "the template takes more steps than the limit of ", limits_.max_steps));
}

}  // namespace plimsoll::worker::jinja
