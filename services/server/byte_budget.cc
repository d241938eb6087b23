#include "services/server/byte_budget.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

absl::Status Refused(int64_t wanted_bytes, int64_t available_bytes,
                     absl::string_view what,
                     std::optional<absl::Duration> retry_after) {
  return WithDetails(absl::ResourceExhaustedError(absl::StrCat(
                         "this call's messages may take ", wanted_bytes,
                         " bytes of memory, ", available_bytes, " ", what)),
                     {v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED,
                      {{"wanted_bytes", absl::StrCat(wanted_bytes)},
                       {"available_bytes", absl::StrCat(available_bytes)}},
                      retry_after});
}

}  // namespace

absl::Status ByteBudget::Share::Grow(int64_t bytes) {
  if (bytes <= bytes_ || budget_ == nullptr) return absl::OkStatus();
  const absl::Status status = budget_->Raise(bytes_, bytes);
  if (status.ok()) bytes_ = bytes;
  return status;
}

void ByteBudget::Share::Shrink(int64_t bytes) {
  if (budget_ == nullptr || bytes >= bytes_) return;
  absl::MutexLock lock(&budget_->mu_);
  budget_->traffic_.held_bytes -= bytes_ - bytes;
  bytes_ = bytes;
}

int64_t ByteBudget::max_share_bytes() const {
  return std::max(limit_bytes_ - limit_bytes_ / 4,
                  std::min(limit_bytes_, kMaxSmallBytes));
}

absl::StatusOr<ByteBudget::Share> ByteBudget::Take(int64_t bytes) {
  bytes = std::max<int64_t>(bytes, 0);
  const absl::Status status = Raise(0, bytes);
  if (!status.ok()) return status;
  Share share;
  share.budget_ = this;
  share.bytes_ = bytes;
  absl::MutexLock lock(&mu_);
  ++traffic_.n_shares;
  return share;
}

absl::Status ByteBudget::Raise(int64_t from, int64_t to) {
  if (to > max_share_bytes()) {
    return Refused(to, max_share_bytes(),
                   "are the most that one call may have: make it smaller",
                   std::nullopt);
  }
  absl::MutexLock lock(&mu_);
  const int64_t limit = to > kMaxSmallBytes ? max_share_bytes() : limit_bytes_;
  const int64_t available =
      std::max<int64_t>(limit - (traffic_.held_bytes - from), 0);
  if (to > available) {
    return Refused(to, available, "are left by other calls: try again",
                   kRetryDelay);
  }
  traffic_.held_bytes += to - from;
  return absl::OkStatus();
}

ByteBudget::Traffic ByteBudget::traffic() const {
  absl::MutexLock lock(&mu_);
  return traffic_;
}

}  // namespace plimsoll::services
