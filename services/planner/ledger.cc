#include "services/planner/ledger.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/host/log.h"
#include "services/host/random_id.h"
#include "services/planner/lease_holder.h"
#include "services/wire/errors.h"
#include "services/wire/from_proto.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

constexpr absl::Duration kJournalRetry = absl::Seconds(2);

// What DeviceSizes::Smallest returns if nobody said a size.
constexpr int64_t kNoSize = std::numeric_limits<int64_t>::max();

// An idle worker names the size of its devices three times in this time.
absl::Duration SizeLife(const planner::LeaseTimes& times) {
  return std::max(times.ttl, planner::LeaseTimes::kDefaultTtl);
}

absl::Status Unhealthy(const std::string& id, absl::Duration retry_after) {
  return WithDetails(
      absl::UnavailableError("the device has failed; nothing is granted on it "
                             "until another worker registers it"),
      {v1::ERROR_REASON_DEVICE_UNHEALTHY, {{"device_id", id}}, retry_after});
}

// Adds the details that clients need to the book's error about a lease.
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

absl::Status CheckReason(const std::string& reason) {
  const bool is_blank = absl::StripAsciiWhitespace(reason).empty();
  if (!is_blank && reason.size() <= Ledger::kMaxReasonBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "reason has ", reason.size(), " bytes", is_blank ? " and no words" : "",
      ", not 1 to ", Ledger::kMaxReasonBytes,
      ": say how it is known that the holder is gone"));
}

// Adds the details that clients need to the book's error about a ForceRelease.
absl::Status ForceError(const absl::Status& status, const std::string& id) {
  if (!absl::IsFailedPrecondition(status)) return LeaseError(status, id);
  return WithDetails(
      absl::FailedPreconditionError(absl::StrCat(
          status.message(),
          "; end that process, or unload its model, and it releases the lease "
          "by itself")),
      {v1::ERROR_REASON_LEASE_HELD, {{"lease_id", id}}, std::nullopt});
}

}  // namespace

Ledger::Ledger(LedgerOptions options)
    : clock_(std::move(options.clock)),
      journal_(std::move(options.journal)),
      times_(options.times),
      requires_secrets_(options.requires_secrets),
      observer_(options.observer),
      on_taken_over_(std::move(options.on_taken_over)),
      headrooms_(std::move(options.headrooms)),
      size_limits_(std::move(options.sizes)),
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
  // The journal has tried this already.
  PLIMSOLL_CHECK(TakeOver(image, now).ok(), "the journal was checked");
  MarkWholeIfRecovered(now);
  if (image.is_partial) {
    Log(LogLevel::kInfo,
        "recovering: nothing is granted for a while, so that workers can "
        "present what an earlier planner granted",
        {{"recovery", absl::FormatDuration(times_.recovery)}});
  }
}

absl::Status Ledger::TakeOver(const planner::LeaseImage& image,
                              absl::Time now) {
  RETURN_IF_ERROR(book_.Restore(image, now));
  for (const planner::Lease& lease : book_.Leases()) {
    if (Watch(lease.process, now).ok()) continue;
    Log(LogLevel::kInfo,
        "a holder has ended meanwhile: its bytes are free again",
        {{"holder", lease.holder}, {"bytes", lease.bytes}});
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
      // If the book is full, the process counts as one that nobody watches.
      book_.SetProcessLive(name, /*is_live=*/true, now).IgnoreError();
  }
  return absl::OkStatus();
}

void Ledger::ForgetIdle(const std::string& process, absl::Time now) {
  if (process.empty() || book_.HoldsLeases(process)) return;
  watch_.Forget(process);
  book_.SetProcessLive(process, /*is_live=*/false, now).IgnoreError();
}

void Ledger::DropIfProcessDied(const std::string& process, bool was_watched) {
  if (was_watched && !watch_.IsWatching(process)) book_.ProcessDied(process);
}

void Ledger::OnProcessEnd(const std::string& process) {
  absl::MutexLock lock(&mu_);
  const int64_t freed_bytes = book_.ProcessDied(process);
  if (freed_bytes == 0) return;
  Log(LogLevel::kInfo, "a holder has ended: its bytes are free again",
      {{"bytes", freed_bytes}});
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
  if (!CheckJournal().ok() && on_taken_over_ != nullptr) on_taken_over_();
}

