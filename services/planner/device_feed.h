// The device feed tells watchers about changes of the ledger's devices.
#ifndef PLIMSOLL_SERVICES_PLANNER_DEVICE_FEED_H_
#define PLIMSOLL_SERVICES_PLANNER_DEVICE_FEED_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/sync/steady_mutex.h"
#include "plimsoll/v1/planner.pb.h"
#include "services/host/background.h"

namespace plimsoll::services {

// This is a device as the ledger has it. It is small enough to be copied under
// the ledger's mutex.
struct DeviceState {
  std::shared_ptr<const v1::DeviceProfile> profile;  // without free_bytes
  int64_t free_bytes = 0;
  int64_t headroom_bytes = 0;
  int64_t held_bytes = 0;
  int64_t available_bytes = 0;
  bool is_healthy = true;

  friend bool operator==(const DeviceState&, const DeviceState&) = default;
};
v1::Device ToProto(const DeviceState& state);

// A listener gets a call when there is something to Take. It is called on the
// feed's thread, which it must not block.
class DeviceListener {
 public:
  virtual ~DeviceListener() = default;
  virtual void OnNews() = 0;
  virtual void OnWatchEnd(const absl::Status& status) = 0;
};

// The feed makes messages on its own thread, never under the ledger's mutex. It
// makes at most one every kPause, and one for all watchers with the same
// version. A slow watcher costs nothing: it takes the news when it is ready.
// Thread-safe.
class DeviceFeed {
 public:
  static constexpr size_t kMaxListeners = 256;
  static constexpr absl::Duration kPause = absl::Milliseconds(100);
  // Up to this many changed devices are noted one by one; with more, all
  // devices are read.
  static constexpr size_t kMaxTouched = 1'024;
  // It remembers this many removed devices. A watcher that is further behind
  // gets all devices.
  static constexpr size_t kMaxRemoved = 4'096;

  // Returns the devices with these ids, or all of them, keyed by id, without
  // ids that do not exist. It is called on the feed's thread.
  using Source = std::function<std::map<std::string, DeviceState>(
      const std::optional<std::set<std::string>>& ids)>;

  explicit DeviceFeed(Source source);
  ~DeviceFeed();
  DeviceFeed(const DeviceFeed&) = delete;
  DeviceFeed& operator=(const DeviceFeed&) = delete;

  // One device may have changed, or any. Both calls are cheap enough for use
  // under the ledger's mutex.
  void Touch(const std::string& id) ABSL_LOCKS_EXCLUDED(mu_);
  void TouchAll() ABSL_LOCKS_EXCLUDED(mu_);

  // Calls `listener` at once, and then after every change.
  // Errors: kResourceExhausted (kMaxListeners); kUnavailable once ended.
  absl::Status Start(std::shared_ptr<DeviceListener> listener)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Stop(const std::shared_ptr<DeviceListener>& listener)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Ends every watch; later ones are refused.
  void End() ABSL_LOCKS_EXCLUDED(mu_);

  struct News {
    // Null if there is no news.
    std::shared_ptr<const v1::WatchDevicesResponse> message;
    int64_t version = 0;
  };
  // Returns the news for a watcher that has the state at `version`, or none yet
  // (0): all devices or, with `only_changes`, the changes since then.
  News Take(int64_t version, bool only_changes) ABSL_LOCKS_EXCLUDED(told_mu_);

 private:
  using Listeners = std::set<std::shared_ptr<DeviceListener>>;
  using Message = std::shared_ptr<const v1::WatchDevicesResponse>;
  struct Told {
    DeviceState state;
    v1::Device message;
    int64_t version = 0;  // version of its last change
  };

  void Loop() ABSL_LOCKS_EXCLUDED(mu_, told_mu_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Updates the states for watchers to `devices`, which are all devices or
  // those in `ids`.
  void Update(std::map<std::string, DeviceState>&& devices,
              const std::optional<std::set<std::string>>& ids)
      ABSL_LOCKS_EXCLUDED(told_mu_);
  void Remove(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(told_mu_);
  Message All() ABSL_EXCLUSIVE_LOCKS_REQUIRED(told_mu_);
  Message ChangesSince(int64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(told_mu_);

  const Source source_;

  SteadyMutex mu_;
  Listeners listeners_ ABSL_GUARDED_BY(mu_);
  Listeners fresh_ ABSL_GUARDED_BY(mu_);  // listeners without any news yet
  std::set<std::string> touched_ ABSL_GUARDED_BY(mu_);
  bool is_all_touched_ ABSL_GUARDED_BY(mu_) = true;
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;

  absl::Mutex told_mu_;
  std::map<std::string, Told> told_ ABSL_GUARDED_BY(told_mu_);
  int64_t version_ ABSL_GUARDED_BY(told_mu_) = 1;
  // Removed devices, the newest last. Each pair has the version at which the
  // device was removed.
  std::deque<std::pair<int64_t, std::string>> removed_
      ABSL_GUARDED_BY(told_mu_);
  // Removals up to this version are not remembered.
  int64_t forgotten_version_ ABSL_GUARDED_BY(told_mu_) = 0;
  // The last messages, kept for watchers that need the same one.
  Message all_ ABSL_GUARDED_BY(told_mu_);
  int64_t all_version_ ABSL_GUARDED_BY(told_mu_) = 0;
  Message changes_ ABSL_GUARDED_BY(told_mu_);
  std::pair<int64_t, int64_t> changes_versions_ ABSL_GUARDED_BY(told_mu_);

  Background thread_;  // last: it uses everything above
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_DEVICE_FEED_H_
