#include "planner/lease/lease_book.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/lease/lease_checks.h"

namespace plimsoll::planner {
namespace {

bool IsLive(const Lease& lease) { return lease.state != LeaseState::kReleased; }

absl::Status OtherEpoch(const Lease& lease, int64_t epoch) {
  return absl::FailedPreconditionError(
      absl::StrCat("the lease's epoch is ", lease.epoch, ", not ", epoch));
}

// Whether a claim says of a lease what it said when it was granted.
bool IsSameGrant(const Lease& claim, const Lease& lease) {
  return claim.device_id == lease.device_id && claim.holder == lease.holder &&
         claim.process == lease.process && claim.bytes == lease.bytes;
}

absl::Status UnknownLease() {
  return absl::NotFoundError("there is no lease with this id");
}

absl::Status UnknownDevice() {
  return absl::NotFoundError("there is no device with this id");
}

}  // namespace

LeaseBook::LeaseBook(int64_t first_epoch, LeaseJournal* journal,
                     const LeaseTimes& times)
    : journal_(journal),
      times_(times),
      next_epoch_(std::clamp<int64_t>(first_epoch, 1, kMaxEpoch)),
      first_epoch_(next_epoch_) {}

bool LeaseBook::ById::operator()(const Entry* a, const Entry* b) const {
  return a->lease.id < b->lease.id;
}

absl::Duration LeaseBook::RecoveryLeft(absl::Time now) const {
  return std::max(grants_resume_at_ - now, absl::ZeroDuration());
}

LeaseBook::Entry& LeaseBook::Insert(Lease lease, Device& device) {
  Entry& entry = leases_[lease.id];
  entry = {.lease = std::move(lease),
           .device = &device,
           .index = device.leases.size()};
  if (!entry.lease.process.empty()) {
    entry.process = &processes_[entry.lease.process];
    entry.process->leases.insert(&entry);
  }
  SetDeadline(entry, entry.lease.expires);
  device.leases.push_back(&entry);
  device.held_bytes += entry.lease.bytes;
  device.unread_bytes += entry.lease.bytes;
  ++n_live_;
  return entry;
}

void LeaseBook::Trust(Entry& entry, absl::Time now) {
  if (entry.process == nullptr) return;
  absl::Time& until = entry.process->trusted_until;
  until = std::max(until, now + times_.ttl);
}

void LeaseBook::Forget(const std::string& process) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return;
  if (found->second.is_live || !found->second.leases.empty()) return;
  processes_.erase(found);
}

void LeaseBook::SetDeadline(Entry& entry, absl::Time deadline) {
  Deadlines::node_type node = deadlines_.extract({entry.deadline, &entry});
  entry.deadline = deadline;
  if (node.empty()) {
    deadlines_.emplace(deadline, &entry);
  } else {
    node.value().first = deadline;
    deadlines_.insert(std::move(node));
  }
}

absl::Status LeaseBook::Restore(const LeaseImage& image, absl::Time now) {
  if (image.next_epoch < 1 || image.next_epoch > kMaxEpoch) {
    return absl::DataLossError(absl::StrCat("the journal's next epoch is ",
                                            image.next_epoch, ", not 1 to ",
                                            kMaxEpoch));
  }
  next_epoch_ = std::max(next_epoch_, image.next_epoch);
  first_epoch_ = next_epoch_;
  if (image.is_partial) Recover(now);
  for (const LeaseRecord& record : image.records) {
    absl::Status status = CheckRecord(record);
    Lease lease = record.lease;
    Device& device = devices_[lease.device_id];
    int64_t held = 0;
    if (status.ok() &&
        (leases_.count(lease.id) > 0 || n_live_ >= kMaxLeases ||
         __builtin_add_overflow(device.held_bytes, lease.bytes, &held))) {
      status = absl::InvalidArgumentError("a lease too many");
    }
    if (!status.ok()) {
      return absl::DataLossError(
          absl::StrCat("a lease of the journal: ", status.message()));
    }
    next_epoch_ = std::max(next_epoch_, lease.epoch + 1);
    lease.expires = now + times_.ttl;
    if (!record.request_id.empty()) Remember(record.request_id, lease);
    if (IsLive(lease)) {
      lease.state = LeaseState::kSuspect;
      Entry& entry = Insert(std::move(lease), device);
      entry.is_restored = true;
      if (entry.lease.was_confirmed) entry.allocated_at = now;
    } else {
      Bury(lease);
      leases_[lease.id].lease = std::move(lease);
    }
  }
  return absl::OkStatus();
}

