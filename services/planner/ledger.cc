#include "services/planner/ledger.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/common/errors.h"
#include "services/common/from_proto.h"
#include "services/common/random_id.h"
#include "services/common/to_proto.h"

namespace plimsoll::services {
namespace {

constexpr uint64_t kMaxBytes = std::numeric_limits<int64_t>::max();

absl::StatusOr<int64_t> Signed(uint64_t value, absl::string_view field) {
  if (value > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " does not fit in 63 bits"));
  }
  return static_cast<int64_t>(value);
}

absl::Status NoSuchDevice(absl::Status status, const std::string& id) {
  return WithDetails(
      std::move(status),
      {v1::ERROR_REASON_DEVICE_NOT_FOUND, {{"device_id", id}}, std::nullopt});
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

absl::StatusOr<Ledger::Device> Ledger::FindDevice(const std::string& id) {
  absl::MutexLock lock(&mu_);
  book_.Expire(clock_());
  const auto found = profiles_.find(id);
  if (found == profiles_.end()) {
    return NoSuchDevice(absl::NotFoundError("no such device is registered"),
                        id);
  }
  Device device{.profile = found->second, .available_bytes = 0};
  ASSIGN_OR_RETURN(device.available_bytes, book_.AvailableBytes(id));
  return device;
}

std::vector<Ledger::Device> Ledger::Devices() {
  absl::MutexLock lock(&mu_);
  book_.Expire(clock_());
  std::vector<Device> devices;
  for (const auto& [id, profile] : profiles_) {
    devices.push_back({profile, book_.AvailableBytes(id).value_or(0)});
  }
  return devices;
}

absl::Status Ledger::Reserve(const v1::ReserveRequest& request,
                             v1::ReserveResponse& response) {
  ASSIGN_OR_RETURN(const int64_t bytes, Signed(request.bytes(), "bytes"));
  if (request.purpose().size() > planner::LeaseBook::kMaxIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "purpose is longer than ", planner::LeaseBook::kMaxIdBytes, " bytes"));
  }
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_();
  absl::StatusOr<planner::Lease> lease =
      book_.Reserve({.request_id = request.request_id(),
                     .lease_id = RandomId(),
                     .device_id = request.device_id(),
                     .holder = request.holder(),
                     .purpose = request.purpose(),
                     .bytes = bytes},
                    now);
  if (lease.ok()) {
    *response.mutable_lease() = ToProto(*lease, now);
    return absl::OkStatus();
  }
  if (lease.status().code() == absl::StatusCode::kNotFound) {
    return NoSuchDevice(lease.status(), request.device_id());
  }
  if (lease.status().code() != absl::StatusCode::kResourceExhausted) {
    return lease.status();
  }
  ErrorDetails details{v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED,
                       {{"wanted_bytes", absl::StrCat(bytes)}},
                       planner::LeaseBook::kTtl};
  if (const auto available = book_.AvailableBytes(request.device_id());
      available.ok()) {
    details.metadata["available_bytes"] = absl::StrCat(*available);
  }
  if (const auto held = book_.HeldBytes(request.device_id()); held.ok()) {
    details.metadata["held_bytes"] = absl::StrCat(*held);
  }
  return WithDetails(lease.status(), details);
}

absl::Status Ledger::Read(const std::string& device_id, uint64_t free_bytes) {
  ASSIGN_OR_RETURN(const int64_t free, Signed(free_bytes, "device_free_bytes"));
  for (planner::BookedDevice& device : book_.Devices()) {
    if (device.id != device_id) continue;
    device.measured_free_bytes = free;
    RETURN_IF_ERROR(book_.RegisterDevice(device));
    profiles_[device_id].free_bytes = free;
  }
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
  if (request.has_device_free_bytes()) {
    RETURN_IF_ERROR(Read(lease->device_id, request.device_free_bytes()));
  }
  *response.mutable_lease() = ToProto(*lease, now);
  return absl::OkStatus();
}

absl::Status Ledger::Renew(const v1::RenewRequest& request,
                           v1::RenewResponse& response) {
  ASSIGN_OR_RETURN(const int64_t epoch, Signed(request.epoch(), "epoch"));
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_();
  const absl::StatusOr<planner::Lease> lease =
      book_.Renew(request.lease_id(), epoch, now);
  if (!lease.ok()) return LeaseError(lease.status(), request.lease_id());
  if (request.has_device_free_bytes()) {
    RETURN_IF_ERROR(Read(lease->device_id, request.device_free_bytes()));
  }
  *response.mutable_lease() = ToProto(*lease, now);
  return absl::OkStatus();
}

absl::Status Ledger::Release(const v1::ReleaseRequest& request,
                             v1::ReleaseResponse& response) {
  ASSIGN_OR_RETURN(const int64_t epoch, Signed(request.epoch(), "epoch"));
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_();
  book_.Expire(now);
  const absl::StatusOr<planner::Lease> lease =
      book_.Release(request.lease_id(), epoch);
  if (!lease.ok()) return LeaseError(lease.status(), request.lease_id());
  *response.mutable_lease() = ToProto(*lease, now);
  return absl::OkStatus();
}

v1::Device Ledger::Describe(const planner::BookedDevice& device) const {
  v1::Device message;
  if (const auto found = profiles_.find(device.id); found != profiles_.end()) {
    *message.mutable_profile() = ToProto(found->second);
  }
  message.set_headroom_bytes(ToUint64(device.headroom_bytes));
  message.set_held_bytes(ToUint64(book_.HeldBytes(device.id).value_or(0)));
  message.set_available_bytes(
      ToUint64(book_.AvailableBytes(device.id).value_or(0)));
  return message;
}

absl::Status Ledger::RegisterDevice(const v1::RegisterDeviceRequest& request,
                                    v1::RegisterDeviceResponse& response) {
  ASSIGN_OR_RETURN(const planner::DeviceProfile profile,
                   FromProto(request.profile()));
  ASSIGN_OR_RETURN(const int64_t headroom,
                   Signed(request.headroom_bytes(), "headroom_bytes"));
  planner::BookedDevice device{.id = profile.id,
                               .total_bytes = profile.total_bytes,
                               .headroom_bytes = headroom,
                               .measured_free_bytes = std::nullopt};
  if (request.profile().has_free_bytes()) {
    device.measured_free_bytes = profile.free_bytes;
  }
  absl::MutexLock lock(&mu_);
  book_.Expire(clock_());
  RETURN_IF_ERROR(book_.RegisterDevice(device));
  profiles_[profile.id] = profile;
  *response.mutable_device() = Describe(device);
  return absl::OkStatus();
}

absl::Status Ledger::ListDevices(v1::ListDevicesResponse& response) {
  absl::MutexLock lock(&mu_);
  book_.Expire(clock_());
  for (const planner::BookedDevice& device : book_.Devices()) {
    *response.add_devices() = Describe(device);
  }
  return absl::OkStatus();
}

absl::Status Ledger::ListLeases(const v1::ListLeasesRequest& request,
                                v1::ListLeasesResponse& response) {
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_();
  book_.Expire(now);
  for (const planner::Lease& lease : book_.Leases()) {
    if (!request.device_id().empty() &&
        lease.device_id != request.device_id()) {
      continue;
    }
    *response.add_leases() = ToProto(lease, now);
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::services
