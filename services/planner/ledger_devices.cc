// The devices of a ledger: their registration, their sizes and their lists.
#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/host/log.h"
#include "services/planner/ledger.h"
#include "services/wire/from_proto.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

// What DeviceSizes::Smallest returns if nobody said a size.
constexpr int64_t kNoSize = std::numeric_limits<int64_t>::max();

// An idle worker names the size of its devices three times in this time.
absl::Duration SizeLife(const planner::LeaseTimes& times) {
  return std::max(times.ttl, planner::LeaseTimes::kDefaultTtl);
}

}  // namespace

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