absl::Status LeaseBook::CheckRoomFor(const ReserveRequest& request,
                                     const Device& device) const {
  const auto existing = leases_.find(request.lease_id);
  if (existing != leases_.end() && IsLive(existing->second.lease)) {
    return absl::AlreadyExistsError("the lease id is in use");
  }
  if (n_live_ >= kMaxLeases) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the book holds its limit of ", kMaxLeases, " leases"));
  }
  const int64_t available = Available(device, request.purpose);
  if (request.bytes <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      request.bytes, " bytes are wanted, ", available, " are available and ",
      device.held_bytes, " are held by leases"));
}

absl::StatusOr<Lease> LeaseBook::Grant(const ReserveRequest& request,
                                       absl::Time now) {
  RETURN_IF_ERROR(CheckRequest(request));
  Device* const device = FindDevice(request.device_id);
  if (device == nullptr) return UnknownDevice();
  if (now < grants_resume_at_) {
    return absl::UnavailableError(
        "the planner has just started and waits for leases that are held");
  }
  if (device->unhealthy_holder.has_value()) {
    return absl::UnavailableError("the device is unhealthy");
  }
  RETURN_IF_ERROR(CheckRoomFor(request, *device));
  if (next_epoch_ >= kMaxEpoch) {
    return absl::FailedPreconditionError(
        "no epoch is left for another lease: start the planner with a new "
        "journal");
  }
  Lease lease = {.id = request.lease_id,
                 .device_id = request.device_id,
                 .holder = request.holder,
                 .purpose = request.purpose,
                 .process = request.process,
                 .secret_hash = request.secret_hash,
                 .bytes = request.bytes,
                 .measured_bytes = 0,
                 // Spent even if the journal fails: it may have kept it.
                 .epoch = next_epoch_++,
                 .state = LeaseState::kReserved,
                 .was_confirmed = false,
                 .granted = now,
                 .expires = now + times_.ttl};
  if (journal_ != nullptr) {
    RETURN_IF_ERROR(journal_->Write({lease, request.request_id}, next_epoch_));
  }
  Entry& entry = Insert(std::move(lease), *device);
  Trust(entry, now);
  return entry.lease;
}

void LeaseBook::Remember(const std::string& request_id,
                         absl::StatusOr<Lease> reply) {
  replies_.emplace(request_id, std::move(reply));
  reply_order_.push_back(request_id);
  if (static_cast<int64_t>(reply_order_.size()) <= kMaxRememberedRequests) {
    return;
  }
  replies_.erase(reply_order_.front());
  reply_order_.pop_front();
}

absl::StatusOr<Lease> LeaseBook::Reserve(const ReserveRequest& request,
                                         absl::Time now) noexcept {
  Expire(now);
  RETURN_IF_ERROR(CheckId("request_id", request.request_id));
  const auto first = replies_.find(request.request_id);
  if (first != replies_.end()) return first->second;
  absl::StatusOr<Lease> reply = Grant(request, now);
  if (!absl::IsUnavailable(reply.status())) {
    Remember(request.request_id, reply);
  }
  return reply;
}

absl::StatusOr<LeaseBook::Entry*> LeaseBook::FindLive(
    const std::string& lease_id, int64_t epoch) {
  const auto it = leases_.find(lease_id);
  if (it == leases_.end()) {
    return UnknownLease();
  }
  Entry& entry = it->second;
  if (entry.lease.epoch != epoch) return OtherEpoch(entry.lease, epoch);
  if (IsLive(entry.lease)) return &entry;
  return absl::FailedPreconditionError("the lease was released");
}

absl::StatusOr<LeaseBook::Entry*> LeaseBook::FindForHolder(
    const std::string& lease_id, int64_t epoch) {
  ASSIGN_OR_RETURN(Entry* const entry, FindLive(lease_id, epoch));
  if (!entry->has_expired || entry->lease.was_confirmed) return entry;
  return absl::FailedPreconditionError(
      "the reservation expired before it was confirmed");
}

