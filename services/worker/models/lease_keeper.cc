#include "services/worker/models/lease_keeper.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/lease/lease.h"
#include "services/host/log.h"
#include "services/host/memory_guard.h"
#include "services/host/random_id.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

bool IsSilence(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable;
}

}  // namespace

LeaseKeeper::LeaseKeeper(PlannerClient& client,
                         std::vector<WorkerDevice> devices,
                         std::function<absl::Time()> clock,
                         WorkerObserver* observer)
    : client_(client),
      devices_(std::move(devices)),
      clock_(std::move(clock)),
      observer_(observer),
      begin_(clock_()),
      jitter_(std::random_device{}()),
      thread_([this] { Loop(); }) {}

LeaseKeeper::~LeaseKeeper() {
  Stop();
  client_.CancelCalls();  // nobody needs the answers any more
  thread_.Join();
}

void LeaseKeeper::Stop() {
  SteadyMutexLock lock(&mu_);
  is_stopping_ = true;
  leases_.clear();
}

absl::StatusOr<LeaseGrant> LeaseKeeper::Reserve(const std::string& device_id,
                                                const std::string& purpose,
                                                int64_t bytes) {
  {
    SteadyMutexLock lock(&mu_);
    ++n_reserving_;
    ++n_reserved_;
  }
  auto lease = WithinMemory([&]() -> absl::StatusOr<LeaseGrant> {
    ASSIGN_OR_RETURN(LeaseGrant granted,
                     client_.Reserve(RandomId(), device_id, purpose, bytes));
    Tell(LeaseEvent::kGranted, granted);
    return granted;
  });
  // Both change in one step, so that a lease is always either awaited or known.
  // One for which there was no memory here is neither: it is given back soon
  // (ReleaseStrays).
  SteadyMutexLock lock(&mu_);
  --n_reserving_;
  if (!lease.ok()) return lease;
  try {
    Keep(*lease);
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
  return lease;
}

void LeaseKeeper::Tell(LeaseEvent event, const LeaseGrant& lease,
                       const absl::Status& error) {
  if (observer_ == nullptr) return;
  observer_->OnLease({event, lease.id, lease.device_id, lease.purpose,
                      lease.bytes, std::string(error.message())});
}

void LeaseKeeper::Keep(const LeaseGrant& lease) {
  const auto device = std::find_if(
      devices_.begin(), devices_.end(),
      [&lease](const WorkerDevice& one) { return one.id == lease.device_id; });
  PLIMSOLL_CHECK(device != devices_.end(), "leases are on the devices");
  Kept kept = {.grant = lease,
               .device = &*device,
               .fence = lease.asked + lease.ttl - FenceMargin(lease.ttl)};
  leases_.insert_or_assign(lease.id, std::move(kept));
  // The next round may come too late for a short time to live.
  if (lease.ttl / 3 < delay_) is_early_ = true;
}

absl::Status LeaseKeeper::Release(const LeaseGrant& lease,
                                  int64_t shortfall_bytes) {
  {
    SteadyMutexLock lock(&mu_);
    leases_.erase(lease.id);
    releasing_.insert(lease.id);
  }
  // A drain that gives many leases back waits for a silent planner once.
  absl::Status status = client_.is_silent()
                            ? absl::UnavailableError("the planner is silent")
                            : client_.Release(lease, shortfall_bytes);
  if (status.ok()) Tell(LeaseEvent::kReleased, lease);
  SteadyMutexLock lock(&mu_);
  releasing_.erase(lease.id);
  if (absl::IsUnavailable(status)) unreleased_.push_back(lease);
  return status;
}

void LeaseKeeper::Confirmed(const std::string& lease_id,
                            int64_t measured_bytes) {
  SteadyMutexLock lock(&mu_);
  const auto found = leases_.find(lease_id);
  if (found != leases_.end()) found->second.measured_bytes = measured_bytes;
}

void LeaseKeeper::Retire(const std::string& lease_id) {
  SteadyMutexLock lock(&mu_);
  const auto found = leases_.find(lease_id);
  if (found != leases_.end()) found->second.is_retired = true;
}

absl::Status LeaseKeeper::Fence(const std::string& lease_id) const {
  SteadyMutexLock lock(&mu_);
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
    bool answered = RenewAll();
    if (IsStopping()) return;
    // A planner that turned out not to know the device knows it now.
    if (answered && !is_registered_) answered = RenewAll();
    // It may come back with a journal that lags behind.
    if (!answered) is_done_with_former_ = false;
    if (answered != was_answered_) {
      Log(answered ? LogLevel::kInfo : LogLevel::kWarning,
          answered ? "the planner answers again"
                   : "the planner does not answer; serving goes on");
      was_answered_ = answered;
    }
    const absl::Duration delay = NextDelay(answered);
    SteadyMutexLock lock(&mu_);
    const auto is_due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return is_stopping_ || is_early_;
    };
    mu_.AwaitFor(absl::Condition(&is_due), delay);
    if (is_stopping_) return;
    is_early_ = false;
  }
}

bool LeaseKeeper::IsStopping() const {
  SteadyMutexLock lock(&mu_);
  return is_stopping_;
}

absl::Duration LeaseKeeper::NextDelay(bool answered) {
  SteadyMutexLock lock(&mu_);
  delay_ = planner::LeaseTimes::kDefaultTtl / 3;
  for (const auto& [id, kept] : leases_) {
    delay_ = std::min(delay_, kept.grant.ttl / 3);
  }
  if (answered) return delay_;
  // Many workers that lost one planner do not come back at one moment.
  std::uniform_real_distribution<double> share(0.5, 1.0);
  delay_ = std::min(delay_, kMaxBackoff) * share(jitter_);
  return delay_;
}

