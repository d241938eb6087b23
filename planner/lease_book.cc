#include "planner/lease_book.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

absl::Status CheckId(absl::string_view name, const std::string& id) {
  if (!id.empty() &&
      static_cast<int64_t>(id.size()) <= LeaseBook::kMaxIdBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      name, " has ", id.size(), " bytes, not 1 to ", LeaseBook::kMaxIdBytes));
}

absl::Status UnknownLease() {
  return absl::NotFoundError("there is no lease with this id");
}

absl::Status UnknownDevice() {
  return absl::NotFoundError("there is no device with this id");
}

bool IsLive(const Lease& lease) { return lease.state != LeaseState::kReleased; }

absl::Status OtherEpoch(const Lease& lease, int64_t epoch) {
  return absl::FailedPreconditionError(
      absl::StrCat("the lease's epoch is ", lease.epoch, ", not ", epoch));
}

}  // namespace

const char* LeaseStateName(LeaseState state) {
  switch (state) {
    case LeaseState::kReserved:
      return "RESERVED";
    case LeaseState::kConfirmed:
      return "CONFIRMED";
    case LeaseState::kSuspect:
      return "SUSPECT";
    case LeaseState::kReleased:
      return "RELEASED";
  }
  return "UNKNOWN";
}

absl::Status LeaseBook::RegisterDevice(const BookedDevice& device) {
  RETURN_IF_ERROR(CheckId("device id", device.id));
  if (device.total_bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("total_bytes must be positive, got ", device.total_bytes));
  }
  if (device.headroom_bytes < 0 || device.measured_free_bytes.value_or(0) < 0) {
    return absl::InvalidArgumentError(
        "headroom_bytes and measured_free_bytes must not be negative");
  }
  const auto it = devices_.find(device.id);
  if (it == devices_.end() &&
      static_cast<int64_t>(devices_.size()) >= kMaxDevices) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the book holds its limit of ", kMaxDevices, " devices"));
  }
  Device& entry = devices_[device.id];
  entry.booked = device;
  entry.unread_bytes = 0;
  for (const std::string& id : entry.leases) {
    Entry& lease = leases_.at(id);
    lease.in_reading = lease.lease.was_confirmed;
    if (!lease.in_reading) entry.unread_bytes += lease.lease.bytes;
  }
  return absl::OkStatus();
}

int64_t LeaseBook::Available(const Device& device) const {
  const BookedDevice& booked = device.booked;
  // Each difference of two numbers that are not negative cannot overflow.
  const auto above_headroom = [&booked](int64_t bytes) {
    return std::max<int64_t>(bytes - booked.headroom_bytes, 0);
  };
  int64_t available = above_headroom(booked.total_bytes) - device.held_bytes;
  if (booked.measured_free_bytes) {
    available =
        std::min(available, above_headroom(*booked.measured_free_bytes) -
                                device.unread_bytes);
  }
  return std::max<int64_t>(available, 0);
}

absl::Status LeaseBook::CheckRequest(const ReserveRequest& request) const {
  RETURN_IF_ERROR(CheckId("lease_id", request.lease_id));
  RETURN_IF_ERROR(CheckId("device_id", request.device_id));
  RETURN_IF_ERROR(CheckId("holder", request.holder));
  if (static_cast<int64_t>(request.purpose.size()) > kMaxIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("purpose has ", request.purpose.size(),
                     " bytes, more than ", kMaxIdBytes));
  }
  if (request.bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("bytes must be positive, got ", request.bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<Lease> LeaseBook::Grant(const ReserveRequest& request,
                                       absl::Time now) {
  RETURN_IF_ERROR(CheckRequest(request));
  const auto device = devices_.find(request.device_id);
  if (device == devices_.end()) return UnknownDevice();
  const auto existing = leases_.find(request.lease_id);
  if (existing != leases_.end() && IsLive(existing->second.lease)) {
    return absl::AlreadyExistsError("the lease id is in use");
  }
  if (n_live_ >= kMaxLeases) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the book holds its limit of ", kMaxLeases, " leases"));
  }
  const int64_t available = Available(device->second);
  if (request.bytes > available) {
    return absl::ResourceExhaustedError(absl::StrCat(
        request.bytes, " bytes are wanted, ", available, " are available and ",
        device->second.held_bytes, " are held by leases"));
  }
  const Lease lease = {.id = request.lease_id,
                       .device_id = request.device_id,
                       .holder = request.holder,
                       .purpose = request.purpose,
                       .bytes = request.bytes,
                       .measured_bytes = 0,
                       .epoch = next_epoch_++,
                       .state = LeaseState::kReserved,
                       .was_confirmed = false,
                       .expires = now + kTtl};
  leases_[lease.id] = {lease, false};
  deadlines_.emplace(lease.expires, lease.id);
  ++n_live_;
  device->second.held_bytes += lease.bytes;
  device->second.unread_bytes += lease.bytes;
  device->second.leases.insert(lease.id);
  return lease;
}

void LeaseBook::Remember(const std::string& request_id,
                         const absl::StatusOr<Lease>& reply) {
  replies_.emplace(request_id, reply);
  reply_order_.push_back(request_id);
  if (static_cast<int64_t>(reply_order_.size()) <= kMaxRememberedRequests) {
    return;
  }
  replies_.erase(reply_order_.front());
  reply_order_.pop_front();
}

absl::StatusOr<Lease> LeaseBook::Reserve(const ReserveRequest& request,
                                         absl::Time now) {
  Expire(now);
  RETURN_IF_ERROR(CheckId("request_id", request.request_id));
  const auto first = replies_.find(request.request_id);
  if (first != replies_.end()) return first->second;
  absl::StatusOr<Lease> reply = Grant(request, now);
  Remember(request.request_id, reply);
  return reply;
}

absl::StatusOr<LeaseBook::Entry*> LeaseBook::FindForHolder(
    const std::string& lease_id, int64_t epoch) {
  const auto it = leases_.find(lease_id);
  if (it == leases_.end()) return UnknownLease();
  const Lease& lease = it->second.lease;
  if (lease.epoch != epoch) return OtherEpoch(lease, epoch);
  if (!IsLive(lease)) {
    return absl::FailedPreconditionError("the lease was released");
  }
  if (lease.state == LeaseState::kSuspect && !lease.was_confirmed) {
    return absl::FailedPreconditionError(
        "the reservation expired before it was confirmed");
  }
  return &it->second;
}

void LeaseBook::Extend(Lease& lease, absl::Time now) {
  deadlines_.erase({lease.expires, lease.id});
  lease.expires = std::max(lease.expires, now + kTtl);
  deadlines_.emplace(lease.expires, lease.id);
  if (lease.state == LeaseState::kSuspect) lease.state = LeaseState::kConfirmed;
}

absl::StatusOr<Lease> LeaseBook::Confirm(const std::string& lease_id,
                                         int64_t epoch, int64_t measured_bytes,
                                         absl::Time now) {
  Expire(now);
  ASSIGN_OR_RETURN(Entry* const entry, FindForHolder(lease_id, epoch));
  Lease& lease = entry->lease;
  if (measured_bytes < 0 || measured_bytes > lease.bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("measured_bytes is ", measured_bytes,
                     ", not 0 to the granted ", lease.bytes));
  }
  lease.measured_bytes = measured_bytes;
  lease.state = LeaseState::kConfirmed;
  lease.was_confirmed = true;
  Extend(lease, now);
  return lease;
}