void LeaseBook::Extend(Entry& entry, absl::Time now) {
  Lease& lease = entry.lease;
  lease.expires = std::max(lease.expires, now + times_.ttl);
  lease.state =
      lease.was_confirmed ? LeaseState::kConfirmed : LeaseState::kReserved;
  entry.has_expired = false;
  entry.is_provable = false;
  Trust(entry, now);
  SetDeadline(entry, lease.expires);
}

absl::StatusOr<Lease> LeaseBook::Confirm(const std::string& lease_id,
                                         int64_t epoch, int64_t measured_bytes,
                                         absl::Time now) noexcept {
  Expire(now);
  ASSIGN_OR_RETURN(Entry* const entry, FindForHolder(lease_id, epoch));
  RETURN_IF_ERROR(CheckMeasured(measured_bytes, entry->lease));
  SetConfirmed(*entry, measured_bytes, now);
  return entry->lease;
}

void LeaseBook::SetConfirmed(Entry& entry, int64_t measured_bytes,
                             absl::Time now) {
  if (!entry.lease.was_confirmed) {
    ShrinkMargin(*entry.device, entry.lease.purpose);
  }
  if (!entry.lease.was_confirmed ||
      entry.lease.measured_bytes != measured_bytes) {
    entry.allocated_at = now;
  }
  entry.lease.measured_bytes = measured_bytes;
  entry.lease.was_confirmed = true;
  Extend(entry, now);
  if (journal_ != nullptr) journal_->Note(entry.lease);
}

absl::StatusOr<Lease> LeaseBook::Renew(const std::string& lease_id,
                                       int64_t epoch, absl::Time now) noexcept {
  Expire(now);
  ASSIGN_OR_RETURN(Entry* const entry, FindForHolder(lease_id, epoch));
  Extend(*entry, now);
  return entry->lease;
}

absl::StatusOr<Lease> LeaseBook::Adopt(const Lease& claim,
                                       absl::Time now) noexcept {
  Expire(now);
  const auto found = leases_.find(claim.id);
  if (found == leases_.end()) {
    RETURN_IF_ERROR(CheckRecord({.lease = claim, .request_id = ""}));
    if (claim.epoch > MaxPresentedEpoch()) {
      return absl::InvalidArgumentError(
          absl::StrCat("epoch is ", claim.epoch, ", and none above ",
                       MaxPresentedEpoch(), " can have been granted"));
    }
    return TakeIn(claim, now);
  }
  Entry& entry = found->second;
  if (!entry.was_read_gone) {
    RETURN_IF_ERROR(FindLive(claim.id, claim.epoch).status());
  }
  if (claim.epoch != entry.lease.epoch || !IsSameGrant(claim, entry.lease)) {
    return absl::FailedPreconditionError(
        "the lease with this id is another one");
  }
  if (IsLive(entry.lease) && entry.lease.was_confirmed) {
    Extend(entry, now);
    return entry.lease;
  }
  RETURN_IF_ERROR(CheckMeasured(claim.measured_bytes, entry.lease));
  if (!IsLive(entry.lease)) {
    Lease lease = entry.lease;
    lease.measured_bytes = claim.measured_bytes;
    return TakeIn(lease, now);
  }
  SetConfirmed(entry, claim.measured_bytes, now);
  return entry.lease;
}

int64_t LeaseBook::MaxPresentedEpoch() const {
  return first_epoch_ + std::min(kMaxEpochsAhead, kMaxEpoch - 1 - first_epoch_);
}

absl::StatusOr<Lease> LeaseBook::TakeIn(const Lease& claim, absl::Time now) {
  Device* const device = FindDevice(claim.device_id);
  if (device == nullptr) return UnknownDevice();
  const BookedDevice& booked = device->booked;
  int64_t held = 0;
  if (claim.bytes > booked.total_bytes ||
      __builtin_add_overflow(device->held_bytes, claim.bytes, &held)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "bytes is ", claim.bytes, ", and the device has ", booked.total_bytes));
  }
  if (n_live_ >= kMaxLeases) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the book holds its limit of ", kMaxLeases, " leases"));
  }
  const bool is_recovering = now < grants_resume_at_;
  if (!is_recovering && (claim.epoch >= next_epoch_ ||
                         held > booked.size_bytes() - booked.headroom_bytes)) {
    return absl::FailedPreconditionError(
        "the lease is not known any more, and others may hold its bytes");
  }
  Lease lease = claim;
  lease.state = LeaseState::kConfirmed;
  lease.was_confirmed = true;
  lease.granted = now;
  lease.expires = now + times_.ttl;
  next_epoch_ = std::max(next_epoch_, lease.epoch + 1);
  if (journal_ != nullptr && !is_recovering) {
    RETURN_IF_ERROR(journal_->Write({lease, ""}, next_epoch_));
  } else if (journal_ != nullptr) {
    journal_->Note(lease);  // with the first grant; until then it is partial
  }
  Entry& entry = Insert(std::move(lease), *device);
  entry.allocated_at = now;
  Trust(entry, now);
  return entry.lease;
}

