// The ledger's devices and lists, and who is told of changes.
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "services/planner/ledger.h"
#include "services/wire/errors.h"
#include "services/wire/from_proto.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

// What the book calls the process. One that is not sound holds nothing.
std::string BookName(const v1::ProcessIdentity& process) {
  return ToString(
      {.pid = process.pid(),
       .start_ticks = static_cast<int64_t>(process.start_ticks()),
       .boot_id = process.boot_id(),
       .pid_namespace = static_cast<int64_t>(process.pid_namespace())});
}

}  // namespace

v1::Lease Ledger::Describe(const planner::Lease& lease, absl::Time now) const {
  v1::Lease message = ToProto(lease, now);
  *message.mutable_ttl() = ToProto(times_.ttl);
  const std::optional<ProcessIdentity> process = ParseIdentity(lease.process);
  if (process.has_value() && watch_.IsWatching(lease.process)) {
    message.set_watched_pid(ToUint32(process->pid));
  }
  return message;
}

DeviceState Ledger::StateOf(const std::string& id,
                            const Registered& device) const {
  return {.profile = device.message,
          .free_bytes = device.profile.free_bytes,
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
  auto message = std::make_shared<v1::DeviceProfile>(ToProto(profile));
  message->clear_free_bytes();
  absl::MutexLock lock(&mu_);
  book_.Expire(clock_());
  // One that failed is not made healthy by who says so.
  ASSIGN_OR_RETURN(const std::string evicted,
                   book_.RegisterDevice(
                       device, request.unhealthy() ? "" : request.holder()));
  FlushJournal();  // its reading may have freed something
  if (!evicted.empty()) {
    devices_.erase(evicted);
    feed_.Touch(evicted);
  }
  Registered& registered = devices_[profile.id];
  registered.profile = profile;
  registered.headroom_bytes = headroom_bytes;
  // A profile that is the same stays the same to watchers.
  if (registered.message == nullptr ||
      registered.message->SerializeAsString() != message->SerializeAsString()) {
    registered.message = std::move(message);
  }
  if (request.unhealthy()) {
    RETURN_IF_ERROR(book_.MarkUnhealthy(profile.id, request.holder()));
  }
  feed_.Touch(profile.id);
  *response.mutable_device() = ToProto(StateOf(profile.id, registered));
  return absl::OkStatus();
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

absl::Status Ledger::ListLeases(const v1::ListLeasesRequest& request,
                                v1::ListLeasesResponse& response) {
  const std::string process = BookName(request.process());
  std::vector<planner::Lease> leases;
  const absl::Time now = clock_();
  {
    absl::MutexLock lock(&mu_);
    book_.Expire(now);
    leases = book_.Leases();
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
  // Many leases take long to describe, and nobody waits for that.
  for (const planner::Lease& lease : leases) {
    if (!request.device_id().empty() &&
        lease.device_id != request.device_id()) {
      continue;
    }
    if (request.has_process() && lease.process != process) continue;
    v1::Lease& added = *response.add_leases();
    added = Describe(lease, now);
    if (request.has_process()) *added.mutable_process() = request.process();
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::services
