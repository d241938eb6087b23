#include "services/planner/ledger.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/host/log.h"
#include "services/host/random_id.h"
#include "services/wire/errors.h"
#include "services/wire/from_proto.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

constexpr absl::Duration kJournalRetry = absl::Seconds(2);

// The process's name for the book; empty if the message has none.
absl::StatusOr<std::string> NameOf(bool has_process,
                                   const v1::ProcessIdentity& process) {
  if (!has_process) return std::string();
  ASSIGN_OR_RETURN(const int64_t ticks,
                   Signed(process.start_ticks(), "process.start_ticks"));
  ASSIGN_OR_RETURN(const int64_t pid_namespace,
                   Signed(process.pid_namespace(), "process.pid_namespace"));
  std::string name = ToString({.pid = process.pid(),
                               .start_ticks = ticks,
                               .boot_id = process.boot_id(),
                               .pid_namespace = pid_namespace});
  if (ParseIdentity(name).has_value()) return name;
  return absl::InvalidArgumentError(
      "process: a pid and a boot_id of 1 to 64 bytes without ':' are needed");
}

absl::Status Unhealthy(const std::string& id, absl::Duration retry_after) {
  return WithDetails(
      absl::UnavailableError("the device has failed; nothing is granted on it "
                             "until another worker registers it"),
      {v1::ERROR_REASON_DEVICE_UNHEALTHY, {{"device_id", id}}, retry_after});
}

// What the book says of a lease, for clients.
absl::Status LeaseError(absl::Status status, const std::string& id) {
  const bool unknown = status.code() == absl::StatusCode::kNotFound;
  const bool lost = status.code() == absl::StatusCode::kFailedPrecondition;
  if (!unknown && !lost) return status;
  return WithDetails(
      std::move(status),
      {unknown ? v1::ERROR_REASON_LEASE_NOT_FOUND : v1::ERROR_REASON_LEASE_LOST,
       {{"lease_id", id}},
       std::nullopt});
}

}  // namespace

Ledger::Ledger(LedgerOptions options)
    : clock_(std::move(options.clock)),
      journal_(std::move(options.journal)),
      times_(options.times),
      book_(options.first_epoch, journal_.get(), options.times),
      first_epoch_(options.first_epoch),
      feed_([this](const std::optional<Ids>& ids) { return StatesOf(ids); }),
      watch_([this](const std::string& process) { OnProcessEnd(process); },
             [this] { Tick(); }) {
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_();
  planner::LeaseImage image;
  image.is_partial = true;
  if (journal_ != nullptr) image = journal_->image();
  is_partial_ = image.is_partial;
  image.is_partial &= !options.is_first;
  // The journal has tried it already.
  PLIMSOLL_CHECK(TakeOver(image, now).ok(), "the journal was checked");
  MarkWholeIfRecovered(now);
  if (image.is_partial) {
    Log(absl::StrCat(
        "recovering: nothing is granted for ",
        absl::FormatDuration(times_.recovery),
        ", so that workers can present what an earlier planner granted"));
  }
}

absl::Status Ledger::TakeOver(const planner::LeaseImage& image,
                              absl::Time now) {
  RETURN_IF_ERROR(book_.Restore(image, now));
  for (const planner::Lease& lease : book_.Leases()) {
    if (Watch(lease.process, now).ok()) continue;
    Log(absl::StrCat("the holder ", lease.holder, " has ended meanwhile: ",
                     lease.bytes, " bytes are free again"));
    book_.ProcessDied(lease.process);
  }
  feed_.TouchAll();
  return absl::OkStatus();
}

absl::Status Ledger::Watch(const std::string& name, absl::Time now) {
  if (name.empty()) return absl::OkStatus();
  switch (watch_.Watch(name)) {
    case ProcessWatch::Result::kGone:
      return absl::FailedPreconditionError("the holder's process has ended");
    case ProcessWatch::Result::kUnwatchable:
      break;
    case ProcessWatch::Result::kWatching:
      // At the book's limit readings count, as for one that nobody watches.
      book_.SetProcessLive(name, /*is_live=*/true, now).IgnoreError();
  }
  return absl::OkStatus();
}

void Ledger::ForgetIdle(const std::string& process, absl::Time now) {
  if (process.empty() || book_.HoldsLeases(process)) return;
  watch_.Forget(process);
  book_.SetProcessLive(process, /*is_live=*/false, now).IgnoreError();
}

void Ledger::BuryIfGone(const std::string& process, bool was_watched) {
  if (was_watched && !watch_.IsWatching(process)) book_.ProcessDied(process);
}