void LeaseBook::Bury(const Lease& lease) {
  released_order_.emplace_back(lease.id, lease.epoch);
  if (static_cast<int64_t>(released_order_.size()) <= kMaxRememberedRequests) {
    return;
  }
  const auto [id, epoch] = released_order_.front();
  released_order_.pop_front();
  const auto oldest = leases_.find(id);
  // The id may have been used again since, or the lease was taken in again.
  if (oldest != leases_.end() && oldest->second.lease.epoch == epoch &&
      !IsLive(oldest->second.lease)) {
    leases_.erase(oldest);
  }
}

void LeaseBook::Free(Entry& entry, LastReading last) {
  Lease& lease = entry.lease;
  Device& device = *entry.device;
  deadlines_.erase({entry.deadline, &entry});
  device.held_bytes -= lease.bytes;
  device.leases.back()->index = entry.index;
  std::swap(device.leases[entry.index], device.leases.back());
  device.leases.pop_back();
  if (!entry.in_reading) {
    device.unread_bytes -= lease.bytes;
  } else if (device.booked.measured_free_bytes &&
             last == LastReading::kShowsTaken) {
    // The reading was taken while these bytes were allocated.
    int64_t& free = *device.booked.measured_free_bytes;
    free += std::min(
        lease.measured_bytes,
        device.booked.total_bytes - std::min(free, device.booked.total_bytes));
  }
  entry.device = nullptr;  // the device may leave before the lease is forgotten
  if (entry.process != nullptr) {
    entry.process->leases.erase(&entry);
    entry.process = nullptr;
    Forget(lease.process);
  }
  entry.was_read_gone = last == LastReading::kShowsFree;
  lease.state = LeaseState::kReleased;
  --n_live_;
  if (journal_ != nullptr) journal_->Note(lease);
  Bury(lease);
}

absl::StatusOr<Lease> LeaseBook::Release(const std::string& lease_id,
                                         int64_t epoch,
                                         int64_t shortfall_bytes) noexcept {
  const auto it = leases_.find(lease_id);
  if (it == leases_.end()) {
    return UnknownLease();
  }
  if (it->second.lease.epoch != epoch) {
    return OtherEpoch(it->second.lease, epoch);
  }
  Entry& entry = it->second;
  entry.was_read_gone = false;  // who gives it back does not want it again
  if (!IsLive(entry.lease)) return entry.lease;
  AddMargin(*entry.device, entry.lease, shortfall_bytes);
  Free(entry, LastReading::kShowsTaken);
  return entry.lease;
}

absl::StatusOr<Lease> LeaseBook::ForceRelease(const std::string& lease_id,
                                              absl::Time now) noexcept {
  Expire(now);
  const auto found = leases_.find(lease_id);
  if (found == leases_.end()) return UnknownLease();
  Entry& entry = found->second;
  if (!IsLive(entry.lease)) {
    return absl::NotFoundError("the lease was released already");
  }
  if (!entry.has_expired || IsTrusted(entry)) {
    return absl::FailedPreconditionError(
        "the lease's holder lives, or did within the time to live");
  }
  // The last reading is not touched: it may show these bytes free already.
  Free(entry, LastReading::kShowsFree);
  return entry.lease;
}

absl::Status LeaseBook::SetProcessLive(const std::string& process, bool is_live,
                                       absl::Time now) noexcept {
  RETURN_IF_ERROR(CheckId("process", process));
  const auto known = processes_.find(process);
  const bool was_live = known != processes_.end() && known->second.is_live;
  if (was_live == is_live) return absl::OkStatus();
  if (is_live && n_live_processes_ >= kMaxLiveProcesses) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the book knows its limit of ", kMaxLiveProcesses, " processes"));
  }
  Process& entry = processes_[process];
  entry.is_live = is_live;
  n_live_processes_ += is_live ? 1 : -1;
  if (is_live) return absl::OkStatus();
  entry.trusted_until = std::max(entry.trusted_until, now + times_.grace);
  Forget(process);
  return absl::OkStatus();
}

