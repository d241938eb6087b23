#include "worker/sampling/non_finite.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace plimsoll::worker {
namespace {

constexpr char kNonFiniteUrl[] = "plimsoll.dev/non-finite-logits";

absl::Status Marked(absl::string_view message) {
  absl::Status status = absl::InternalError(message);
  status.SetPayload(kNonFiniteUrl, absl::Cord());
  return status;
}

}  // namespace

absl::Status NonFiniteLogits(absl::string_view where) {
  return Marked(
      absl::StrCat("non-finite logits ", where,
                   "; the model's weights are damaged, or numbers are too "
                   "large for its types"));
}

bool IsNonFiniteLogits(const absl::Status& status) {
  return status.GetPayload(kNonFiniteUrl).has_value();
}

absl::Status AtStep(const absl::Status& status, const StepPlace& place) {
  if (!IsNonFiniteLogits(status)) return status;
  return Marked(absl::StrCat(status.message(), " (step ", place.step,
                             " since the load, position ", place.position,
                             " of the context)"));
}

}  // namespace plimsoll::worker
