// The lease book's devices: how much of each may be granted, and what a reading
// of its free memory proves.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/lease/lease_book.h"

namespace plimsoll::planner {
namespace {

absl::Status UnknownDevice() {
  return absl::NotFoundError("there is no device with this id");
}

absl::Status CheckFree(int64_t bytes) {
  if (bytes >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the free bytes must not be negative, got ", bytes));
}

}  // namespace

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
    const BookedDevice& device, const std::string& registrant) {
  const auto n_bytes = static_cast<int64_t>(device.id.size());
  if (n_bytes == 0 || n_bytes > kMaxIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device id has ", n_bytes, " bytes, not 1 to ", kMaxIdBytes));
  }
  if (device.total_bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("total_bytes must be positive, got ", device.total_bytes));
  }
  if (device.headroom_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "headroom_bytes must not be negative, got ", device.headroom_bytes));
  }
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

absl::Status LeaseBook::UnregisterDevice(const std::string& device_id) {
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
                                 absl::Time now) {
  Expire(now);
  RETURN_IF_ERROR(CheckFree(free_bytes));
  Device* const device = FindDevice(device_id);
  if (device == nullptr) return UnknownDevice();
  device->heard = ++n_heard_;
  int64_t vouched_bytes = 0;
  for (const Entry* entry : device->leases) {
    if (entry->lease.id == vouching_lease && !entry->is_provable) {
      vouched_bytes = entry->lease.measured_bytes;
    }
  }
  TakeReading(*device, free_bytes, vouched_bytes);
  return absl::OkStatus();
}

bool LeaseBook::IsGone(const Entry& entry, int64_t used_bytes) const {
  if (!entry.is_provable) return false;
  const Process* const process = entry.process;
  if (process != nullptr &&
      (process->is_live || last_time_ < process->trusted_until)) {
    return false;
  }
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
    for (Entry* const entry : gone) Free(*entry, /*is_read=*/true);
  }
  device.unread_bytes = 0;
  for (Entry* const entry : device.leases) {
    entry->in_reading = entry->lease.was_confirmed;
    if (!entry->in_reading) device.unread_bytes += entry->lease.bytes;
  }
}

absl::Status LeaseBook::MarkUnhealthy(const std::string& device_id,
                                      const std::string& holder) {
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
  const int64_t limit = device.booked.total_bytes / kMarginDivisor;
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
  int64_t available = above_headroom(booked.total_bytes) - device.held_bytes;
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

bool LeaseBook::IsRegistered(const std::string& device_id) const {
  return FindDevice(device_id) != nullptr;
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
