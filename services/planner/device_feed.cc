#include "services/planner/device_feed.h"

#include <algorithm>

#include "services/host/clock.h"
#include "services/wire/errors.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

// Messages may take this part of a core's time at most: one in so many.
constexpr int kShare = 4;

absl::Status ShuttingDown() {
  return WithDetails(absl::UnavailableError("this server is shutting down"),
                     {v1::ERROR_REASON_DRAINING, {}, absl::ZeroDuration()});
}

}  // namespace

v1::Device ToProto(const DeviceState& state) {
  v1::Device message;
  *message.mutable_profile() = *state.profile;
  message.mutable_profile()->set_free_bytes(ToUint64(state.free_bytes));
  message.set_headroom_bytes(ToUint64(state.headroom_bytes));
  message.set_held_bytes(ToUint64(state.held_bytes));
  message.set_available_bytes(ToUint64(state.available_bytes));
  message.set_unhealthy(!state.is_healthy);
  return message;
}

DeviceFeed::DeviceFeed(Source source)
    : source_(std::move(source)), thread_([this] { Loop(); }) {}

DeviceFeed::~DeviceFeed() {
  {
    SteadyMutexLock lock(&mu_);
    is_stopping_ = true;
  }
  thread_.Join();
}

void DeviceFeed::Touch(const std::string& id) {
  SteadyMutexLock lock(&mu_);
  if (is_all_touched_) return;
  touched_.insert(id);
  if (touched_.size() <= kMaxTouched) return;
  is_all_touched_ = true;
  touched_.clear();
}

void DeviceFeed::TouchAll() {
  SteadyMutexLock lock(&mu_);
  is_all_touched_ = true;
  touched_.clear();
}

absl::Status DeviceFeed::Start(std::shared_ptr<DeviceListener> listener) {
  SteadyMutexLock lock(&mu_);
  if (has_ended_) return ShuttingDown();
  if (listeners_.size() + fresh_.size() >= kMaxListeners) {
    return WithDetails(
        absl::ResourceExhaustedError("too many calls watch the devices"),
        {v1::ERROR_REASON_QUEUE_FULL, {}, absl::Seconds(10)});
  }
  fresh_.insert(std::move(listener));
  return absl::OkStatus();
}

void DeviceFeed::Stop(const std::shared_ptr<DeviceListener>& listener) {
  SteadyMutexLock lock(&mu_);
  listeners_.erase(listener);
  fresh_.erase(listener);
}

void DeviceFeed::End() {
  Listeners all;
  {
    SteadyMutexLock lock(&mu_);
    has_ended_ = true;
    all.swap(listeners_);
    all.merge(fresh_);
    fresh_.clear();
  }
  for (const auto& listener : all) listener->OnWatchEnd(ShuttingDown());
}

bool DeviceFeed::HasWork() const {
  return is_stopping_ || !fresh_.empty() ||
         (!listeners_.empty() && (is_all_touched_ || !touched_.empty()));
}

void DeviceFeed::Loop() {
  while (true) {
    std::optional<std::set<std::string>> ids;
    Listeners joining;
    {
      SteadyMutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &DeviceFeed::HasWork));
      if (is_stopping_) return;
      joining.swap(fresh_);
      // They count from now on, so that Stop and End find them.
      listeners_.insert(joining.begin(), joining.end());
      if (!is_all_touched_) ids.emplace(std::move(touched_));
      touched_.clear();
      is_all_touched_ = false;
    }
    const absl::Time start = BootTime();
    Update(source_(ids), ids);
    std::vector<std::shared_ptr<DeviceListener>> told;
    {
      SteadyMutexLock lock(&mu_);
      told.assign(listeners_.begin(), listeners_.end());
    }
    for (const auto& listener : told) listener->OnNews();
    const absl::Duration pause =
        std::max(kPause, (kShare - 1) * (BootTime() - start));
    SteadyMutexLock lock(&mu_);
    const auto is_urgent = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return is_stopping_ || !fresh_.empty();
    };
    mu_.AwaitFor(absl::Condition(&is_urgent), pause);
  }
}

void DeviceFeed::Update(std::map<std::string, DeviceState>&& devices,
                        const std::optional<std::set<std::string>>& ids) {
  absl::MutexLock lock(&told_mu_);
  const int64_t next = version_ + 1;
  bool has_changed = false;
  for (auto& [id, state] : devices) {
    Told& told = told_[id];
    if (told.version > 0 && told.state == state) continue;
    told.message = ToProto(state);
    told.state = std::move(state);
    told.version = next;
    has_changed = true;
  }
  std::vector<std::string> gone;
  if (ids.has_value()) {
    for (const std::string& id : *ids) {
      if (devices.count(id) == 0 && told_.count(id) > 0) gone.push_back(id);
    }
  } else {
    for (const auto& [id, told] : told_) {
      if (devices.count(id) == 0) gone.push_back(id);
    }
  }
  for (const std::string& id : gone) Remove(id);
  if (has_changed || !gone.empty()) version_ = next;
}

void DeviceFeed::Remove(const std::string& id) {
  told_.erase(id);
  removed_.emplace_back(version_ + 1, id);
  if (removed_.size() <= kMaxRemoved) return;
  forgotten_version_ = removed_.front().first;
  removed_.pop_front();
}

DeviceFeed::News DeviceFeed::Take(int64_t version, bool only_changes) {
  absl::MutexLock lock(&told_mu_);
  News news{.message = nullptr, .version = version_};
  if (version == version_) return news;
  const bool needs_all =
      !only_changes || version == 0 || version < forgotten_version_;
  news.message = needs_all ? All() : ChangesSince(version);
  return news;
}

DeviceFeed::Message DeviceFeed::All() {
  if (all_version_ == version_) return all_;
  auto message = std::make_shared<v1::WatchDevicesResponse>();
  for (const auto& [id, told] : told_) {
    *message->add_devices() = told.message;
  }
  all_ = std::move(message);
  all_version_ = version_;
  return all_;
}

DeviceFeed::Message DeviceFeed::ChangesSince(int64_t version) {
  const std::pair<int64_t, int64_t> versions = {version, version_};
  if (changes_versions_ == versions) return changes_;
  auto message = std::make_shared<v1::WatchDevicesResponse>();
  message->set_is_change(true);
  for (const auto& [id, told] : told_) {
    if (told.version > version) *message->add_devices() = told.message;
  }
  std::set<std::string> gone;
  for (auto it = removed_.rbegin();
       it != removed_.rend() && it->first > version; ++it) {
    // The device may have been registered again.
    if (told_.count(it->second) == 0) gone.insert(it->second);
  }
  for (const std::string& id : gone) message->add_removed_ids(id);
  changes_ = std::move(message);
  changes_versions_ = versions;
  return changes_;
}

}  // namespace plimsoll::services
