#include "services/server/byte_budget.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
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

ByteBudget::Share::~Share() {
  if (budget_ != nullptr) budget_->Release(*this);
}

absl::Status ByteBudget::Share::Grow(int64_t bytes) {
  if (budget_ == nullptr) return absl::OkStatus();
  if (bytes > bytes_) RETURN_IF_ERROR(budget_->Raise(*this, bytes));
  if (std::exchange(is_counted_, true)) return absl::OkStatus();
  absl::MutexLock lock(&budget_->mu_);
  ++budget_->traffic_.n_shares;
  return absl::OkStatus();
}

void ByteBudget::Share::Shrink(int64_t bytes) {
  if (budget_ == nullptr || bytes >= bytes_) return;
  absl::MutexLock lock(&budget_->mu_);
  budget_->Add(*this, bytes - bytes_);
}

absl::Status ByteBudget::Share::Resize(int64_t bytes) {
  if (budget_ == nullptr) return absl::OkStatus();
  if (bytes > bytes_) return budget_->Raise(*this, bytes);
  Shrink(bytes);
  return absl::OkStatus();
}

int64_t ByteBudget::max_share_bytes() const {
  return std::max(limit_bytes_ * kLargeTimesLeft / (kLargeTimesLeft + 1),
                  std::min(limit_bytes_, kMaxSmallBytes));
}

ByteBudget::Share ByteBudget::Enter(absl::string_view peer) {
  Share share;
  absl::MutexLock lock(&mu_);
  share.peer_ = peers_.try_emplace(std::string(peer)).first;
  share.budget_ = this;
  ++share.peer_->second.n_live;
  ++traffic_.n_live;
  return share;
}

absl::StatusOr<ByteBudget::Share> ByteBudget::Take(absl::string_view peer,
                                                   int64_t bytes) {
  Share share = Enter(peer);
  RETURN_IF_ERROR(share.Grow(std::max<int64_t>(bytes, 0)));
  return share;
}

absl::Status ByteBudget::Raise(Share& share, int64_t bytes) {
  if (bytes > max_share_bytes()) {
    return Refused(bytes, max_share_bytes(),
                   "are the most that one call may have: make it smaller",
                   std::nullopt);
  }
  absl::MutexLock lock(&mu_);
  const int64_t most = MostOf(share, bytes);
  if (bytes > most) {
    return Refused(bytes, most,
                   "are left by other calls, of which one client's leave some "
                   "to others: try again",
                   kRetryDelay);
  }
  Add(share, bytes - share.bytes_);
  return absl::OkStatus();
}

int64_t ByteBudget::MostOf(const Share& share, int64_t bytes) const {
  const int64_t peer_bytes = share.peer_->second.held_bytes;
  // This is what the peer holds and what is free.
  const int64_t room = limit_bytes_ - (traffic_.held_bytes - peer_bytes);
  const int64_t times = bytes > kMaxSmallBytes ? kLargeTimesLeft : kTimesLeft;
  const int64_t most_of_peer =
      std::max(room * times / (times + 1), std::min(room, kMaxSmallBytes));
  return std::max<int64_t>(most_of_peer - (peer_bytes - share.bytes_), 0);
}

void ByteBudget::Add(Share& share, int64_t bytes) {
  traffic_.held_bytes += bytes;
  share.peer_->second.held_bytes += bytes;
  share.bytes_ += bytes;
}

void ByteBudget::Release(Share& share) {
  absl::MutexLock lock(&mu_);
  Add(share, -share.bytes_);
  --traffic_.n_live;
  if (--share.peer_->second.n_live == 0) peers_.erase(share.peer_);
}

ByteBudget::Traffic ByteBudget::traffic() const {
  absl::MutexLock lock(&mu_);
  return traffic_;
}

}  // namespace plimsoll::services