absl::StatusOr<Lease> LeaseBook::Renew(const std::string& lease_id,
                                       int64_t epoch, absl::Time now) {
  Expire(now);
  ASSIGN_OR_RETURN(Entry* const entry, FindForHolder(lease_id, epoch));
  Extend(entry->lease, now);
  return entry->lease;
}

void LeaseBook::Free(Entry& entry) {
  Lease& lease = entry.lease;
  Device& device = devices_.at(lease.device_id);
  deadlines_.erase({lease.expires, lease.id});
  device.held_bytes -= lease.bytes;
  device.leases.erase(lease.id);
  if (!entry.in_reading) {
    device.unread_bytes -= lease.bytes;
  } else if (device.booked.measured_free_bytes) {
    // The reading was taken while these bytes were allocated.
    int64_t& free = *device.booked.measured_free_bytes;
    free += std::min(
        lease.measured_bytes,
        device.booked.total_bytes - std::min(free, device.booked.total_bytes));
  }
  lease.state = LeaseState::kReleased;
  --n_live_;
  released_order_.emplace_back(lease.id, lease.epoch);
  if (static_cast<int64_t>(released_order_.size()) <= kMaxRememberedRequests) {
    return;
  }
  const auto [id, epoch] = released_order_.front();
  released_order_.pop_front();
  const auto oldest = leases_.find(id);
  // The id may have been used again since.
  if (oldest != leases_.end() && oldest->second.lease.epoch == epoch) {
    leases_.erase(oldest);
  }
}

absl::StatusOr<Lease> LeaseBook::Release(const std::string& lease_id,
                                         int64_t epoch) {
  const auto it = leases_.find(lease_id);
  if (it == leases_.end()) return UnknownLease();
  if (it->second.lease.epoch != epoch) {
    return OtherEpoch(it->second.lease, epoch);
  }
  if (!IsLive(it->second.lease)) return it->second.lease;
  Free(it->second);
  return it->second.lease;
}

int64_t LeaseBook::HolderDied(const std::string& holder) {
  int64_t freed_bytes = 0;
  std::vector<std::string> ids;
  for (const auto& [id, entry] : leases_) {
    if (entry.lease.holder == holder && IsLive(entry.lease)) ids.push_back(id);
  }
  for (const std::string& id : ids) {
    Entry& entry = leases_.at(id);
    freed_bytes += entry.lease.bytes;
    Free(entry);
  }
  return freed_bytes;
}

void LeaseBook::Expire(absl::Time now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    leases_.at(deadlines_.begin()->second).lease.state = LeaseState::kSuspect;
    deadlines_.erase(deadlines_.begin());
  }
}

absl::StatusOr<int64_t> LeaseBook::AvailableBytes(
    const std::string& device_id) const {
  const auto it = devices_.find(device_id);
  if (it == devices_.end()) return UnknownDevice();
  return Available(it->second);
}

absl::StatusOr<int64_t> LeaseBook::HeldBytes(
    const std::string& device_id) const {
  const auto it = devices_.find(device_id);
  if (it == devices_.end()) return UnknownDevice();
  return it->second.held_bytes;
}

std::vector<BookedDevice> LeaseBook::Devices() const {
  std::vector<BookedDevice> devices;
  devices.reserve(devices_.size());
  for (const auto& [id, device] : devices_) devices.push_back(device.booked);
  return devices;
}

std::vector<Lease> LeaseBook::Leases() const {
  std::vector<Lease> leases;
  for (const auto& [id, entry] : leases_) {
    if (IsLive(entry.lease)) leases.push_back(entry.lease);
  }
  return leases;
}

}  // namespace plimsoll::planner