bool LeaseKeeper::RenewAll() {
  std::vector<std::pair<std::string, const WorkerDevice*>> ids;
  {
    SteadyMutexLock lock(&mu_);
    for (const auto& [id, kept] : leases_) {
      if (!kept.is_lost) ids.emplace_back(id, kept.device);
    }
  }
  // Without a lease nothing else would tell that the planner was restarted.
  if ((!is_registered_ || ids.empty()) && !RegisterAll()) return false;
  for (const auto& [id, device] : ids) {
    if (!RenewOne(id, *device)) return false;
  }
  return ReleaseAll() && ReleaseFormer() && ReleaseStrays();
}

bool LeaseKeeper::RegisterAll() {
  absl::Status refusal;
  for (const WorkerDevice& device : devices_) {
    const absl::Status status =
        client_.RegisterDevice(device.id, device.profile());
    if (IsSilence(status)) return false;
    refusal.Update(status);
  }
  if (!refusal.ok() && !was_refused_) {
    Log(LogLevel::kError, "the planner refuses this device",
        {{"error", std::string(refusal.message())}});
  }
  is_registered_ = refusal.ok();
  was_refused_ = !refusal.ok();
  return true;
}

bool LeaseKeeper::ReleaseAll() {
  std::vector<LeaseGrant> leases;
  {
    SteadyMutexLock lock(&mu_);
    leases.swap(unreleased_);
  }
  bool answered = true;
  for (const LeaseGrant& lease : leases) {
    if (answered) {
      const absl::Status status = client_.Release(lease);
      if (status.ok()) Tell(LeaseEvent::kReleased, lease);
      answered = !IsSilence(status);
    }
    if (answered) continue;
    SteadyMutexLock lock(&mu_);
    unreleased_.push_back(lease);
  }
  return answered;
}

std::set<std::string> LeaseKeeper::KnownIds() const {
  std::set<std::string> ids = releasing_;
  for (const auto& [id, kept] : leases_) ids.insert(id);
  return ids;
}

bool LeaseKeeper::ReleaseStrays() {
  std::set<std::string> known;
  int64_t n_reserved = 0;
  {
    SteadyMutexLock lock(&mu_);
    // What is not known may be the one that is being reserved.
    if (is_stopping_ || n_reserving_ > 0) return true;
    n_reserved = n_reserved_;
    known = KnownIds();
  }
  const auto held = client_.HeldLeases();
  if (IsSilence(held.status())) return false;
  if (!held.ok()) return true;
  {
    SteadyMutexLock lock(&mu_);
    // A reservation that began since then may be in the answer: look later.
    if (is_stopping_ || n_reserved_ != n_reserved) return true;
    known.merge(KnownIds());
  }
  for (const LeaseGrant& lease : *held) {
    if (known.count(lease.id) > 0) continue;
    Log(LogLevel::kWarning,
        "the planner has a lease that nothing here uses; it is released",
        {{"purpose", lease.purpose}, {"bytes", lease.bytes}});
    if (IsSilence(client_.Release(lease))) return false;
  }
  return true;
}

bool LeaseKeeper::ReleaseFormer() {
  if (is_done_with_former_ || !client_.has_former()) return true;
  const absl::Status status = client_.ReleaseFormer();
  if (IsSilence(status)) return false;
  is_done_with_former_ = status.ok() && clock_() >= begin_ + kFormerPatience;
  return true;
}

bool LeaseKeeper::RenewOne(const std::string& lease_id,
                           const WorkerDevice& device) {
  // The reading first: what is not retired after it was allocated during it.
  const int64_t free_bytes = device.profile().free_bytes;
  std::optional<Kept> kept;
  {
    SteadyMutexLock lock(&mu_);
    const auto found = leases_.find(lease_id);
    if (found == leases_.end()) return true;
    kept = found->second;
  }
  const absl::Time asked = clock_();
  if (kept->is_retired) {
    return Learn(lease_id, asked,
                 client_.Renew(kept->grant, std::nullopt, std::nullopt));
  }
  return Learn(lease_id, asked,
               client_.Renew(kept->grant, free_bytes, kept->measured_bytes));
}

bool LeaseKeeper::Learn(const std::string& lease_id, absl::Time asked,
                        const absl::StatusOr<bool>& device_is_known) {
  const absl::Status& status = device_is_known.status();
  if (IsSilence(status)) return false;
  if (!status.ok() || !*device_is_known) {
    is_registered_ = false;
    is_done_with_former_ = false;
  }
  SteadyMutexLock lock(&mu_);
  const auto found = leases_.find(lease_id);
  if (found == leases_.end()) return true;
  Kept& kept = found->second;
  if (status.ok()) {
    kept.fence = asked + kept.grant.ttl - FenceMargin(kept.grant.ttl);
    kept.is_refused = false;
    return true;
  }
  if (!kept.is_refused) Tell(LeaseEvent::kLost, kept.grant, status);
  kept.is_refused = true;
  // What is allocated stays so, and is presented again: the planner takes it
  // back as soon as it can. A reservation without its planner is over.
  kept.is_lost = !kept.measured_bytes.has_value();
  return true;
}

}  // namespace plimsoll::services