absl::Status Ledger::CheckJournal() {
  if (journal_ == nullptr) return absl::OkStatus();
  journal_->CheckOwner();
  if (!journal_->is_taken_over()) return absl::OkStatus();
  return absl::UnavailableError("another planner has taken the journal over");
}

void Ledger::MarkWholeIfRecovered(absl::Time now) {
  if (journal_ == nullptr || !is_partial_) return;
  if (book_.RecoveryLeft(now) > absl::ZeroDuration()) return;
  // All leases that are held have been presented.
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

absl::Status Ledger::CheckHolder(const std::string& lease_id,
                                 const HolderProof& proof) const {
  const planner::Lease* lease = book_.Find(lease_id);
  if (lease == nullptr) return absl::OkStatus();
  return services::CheckHolder(*lease, proof);
}

absl::Status Ledger::Reserve(const v1::ReserveRequest& request,
                             v1::ReserveResponse& response,
                             const std::string& owner) {
  absl::Status status = Grant(request, response, owner);
  if (observer_ != nullptr) observer_->OnReserve(status);
  return status;
}

absl::Status Ledger::Grant(const v1::ReserveRequest& request,
                           v1::ReserveResponse& response,
                           const std::string& owner) {
  ASSIGN_OR_RETURN(const int64_t bytes, Signed(request.bytes(), "bytes"));
  ASSIGN_OR_RETURN(const std::string process,
                   ProcessName(request.has_process(), request.process()));
  ASSIGN_OR_RETURN(const std::string secret_hash, HashSecret(request.secret()));
  if (requires_secrets_ && secret_hash.empty()) {
    return absl::PermissionDeniedError(
        "this planner takes reservations with a secret only "
        "(--require-lease-secrets): start a worker of a version that sends "
        "one");
  }
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_();
  RETURN_IF_ERROR(Watch(process, now));
  const bool is_watched = watch_.IsWatching(process);
  const absl::StatusOr<planner::Lease> lease =
      book_.Reserve({.request_id = OwnedName(owner, request.request_id()),
                     .lease_id = RandomId(),
                     .device_id = request.device_id(),
                     .holder = OwnedName(owner, request.holder()),
                     .purpose = request.purpose(),
                     .bytes = bytes,
                     .process = process,
                     .secret_hash = secret_hash},
                    now);
  if (!lease.ok()) {
    ForgetIdle(process, now);
    return Refusal(lease.status(), request, now);
  }
  *response.mutable_lease() = Describe(*lease, now);
  DropIfProcessDied(process, is_watched);
  ForgetIdle(process, now);  // the reply may be for an ended lease
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
                             v1::ConfirmResponse& response,
                             const std::string& owner) {
  ASSIGN_OR_RETURN(const int64_t epoch, Signed(request.epoch(), "epoch"));
  ASSIGN_OR_RETURN(const int64_t measured,
                   Signed(request.measured_bytes(), "measured_bytes"));
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckJournal());
  const absl::Time now = clock_();
  RETURN_IF_ERROR(CheckHolder(request.lease_id(), {owner, request.secret()}));
  const absl::StatusOr<planner::Lease> lease =
      book_.Confirm(request.lease_id(), epoch, measured, now);
  if (!lease.ok()) return LeaseError(lease.status(), request.lease_id());
  // The memory is allocated, whether or not the journal can be written.
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
                                               int64_t epoch,
                                               const std::string& owner,
                                               absl::Time now) {
  const v1::PresentedLease& presented = request.presented();
  planner::Lease claim;
  claim.id = request.lease_id();
  claim.epoch = epoch;
  claim.device_id = presented.device_id();
  claim.holder = OwnedName(owner, presented.holder());
  // The caller has proven that the lease is its own, by whatever name.
  if (const planner::Lease* known = book_.Find(claim.id);
      known != nullptr && IsNameOf(known->holder, presented.holder())) {
    claim.holder = known->holder;
  }
  claim.purpose = presented.purpose();
  ASSIGN_OR_RETURN(claim.bytes, Signed(presented.bytes(), "presented.bytes"));
  ASSIGN_OR_RETURN(claim.measured_bytes, Signed(presented.measured_bytes(),
                                                "presented.measured_bytes"));
  ASSIGN_OR_RETURN(claim.process,
                   ProcessName(presented.has_process(), presented.process()));
  ASSIGN_OR_RETURN(claim.secret_hash, HashSecret(request.secret()));
  RETURN_IF_ERROR(Watch(claim.process, now));
  const bool is_watched = watch_.IsWatching(claim.process);
  absl::StatusOr<planner::Lease> lease = book_.Adopt(claim, now);
  if (lease.ok()) {
    DropIfProcessDied(claim.process, is_watched);
  } else {
    ForgetIdle(claim.process, now);
  }
  return lease;
}