bool LeaseBook::HoldsLeases(const std::string& process) const {
  const auto known = processes_.find(process);
  return known != processes_.end() && !known->second.leases.empty();
}

int64_t LeaseBook::ProcessDied(const std::string& process) noexcept {
  const auto known = processes_.find(process);  // who has no name is not there
  if (known == processes_.end()) return 0;
  n_live_processes_ -= known->second.is_live;
  known->second.is_live = false;
  const std::set<Entry*, ById> entries = known->second.leases;
  Forget(process);
  int64_t freed_bytes = 0;
  for (Entry* const entry : entries) {
    freed_bytes += entry->lease.bytes;
    Free(*entry, LastReading::kShowsTaken);
  }
  return freed_bytes;
}

void LeaseBook::Expire(absl::Time now) noexcept {
  last_time_ = std::max(last_time_, now);
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Entry& entry = *deadlines_.begin()->second;
    Lease& lease = entry.lease;
    lease.state = LeaseState::kSuspect;
    entry.has_expired = true;
    const absl::Time provable =
        lease.was_confirmed ? lease.expires : lease.expires + times_.grace;
    if (provable <= now) {
      entry.is_provable = true;
      deadlines_.erase(deadlines_.begin());
      entry.deadline = absl::InfinitePast();
    } else {
      SetDeadline(entry, provable);
    }
  }
}

const LeaseBook::Device* LeaseBook::FindDevice(const std::string& id) const {
  const auto it = devices_.find(id);
  if (it == devices_.end() || !it->second.is_registered) return nullptr;
  return &it->second;
}

LeaseBook::Device* LeaseBook::FindDevice(const std::string& id) {
  const auto it = devices_.find(id);
  if (it == devices_.end() || !it->second.is_registered) return nullptr;
  return &it->second;
}

// A walk over all of them, but only at the limit.
std::string LeaseBook::Evict() {
  const auto age = [](const Device& device) {
    return std::pair(device.unhealthy_holder.has_value(), device.heard);
  };
  auto oldest = devices_.end();
  for (auto it = devices_.begin(); it != devices_.end(); ++it) {
    if (!it->second.leases.empty()) continue;
    if (oldest == devices_.end() || age(it->second) < age(oldest->second)) {
      oldest = it;
    }
  }
  if (oldest == devices_.end()) return "";
  std::string id = oldest->first;
  devices_.erase(oldest);
  return id;
}

absl::StatusOr<std::string> LeaseBook::RegisterDevice(
    const BookedDevice& device, const std::string& registrant) noexcept {
  const auto n_bytes = static_cast<int64_t>(device.id.size());
  if (n_bytes == 0 || n_bytes > kMaxIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device id has ", n_bytes, " bytes, not 1 to ", kMaxIdBytes));
  }
  if (device.total_bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("total_bytes must be positive, got ", device.total_bytes));
  }
  RETURN_IF_ERROR(CheckPolicies(device.headroom_bytes, device.limit_bytes));
  RETURN_IF_ERROR(CheckFree(device.measured_free_bytes.value_or(0)));
  std::string evicted;
  if (devices_.count(device.id) == 0 &&
      static_cast<int64_t>(devices_.size()) >= kMaxDevices) {
    evicted = Evict();
    if (evicted.empty()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("leases are held on each of ", devices_.size(),
                       " devices, and the limit is ", kMaxDevices));
    }
  }
  Device& entry = devices_[device.id];
  entry.heard = ++n_heard_;
  entry.booked = device;
  entry.is_registered = true;
  const bool holds_some = std::any_of(
      entry.leases.begin(), entry.leases.end(),
      [&](const Entry* e) { return e->lease.holder == registrant; });
  if (!registrant.empty() && !holds_some &&
      entry.unhealthy_holder != registrant) {
    entry.unhealthy_holder.reset();
  }
  TakeReading(entry, device.measured_free_bytes, /*vouched_bytes=*/0);
  return evicted;
}

