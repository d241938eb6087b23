#include "services/worker/lease_keeper.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/lease_book.h"
#include "services/common/errors.h"
#include "services/common/log.h"

namespace plimsoll::services {
namespace {

bool IsSilence(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable;
}

}  // namespace

LeaseKeeper::LeaseKeeper(PlannerClient& client,
                         std::function<planner::DeviceProfile()> profile,
                         std::function<absl::Time()> clock)
    : client_(client),
      profile_(std::move(profile)),
      clock_(std::move(clock)),
      jitter_(std::random_device{}()),
      thread_([this] { Loop(); }) {}

LeaseKeeper::~LeaseKeeper() {
  {
    absl::MutexLock lock(&mu_);
    is_stopping_ = true;
  }
  thread_.Join();
}

void LeaseKeeper::Add(const LeaseGrant& lease) {
  absl::MutexLock lock(&mu_);
  leases_[lease.id] = {lease, lease.asked + lease.ttl - kFenceMargin};
}

void LeaseKeeper::Remove(const std::string& lease_id) {
  absl::MutexLock lock(&mu_);
  leases_.erase(lease_id);
}

absl::Status LeaseKeeper::Fence(const std::string& lease_id) const {
  absl::MutexLock lock(&mu_);
  const auto found = leases_.find(lease_id);
  if (found != leases_.end() && !found->second.is_lost &&
      clock_() < found->second.fence) {
    return absl::OkStatus();
  }
  return WithDetails(
      absl::UnavailableError("the lease ended before the load did"),
      {v1::ERROR_REASON_LEASE_LOST, {}, PlannerClient::kRetryDelay});
}

void LeaseKeeper::Loop() {
  while (true) {
    const bool answered = RenewAll();
    if (answered != was_answered_) {
      Log(answered ? "the planner answers again"
                   : "the planner does not answer; serving goes on");
      was_answered_ = answered;
    }
    const absl::Duration delay = NextDelay(answered);
    absl::MutexLock lock(&mu_);
    if (mu_.AwaitWithTimeout(absl::Condition(&is_stopping_), delay)) return;
  }
}

absl::Duration LeaseKeeper::NextDelay(bool answered) {
  absl::Duration delay = planner::LeaseBook::kTtl / 3;
  absl::MutexLock lock(&mu_);
  for (const auto& [id, kept] : leases_) {
    delay = std::min(delay, kept.grant.ttl / 3);
  }
  if (answered) return delay;
  // Many workers that lost one planner do not come back at one moment.
  std::uniform_real_distribution<double> share(0.5, 1.0);
  return std::min(delay, kMaxBackoff) * share(jitter_);
}

bool LeaseKeeper::RenewAll() {
  if (!is_registered_) {
    const absl::Status status = client_.RegisterDevice(profile_());
    if (IsSilence(status)) return false;
    if (!status.ok()) {
      Log(absl::StrCat("the planner refuses this device: ", status.message()));
    }
    is_registered_ = status.ok();
  }
  std::vector<LeaseGrant> leases;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [id, kept] : leases_) {
      if (!kept.is_lost) leases.push_back(kept.grant);
    }
  }
  for (const LeaseGrant& lease : leases) {
    if (!RenewOne(lease)) return false;
  }
  return true;
}

bool LeaseKeeper::RenewOne(const LeaseGrant& lease) {
  const absl::Time before = clock_();
  const absl::Status status = client_.Renew(lease, profile_().free_bytes);
  if (IsSilence(status)) return false;
  absl::MutexLock lock(&mu_);
  const auto found = leases_.find(lease.id);
  if (found == leases_.end()) return true;
  if (status.ok()) {
    found->second.fence = before + lease.ttl - kFenceMargin;
    return true;
  }
  // A planner without memory of us: its readings of this device must tell it
  // what is taken.
  Log(absl::StrCat("a lease was lost, serving goes on: ", status.message()));
  found->second.is_lost = true;
  is_registered_ = false;
  return true;
}

}  // namespace plimsoll::services