absl::Status Ledger::Renew(const v1::RenewRequest& request,
                           v1::RenewResponse& response,
                           const std::string& owner) {
  ASSIGN_OR_RETURN(const int64_t epoch, Signed(request.epoch(), "epoch"));
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckJournal());
  const absl::Time now = clock_();
  RETURN_IF_ERROR(CheckHolder(request.lease_id(), {owner, request.secret()}));
  const absl::StatusOr<planner::Lease> lease =
      request.has_presented() ? Present(request, epoch, owner, now)
                              : book_.Renew(request.lease_id(), epoch, now);
  if (!lease.ok()) return LeaseError(lease.status(), request.lease_id());
  if (request.has_device_free_bytes()) {
    RETURN_IF_ERROR(Read(lease->device_id, request.device_free_bytes(),
                         request.has_presented() ? lease->id : "", now));
  }
  *response.mutable_lease() = Describe(*lease, now);
  const auto device = devices_.find(lease->device_id);
  response.set_device_unknown(device == devices_.end() ||
                              !device->second.sizes.Knows(lease->holder));
  feed_.Touch(lease->device_id);
  return absl::OkStatus();
}

absl::Status Ledger::Release(const v1::ReleaseRequest& request,
                             v1::ReleaseResponse& response,
                             const std::string& owner) {
  ASSIGN_OR_RETURN(const int64_t epoch, Signed(request.epoch(), "epoch"));
  ASSIGN_OR_RETURN(const int64_t shortfall,
                   Signed(request.shortfall_bytes(), "shortfall_bytes"));
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckJournal());
  const absl::Time now = clock_();
  book_.Expire(now);
  RETURN_IF_ERROR(CheckHolder(request.lease_id(), {owner, request.secret()}));
  const absl::StatusOr<planner::Lease> lease =
      book_.Release(request.lease_id(), epoch, shortfall);
  if (!lease.ok()) return LeaseError(lease.status(), request.lease_id());
  if (shortfall > 0) {
    Log(LogLevel::kWarning, "a load lacked bytes that were granted",
        {{"purpose", lease->purpose},
         {"device", lease->device_id},
         {"bytes", shortfall}});
  }
  ForgetIdle(lease->process, now);
  // The bytes are free, whether or not the journal can be written.
  FlushJournal();
  *response.mutable_lease() = Describe(*lease, now);
  feed_.Touch(lease->device_id);
  return absl::OkStatus();
}

absl::Status Ledger::ForceRelease(const v1::ForceReleaseRequest& request,
                                  v1::ForceReleaseResponse& response,
                                  const std::string& caller) {
  RETURN_IF_ERROR(CheckReason(request.reason()));
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckJournal());
  const absl::Time now = clock_();
  const absl::StatusOr<planner::Lease> lease =
      book_.ForceRelease(request.lease_id(), now);
  if (!lease.ok()) return ForceError(lease.status(), request.lease_id());
  // With the id in the message, no such line hides another one.
  Log(LogLevel::kWarning,
      absl::StrCat("lease ", lease->id, " is released by force"),
      {{"caller", caller},
       {"reason", request.reason()},
       {"device", lease->device_id},
       {"bytes", lease->bytes},
       {"holder", lease->holder},
       {"purpose", lease->purpose}});
  if (observer_ != nullptr) observer_->OnForceRelease();
  ForgetIdle(lease->process, now);
  FlushJournal();
  *response.mutable_lease() = Describe(*lease, now);
  feed_.Touch(lease->device_id);
  return absl::OkStatus();
}

v1::Lease Ledger::Describe(const planner::Lease& lease, absl::Time now) const {
  v1::Lease message = ToProto(lease, now);
  *message.mutable_ttl() = ToProto(times_.ttl);
  const std::optional<ProcessIdentity> process = ParseIdentity(lease.process);
  if (process.has_value() && watch_.IsWatching(lease.process)) {
    message.set_watched_pid(ToUint32(process->pid));
  }
  return message;
}