absl::Status LeaseBook::SetPolicies(const std::string& device_id,
                                    int64_t headroom_bytes,
                                    int64_t limit_bytes) noexcept {
  Device* const device = FindDevice(device_id);
  if (device == nullptr) return UnknownDevice();
  RETURN_IF_ERROR(CheckPolicies(headroom_bytes, limit_bytes));
  device->booked.headroom_bytes = headroom_bytes;
  device->booked.limit_bytes = limit_bytes;
  return absl::OkStatus();
}

absl::Status LeaseBook::UnregisterDevice(
    const std::string& device_id) noexcept {
  Device* const device = FindDevice(device_id);
  if (device == nullptr) return UnknownDevice();
  if (!device->leases.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(device->leases.size(), " leases are held on the device"));
  }
  // An unhealthy one is remembered, so that who made it so cannot make it
  // healthy by leaving and coming back.
  if (device->unhealthy_holder.has_value()) {
    device->is_registered = false;
    device->margins.clear();
  } else {
    devices_.erase(device_id);
  }
  return absl::OkStatus();
}

absl::Status LeaseBook::ReadFree(const std::string& device_id,
                                 int64_t free_bytes,
                                 const std::string& vouching_lease,
                                 absl::Time now) noexcept {
  Expire(now);
  RETURN_IF_ERROR(CheckFree(free_bytes));
  Device* const device = FindDevice(device_id);
  if (device == nullptr) return UnknownDevice();
  device->heard = ++n_heard_;
  int64_t vouched_bytes = 0;
  for (Entry* const entry : device->leases) {
    if (entry->lease.id == vouching_lease && !entry->is_provable) {
      vouched_bytes = entry->lease.measured_bytes;
      entry->vouched_at = now;
    }
  }
  TakeReading(*device, free_bytes, vouched_bytes);
  JudgeOldReading(*device, now);
  return absl::OkStatus();
}

bool LeaseBook::IsTrusted(const Entry& entry) const {
  const Process* const process = entry.process;
  return process != nullptr &&
         (process->is_live || last_time_ < process->trusted_until);
}

bool LeaseBook::IsGone(const Entry& entry, int64_t used_bytes) const {
  if (!entry.is_provable) return false;
  if (IsTrusted(entry)) return false;
  return entry.lease.was_confirmed ? entry.lease.measured_bytes > used_bytes
                                   : !entry.is_restored || used_bytes <= 0;
}

void LeaseBook::TakeReading(Device& device, std::optional<int64_t> free_bytes,
                            int64_t vouched_bytes) {
  device.booked.measured_free_bytes = free_bytes;
  if (free_bytes.has_value()) {
    const int64_t used =
        std::max<int64_t>(device.booked.total_bytes - *free_bytes, 0) -
        vouched_bytes;
    std::vector<Entry*> gone;
    for (Entry* const entry : device.leases) {
      if (IsGone(*entry, used)) gone.push_back(entry);
    }
    FreeRead(gone);
  }
  device.unread_bytes = 0;
  for (Entry* const entry : device.leases) {
    entry->in_reading = entry->lease.was_confirmed;
    if (!entry->in_reading) device.unread_bytes += entry->lease.bytes;
  }
}

void LeaseBook::JudgeOldReading(Device& device, absl::Time now) {
  std::optional<OldReading>& old = device.old_reading;
  if (device.booked.may_swap) old.reset();
  if (old.has_value() && now >= old->came + times_.grace) {
    const absl::Time after = old->came + times_.grace;
    const auto was_there = [&](const Entry& entry) {
      return entry.allocated_at + times_.grace <= old->came;
    };
    int64_t used = old->used_bytes;
    for (const Entry* entry : device.leases) {
      const bool has_vouched = entry->vouched_at >= after;
      if (was_there(*entry) && has_vouched) used -= entry->lease.measured_bytes;
    }
    std::vector<Entry*> gone;
    for (Entry* const entry : device.leases) {
      const bool is_silent = entry->vouched_at < after;
      if (is_silent && was_there(*entry) && IsGone(*entry, used)) {
        gone.push_back(entry);
      }
    }
    FreeRead(gone);
  }
  const bool is_due =
      !old.has_value() || now >= old->came + times_.grace + times_.ttl;
  if (device.booked.may_swap || !is_due) return;
  const BookedDevice& booked = device.booked;
  old = OldReading{.came = now,
                   .used_bytes = std::max<int64_t>(
                       booked.total_bytes - *booked.measured_free_bytes, 0)};
}