void Ledger::OnProcessEnd(const std::string& process) {
  absl::MutexLock lock(&mu_);
  const int64_t freed_bytes = book_.ProcessDied(process);
  if (freed_bytes == 0) return;
  Log(absl::StrCat("a holder has ended: ", freed_bytes,
                   " bytes are free again"));
  FlushJournal();
  feed_.TouchAll();
}

void Ledger::FlushJournal() {
  if (journal_ != nullptr) journal_->Flush().IgnoreError();
}

void Ledger::Tick() {
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_();
  book_.Expire(now);
  if (journal_ == nullptr) return;
  if (journal_->Resume()) {
    const absl::Status status = TakeOver(journal_->image(), now);
    if (!status.ok()) journal_->Fail(status);
  }
  MarkWholeIfRecovered(now);
  FlushJournal();
}

void Ledger::MarkWholeIfRecovered(absl::Time now) {
  if (journal_ == nullptr || !is_partial_) return;
  if (book_.RecoveryLeft(now) > absl::ZeroDuration()) return;
  // All that is held has been presented.
  int64_t next_epoch = first_epoch_;
  for (const planner::Lease& lease : book_.Leases()) {
    next_epoch = std::max(next_epoch, lease.epoch + 1);
  }
  is_partial_ = !journal_->MarkWhole(next_epoch).ok();
}

absl::StatusOr<Ledger::Device> Ledger::FindDevice(const std::string& id,
                                                  const std::string& purpose) {
  absl::MutexLock lock(&mu_);
  book_.Expire(clock_());
  const auto found = devices_.find(id);
  if (found == devices_.end()) {
    return NoSuchDevice(absl::NotFoundError("no such device is registered"),
                        id);
  }
  if (!book_.IsHealthy(id)) return Unhealthy(id, times_.ttl);
  Device device{.profile = found->second.profile, .available_bytes = 0};
  ASSIGN_OR_RETURN(device.available_bytes, book_.AvailableBytes(id, purpose));
  return device;
}

absl::Status Ledger::Reserve(const v1::ReserveRequest& request,
                             v1::ReserveResponse& response) {
  ASSIGN_OR_RETURN(const int64_t bytes, Signed(request.bytes(), "bytes"));
  ASSIGN_OR_RETURN(const std::string process,
                   NameOf(request.has_process(), request.process()));
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_();
  RETURN_IF_ERROR(Watch(process, now));
  const bool is_watched = watch_.IsWatching(process);
  const absl::StatusOr<planner::Lease> lease =
      book_.Reserve({.request_id = request.request_id(),
                     .lease_id = RandomId(),
                     .device_id = request.device_id(),
                     .holder = request.holder(),
                     .purpose = request.purpose(),
                     .bytes = bytes,
                     .process = process},
                    now);
  if (!lease.ok()) {
    ForgetIdle(process, now);
    return Refusal(lease.status(), request, now);
  }
  *response.mutable_lease() = Describe(*lease, now);
  BuryIfGone(process, is_watched);
  ForgetIdle(process, now);  // the reply may be that of a lease that has ended
  feed_.Touch(request.device_id());
  return absl::OkStatus();
}

absl::Status Ledger::Refusal(const absl::Status& status,
                             const v1::ReserveRequest& request,
                             absl::Time now) {
  const std::string& device_id = request.device_id();
  if (absl::IsNotFound(status)) return NoSuchDevice(status, device_id);
  if (absl::IsUnavailable(status)) {
    const absl::Duration left = book_.RecoveryLeft(now);
    if (left > absl::ZeroDuration()) {
      return WithDetails(status,
                         {v1::ERROR_REASON_PLANNER_RECOVERING, {}, left});
    }
    if (!book_.IsHealthy(device_id)) return Unhealthy(device_id, times_.ttl);
    return WithDetails(status,
                       {v1::ERROR_REASON_JOURNAL_FAILED, {}, kJournalRetry});
  }
  if (!absl::IsResourceExhausted(status)) return status;
  ErrorDetails details{v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED,
                       {{"wanted_bytes", absl::StrCat(request.bytes())}},
                       times_.ttl};
  if (const auto available = book_.AvailableBytes(device_id, request.purpose());
      available.ok()) {
    details.metadata["available_bytes"] = absl::StrCat(*available);
  }
  if (const auto held = book_.HeldBytes(device_id); held.ok()) {
    details.metadata["held_bytes"] = absl::StrCat(*held);
  }
  return WithDetails(status, details);
}