std::vector<planner::Lease> Ledger::LeasesFor(
    const v1::ListLeasesRequest& request, const std::string& process) const {
  // Each worker asks for its own every few seconds, so no others are copied.
  if (request.has_process()) return book_.LeasesOf(process);
  if (!request.device_id().empty()) return book_.LeasesOn(request.device_id());
  return book_.Leases();
}

absl::Status Ledger::ListLeases(const v1::ListLeasesRequest& request,
                                v1::ListLeasesResponse& response) {
  const std::string process = BookName(request.process());
  std::vector<planner::Lease> leases;
  const absl::Time now = clock_();
  {
    absl::MutexLock lock(&mu_);
    book_.Expire(now);
    leases = LeasesFor(request, process);
    const absl::Duration left = book_.RecoveryLeft(now);
    if (left > absl::ZeroDuration()) {
      *response.mutable_recovery_left() = ToProto(left);
    }
    if (journal_ == nullptr) {
      response.set_journal(v1::JOURNAL_STATE_NONE);
    } else {
      response.set_journal(journal_->can_write() ? v1::JOURNAL_STATE_GOOD
                                                 : v1::JOURNAL_STATE_FAILED);
    }
  }
  // Describing many leases takes long; this happens without the mutex.
  for (const planner::Lease& lease : leases) {
    if (!request.device_id().empty() &&
        lease.device_id != request.device_id()) {
      continue;
    }
    v1::Lease& added = *response.add_leases();
    added = Describe(lease, now);
    if (request.has_process()) *added.mutable_process() = request.process();
  }
  return absl::OkStatus();
}

DeviceState Ledger::StateOf(const std::string& id,
                            const Registered& device) const {
  return {.profile = device.message,
          .free_bytes =
              std::min(device.profile.free_bytes, device.profile.total_bytes),
          .headroom_bytes = device.headroom_bytes,
          .held_bytes = book_.HeldBytes(id).value_or(0),
          .available_bytes = book_.AvailableBytes(id).value_or(0),
          .is_healthy = book_.IsHealthy(id)};
}

std::vector<std::string> Ledger::IdsFrom(const std::string& first) {
  absl::MutexLock lock(&mu_);
  std::vector<std::string> ids;
  for (auto it = devices_.lower_bound(first);
       it != devices_.end() && ids.size() < kDeviceBatch; ++it) {
    ids.push_back(it->first);
  }
  return ids;
}

Ledger::States Ledger::StatesOf(const std::optional<Ids>& ids) {
  States states;
  const auto take = [&](const std::vector<std::string>& batch) {
    absl::MutexLock lock(&mu_);
    for (const std::string& id : batch) {
      const auto found = devices_.find(id);
      if (found == devices_.end()) continue;
      states.emplace(id, StateOf(id, found->second));
    }
  };
  if (!ids.has_value()) {
    std::string next;
    while (true) {
      const std::vector<std::string> batch = IdsFrom(next);
      if (batch.empty()) return states;
      take(batch);
      next = batch.back() + '\0';
    }
  }
  std::vector<std::string> batch;
  for (const std::string& id : *ids) {
    batch.push_back(id);
    if (batch.size() < kDeviceBatch) continue;
    take(batch);
    batch.clear();
  }
  take(batch);
  return states;
}

int64_t Ledger::LimitOf(const std::string& id, const DeviceSizes& sizes) const {
  return std::min(sizes.Smallest(), size_limits_.Of(id).value_or(kNoSize));
}

int64_t Ledger::TakeSize(const planner::DeviceProfile& said,
                         const std::string& holder, DeviceSizes& sizes) {
  const absl::Time now = clock_();
  const int64_t before = LimitOf(said.id, sizes);
  const bool is_first = sizes.Smallest() == kNoSize;
  const bool is_news = sizes.Say(holder, said.total_bytes, now);
  std::optional<std::set<std::string>> holders;
  const auto holds =
      [&](const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        if (!holders.has_value()) {
          holders.emplace();
          for (const planner::Lease& lease : book_.LeasesOn(said.id)) {
            holders->insert(lease.holder);
          }
        }
        return holders->count(name) > 0;
      };
  sizes.Forget(now - SizeLife(times_), holds);
  const int64_t limit = LimitOf(said.id, sizes);
  if (is_news && said.total_bytes > limit) {
    const bool is_fixed = size_limits_.Of(said.id) == limit;
    Log(LogLevel::kWarning,
        "a worker says that a device has more memory than counts",
        {{"device", said.id},
         {"holder", holder},
         {"said_bytes", said.total_bytes},
         {"bytes", limit},
         {"because", is_fixed ? "of --device-memory"
                              : "another worker says that it has less"}});
  }
  if (limit < before && !is_first) {
    Log(LogLevel::kWarning, "a device is smaller now, because a worker says so",
        {{"device", said.id},
         {"holder", holder},
         {"bytes_before", before},
         {"bytes", limit}});
  }
  return limit;
}

