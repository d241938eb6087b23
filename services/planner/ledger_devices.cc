// The ledger's devices and lists, and who is told of changes.
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "services/common/errors.h"
#include "services/common/from_proto.h"
#include "services/common/to_proto.h"
#include "services/planner/ledger.h"

namespace plimsoll::services {

v1::Lease Ledger::Describe(const planner::Lease& lease, absl::Time now) const {
  v1::Lease message = ToProto(lease, now);
  const std::optional<ProcessIdentity> process = ParseIdentity(lease.process);
  if (process.has_value() && watch_.IsWatching(lease.process)) {
    message.set_watched_pid(ToUint32(process->pid));
  }
  return message;
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
  message.set_unhealthy(!book_.IsHealthy(device.id));
  return message;
}

v1::WatchDevicesResponse Ledger::DescribeAll() const {
  v1::WatchDevicesResponse message;
  for (const planner::BookedDevice& device : book_.Devices()) {
    *message.add_devices() = Describe(device);
  }
  return message;
}

absl::Status Ledger::RegisterDevice(const v1::RegisterDeviceRequest& request,
                                    v1::RegisterDeviceResponse& response) {
  ASSIGN_OR_RETURN(const planner::DeviceProfile profile,
                   FromProto(request.profile()));
  ASSIGN_OR_RETURN(const int64_t headroom_bytes,
                   Signed(request.headroom_bytes(), "headroom_bytes"));
  if (request.holder().size() > planner::LeaseBook::kMaxIdBytes) {
    return absl::InvalidArgumentError("holder has more than 256 bytes");
  }
  planner::BookedDevice device{.id = profile.id,
                               .total_bytes = profile.total_bytes,
                               .headroom_bytes = headroom_bytes};
  if (request.profile().has_free_bytes()) {
    device.measured_free_bytes = profile.free_bytes;
  }
  absl::MutexLock lock(&mu_);
  book_.Expire(clock_());
  // One that failed is not made healthy by who says so.
  RETURN_IF_ERROR(book_.RegisterDevice(
      device, request.unhealthy() ? "" : request.holder()));
  profiles_[profile.id] = profile;
  if (request.unhealthy()) {
    RETURN_IF_ERROR(book_.MarkUnhealthy(profile.id, request.holder()));
  }
  *response.mutable_device() = Describe(device);
  Announce();
  return absl::OkStatus();
}

absl::Status Ledger::ListDevices(v1::ListDevicesResponse& response) {
  absl::MutexLock lock(&mu_);
  book_.Expire(clock_());
  *response.mutable_devices() = std::move(*DescribeAll().mutable_devices());
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
    *response.add_leases() = Describe(lease, now);
  }
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
  return absl::OkStatus();
}

absl::Status Ledger::StartListening(std::shared_ptr<DeviceListener> listener) {
  absl::MutexLock lock(&mu_);
  if (has_ended_watches_) {
    return WithDetails(absl::UnavailableError("this server is shutting down"),
                       {v1::ERROR_REASON_DRAINING, {}, absl::ZeroDuration()});
  }
  if (listeners_.size() >= kMaxListeners) {
    return WithDetails(
        absl::ResourceExhaustedError("too many calls watch the devices"),
        {v1::ERROR_REASON_QUEUE_FULL, {}, absl::Seconds(10)});
  }
  listener->OnDevices(DescribeAll());
  listeners_.insert(std::move(listener));
  return absl::OkStatus();
}

void Ledger::StopListening(const std::shared_ptr<DeviceListener>& listener) {
  absl::MutexLock lock(&mu_);
  listeners_.erase(listener);
}

void Ledger::EndWatches() {
  absl::MutexLock lock(&mu_);
  has_ended_watches_ = true;
  const absl::Status status =
      WithDetails(absl::UnavailableError("this server is shutting down"),
                  {v1::ERROR_REASON_DRAINING, {}, absl::ZeroDuration()});
  for (const auto& listener : listeners_) listener->OnWatchEnd(status);
  listeners_.clear();
}

void Ledger::Announce() {
  if (listeners_.empty()) return;
  const v1::WatchDevicesResponse message = DescribeAll();
  std::string serialised = message.SerializeAsString();
  if (serialised == announced_) return;
  announced_ = std::move(serialised);
  for (const auto& listener : listeners_) listener->OnDevices(message);
}

}  // namespace plimsoll::services