void LeaseBook::FreeRead(const std::vector<Entry*>& gone) {
  for (Entry* const entry : gone) Free(*entry, LastReading::kShowsFree);
}

absl::Status LeaseBook::MarkUnhealthy(const std::string& device_id,
                                      const std::string& holder) noexcept {
  Device* const device = FindDevice(device_id);
  if (device == nullptr) return UnknownDevice();
  device->unhealthy_holder = holder;
  return absl::OkStatus();
}

void LeaseBook::AddMargin(Device& device, const Lease& lease,
                          int64_t shortfall_bytes) {
  if (shortfall_bytes <= 0 || lease.purpose.empty()) return;
  if (device.margins.count(lease.purpose) == 0 &&
      static_cast<int64_t>(device.margins.size()) >= kMaxMarginsPerDevice) {
    return;
  }
  int64_t& margin = device.margins[lease.purpose];
  const int64_t limit = device.booked.size_bytes() / kMarginDivisor;
  margin = std::min(margin, limit);  // the device may have shrunk
  margin += std::min({shortfall_bytes, lease.bytes, limit - margin});
}

// A margin that was needed comes again with the next shortfall; one that was
// not, or not any more, does not stay for ever.
void LeaseBook::ShrinkMargin(Device& device, const std::string& purpose) {
  const auto margin = device.margins.find(purpose);
  if (margin == device.margins.end()) return;
  margin->second -= std::max<int64_t>(margin->second / 8, 1);
  if (margin->second <= 0) device.margins.erase(margin);
}

int64_t LeaseBook::Available(const Device& device,
                             const std::string& purpose) const {
  if (device.unhealthy_holder.has_value()) return 0;
  const BookedDevice& booked = device.booked;
  // Each difference of two numbers that are not negative cannot overflow.
  const auto above_headroom = [&booked](int64_t bytes) {
    return std::max<int64_t>(bytes - booked.headroom_bytes, 0);
  };
  int64_t available = above_headroom(booked.size_bytes()) - device.held_bytes;
  if (booked.measured_free_bytes) {
    available =
        std::min(available, above_headroom(*booked.measured_free_bytes) -
                                device.unread_bytes);
  }
  available = std::max<int64_t>(available, 0);
  const auto margin = device.margins.find(purpose);
  if (margin != device.margins.end()) available -= margin->second;
  return std::max<int64_t>(available, 0);
}

absl::StatusOr<int64_t> LeaseBook::AvailableBytes(
    const std::string& device_id, const std::string& purpose) const {
  const Device* const device = FindDevice(device_id);
  if (device == nullptr) return UnknownDevice();
  return Available(*device, purpose);
}

absl::StatusOr<int64_t> LeaseBook::HeldBytes(
    const std::string& device_id) const {
  const Device* const device = FindDevice(device_id);
  if (device == nullptr) return UnknownDevice();
  return device->held_bytes;
}

bool LeaseBook::IsHealthy(const std::string& device_id) const {
  const Device* const device = FindDevice(device_id);
  return device != nullptr && !device->unhealthy_holder.has_value();
}

std::vector<BookedDevice> LeaseBook::Devices() const {
  std::vector<BookedDevice> devices;
  devices.reserve(devices_.size());
  for (const auto& [id, device] : devices_) {
    if (device.is_registered) devices.push_back(device.booked);
  }
  return devices;
}

std::vector<Lease> LeaseBook::LeasesOn(const std::string& device_id) const {
  const auto found = devices_.find(device_id);
  if (found == devices_.end()) return {};
  return InOrder(found->second.leases);
}

std::vector<Lease> LeaseBook::LeasesOf(const std::string& process) const {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return {};
  const auto& leases = found->second.leases;
  return InOrder({leases.begin(), leases.end()});
}

std::vector<Lease> LeaseBook::InOrder(std::vector<Entry*> entries) {
  std::sort(entries.begin(), entries.end(), ById());
  std::vector<Lease> leases;
  leases.reserve(entries.size());
  for (const Entry* entry : entries) leases.push_back(entry->lease);
  return leases;
}

std::vector<Lease> LeaseBook::Leases() const {
  std::vector<Lease> leases;
  for (const auto& [id, entry] : leases_) {
    if (entry.lease.state != LeaseState::kReleased) {
      leases.push_back(entry.lease);
    }
  }
  return leases;
}

}  // namespace plimsoll::planner