void Ledger::Publish(Registered& device) {
  auto message = std::make_shared<v1::DeviceProfile>(ToProto(device.profile));
  message->clear_free_bytes();
  // A profile that did not change stays the same object for watchers.
  if (device.message == nullptr ||
      device.message->SerializeAsString() != message->SerializeAsString()) {
    device.message = std::move(message);
  }
}

absl::Status Ledger::RegisterDevice(const v1::RegisterDeviceRequest& request,
                                    v1::RegisterDeviceResponse& response,
                                    const std::string& owner) {
  ASSIGN_OR_RETURN(planner::DeviceProfile profile,
                   FromProto(request.profile()));
  ASSIGN_OR_RETURN(const int64_t asked_headroom_bytes,
                   Signed(request.headroom_bytes(), "headroom_bytes"));
  const std::string holder = OwnedName(owner, request.holder());
  if (holder.size() > planner::LeaseBook::kMaxIdBytes) {
    return absl::InvalidArgumentError("holder has more than 256 bytes");
  }
  planner::BookedDevice device{.id = profile.id,
                               .total_bytes = profile.total_bytes,
                               .may_swap = !request.never_swapped()};
  if (request.profile().has_free_bytes()) {
    device.measured_free_bytes = profile.free_bytes;
  }
  absl::MutexLock lock(&mu_);
  book_.Expire(clock_());
  device.headroom_bytes =
      headrooms_.Of(profile.id).value_or(asked_headroom_bytes);
  const auto known = devices_.find(profile.id);
  DeviceSizes sizes =
      known == devices_.end() ? DeviceSizes() : known->second.sizes;
  device.limit_bytes = TakeSize(profile, holder, sizes);
  // A failed device does not become healthy because its holder says so.
  ASSIGN_OR_RETURN(
      const std::string evicted,
      book_.RegisterDevice(device, request.unhealthy() ? "" : holder));
  FlushJournal();  // its reading may have freed something
  if (!evicted.empty()) {
    devices_.erase(evicted);
    feed_.Touch(evicted);
  }
  Registered& registered = devices_[profile.id];
  registered.said_bytes = profile.total_bytes;
  profile.total_bytes = device.size_bytes();
  registered.profile = profile;
  registered.sizes = std::move(sizes);
  registered.asked_headroom_bytes = asked_headroom_bytes;
  registered.headroom_bytes = device.headroom_bytes;
  Publish(registered);
  if (request.unhealthy()) {
    RETURN_IF_ERROR(book_.MarkUnhealthy(profile.id, holder));
  }
  feed_.Touch(profile.id);
  *response.mutable_device() = ToProto(StateOf(profile.id, registered));
  return absl::OkStatus();
}

void Ledger::SetPolicies(DeviceBytes headrooms, DeviceBytes sizes) {
  absl::MutexLock lock(&mu_);
  headrooms_ = std::move(headrooms);
  size_limits_ = std::move(sizes);
  for (auto& [id, device] : devices_) {
    const int64_t limit = LimitOf(id, device.sizes);
    device.headroom_bytes =
        headrooms_.Of(id).value_or(device.asked_headroom_bytes);
    device.profile.total_bytes = std::min(device.said_bytes, limit);
    Publish(device);
    PLIMSOLL_CHECK(book_.SetPolicies(id, device.headroom_bytes, limit).ok(),
                   "the book has every device, and no size is negative");
  }
  feed_.TouchAll();
}

absl::Status Ledger::ListDevices(v1::ListDevicesResponse& response) {
  {
    absl::MutexLock lock(&mu_);
    book_.Expire(clock_());
  }
  for (const auto& [id, state] : StatesOf(std::nullopt)) {
    *response.add_devices() = ToProto(state);
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::services