absl::Status Ledger::Read(const std::string& device_id, uint64_t free_bytes,
                          const std::string& vouching_lease, absl::Time now) {
  ASSIGN_OR_RETURN(const int64_t free, Signed(free_bytes, "device_free_bytes"));
  const auto device = devices_.find(device_id);
  if (device == devices_.end()) return absl::OkStatus();
  RETURN_IF_ERROR(book_.ReadFree(device_id, free, vouching_lease, now));
  FlushJournal();
  device->second.profile.free_bytes = free;
  return absl::OkStatus();
}

absl::Status Ledger::Confirm(const v1::ConfirmRequest& request,
                             v1::ConfirmResponse& response) {
  ASSIGN_OR_RETURN(const int64_t epoch, Signed(request.epoch(), "epoch"));
  ASSIGN_OR_RETURN(const int64_t measured,
                   Signed(request.measured_bytes(), "measured_bytes"));
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_();
  const absl::StatusOr<planner::Lease> lease =
      book_.Confirm(request.lease_id(), epoch, measured, now);
  if (!lease.ok()) return LeaseError(lease.status(), request.lease_id());
  // The memory is allocated, whatever becomes of the journal.
  FlushJournal();
  if (request.has_device_free_bytes()) {
    RETURN_IF_ERROR(
        Read(lease->device_id, request.device_free_bytes(), lease->id, now));
  }
  *response.mutable_lease() = Describe(*lease, now);
  feed_.Touch(lease->device_id);
  return absl::OkStatus();
}

absl::StatusOr<planner::Lease> Ledger::Present(const v1::RenewRequest& request,
                                               int64_t epoch, absl::Time now) {
  const v1::PresentedLease& presented = request.presented();
  planner::Lease claim;
  claim.id = request.lease_id();
  claim.epoch = epoch;
  claim.device_id = presented.device_id();
  claim.holder = presented.holder();
  claim.purpose = presented.purpose();
  ASSIGN_OR_RETURN(claim.bytes, Signed(presented.bytes(), "presented.bytes"));
  ASSIGN_OR_RETURN(claim.measured_bytes, Signed(presented.measured_bytes(),
                                                "presented.measured_bytes"));
  ASSIGN_OR_RETURN(claim.process,
                   NameOf(presented.has_process(), presented.process()));
  RETURN_IF_ERROR(Watch(claim.process, now));
  const bool is_watched = watch_.IsWatching(claim.process);
  absl::StatusOr<planner::Lease> lease = book_.Adopt(claim, now);
  if (lease.ok()) {
    BuryIfGone(claim.process, is_watched);
  } else {
    ForgetIdle(claim.process, now);
  }
  return lease;
}

absl::Status Ledger::Renew(const v1::RenewRequest& request,
                           v1::RenewResponse& response) {
  ASSIGN_OR_RETURN(const int64_t epoch, Signed(request.epoch(), "epoch"));
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_();
  const absl::StatusOr<planner::Lease> lease =
      request.has_presented() ? Present(request, epoch, now)
                              : book_.Renew(request.lease_id(), epoch, now);
  if (!lease.ok()) return LeaseError(lease.status(), request.lease_id());
  if (request.has_device_free_bytes()) {
    RETURN_IF_ERROR(Read(lease->device_id, request.device_free_bytes(),
                         request.has_presented() ? lease->id : "", now));
  }
  *response.mutable_lease() = Describe(*lease, now);
  response.set_device_unknown(devices_.count(lease->device_id) == 0);
  feed_.Touch(lease->device_id);
  return absl::OkStatus();
}

absl::Status Ledger::Release(const v1::ReleaseRequest& request,
                             v1::ReleaseResponse& response) {
  ASSIGN_OR_RETURN(const int64_t epoch, Signed(request.epoch(), "epoch"));
  ASSIGN_OR_RETURN(const int64_t shortfall,
                   Signed(request.shortfall_bytes(), "shortfall_bytes"));
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_();
  book_.Expire(now);
  const absl::StatusOr<planner::Lease> lease =
      book_.Release(request.lease_id(), epoch, shortfall);
  if (!lease.ok()) return LeaseError(lease.status(), request.lease_id());
  if (shortfall > 0) {
    Log(absl::StrCat("a load of ", lease->purpose, " on ", lease->device_id,
                     " lacked ", shortfall, " bytes that were granted"));
  }
  ForgetIdle(lease->process, now);
  // The bytes are free, whatever becomes of the journal.
  FlushJournal();
  *response.mutable_lease() = Describe(*lease, now);
  feed_.Touch(lease->device_id);
  return absl::OkStatus();
}

}  // namespace plimsoll::services
