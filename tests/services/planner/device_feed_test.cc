// Telling watchers of devices.
#include "services/planner/device_feed.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

using Code = absl::StatusCode;

// Devices that a test changes, and their feed.
class DeviceFeedTest : public ::testing::Test {
 protected:
  using States = std::map<std::string, DeviceState>;

  void Set(const std::string& id, int64_t held_bytes) {
    {
      absl::MutexLock lock(&mu_);
      DeviceState& state = states_[id];
      if (state.profile == nullptr) {
        auto profile = std::make_shared<v1::DeviceProfile>();
        profile->set_id(id);
        state.profile = std::move(profile);
      }
      state.held_bytes = held_bytes;
    }
    feed_.Touch(id);
  }
  void Erase(const std::string& id) {
    {
      absl::MutexLock lock(&mu_);
      states_.erase(id);
    }
    feed_.Touch(id);
  }
  int64_t n_asked() {
    absl::MutexLock lock(&mu_);
    return n_asked_;
  }

  absl::Mutex mu_;
  States states_ ABSL_GUARDED_BY(mu_);
  int64_t n_asked_ ABSL_GUARDED_BY(mu_) = 0;  // devices, in all
  DeviceFeed feed_{[this](const std::optional<std::set<std::string>>& ids) {
    absl::MutexLock lock(&mu_);
    States states;
    for (const auto& [id, state] : states_) {
      if (!ids.has_value() || ids->count(id) > 0) states.emplace(id, state);
    }
    n_asked_ += std::ssize(states);
    return states;
  }};
};

// Takes what there is when the test asks for it.
class Watcher final : public DeviceListener {
 public:
  Watcher(DeviceFeed& feed, bool only_changes)
      : feed_(feed), only_changes_(only_changes) {}

  void OnNews() override {
    absl::MutexLock lock(&mu_);
    ++n_news_;
  }
  void OnWatchEnd(const absl::Status& status) override {
    absl::MutexLock lock(&mu_);
    end_ = status;
  }

  // The next message that differs from what it knows.
  std::shared_ptr<const v1::WatchDevicesResponse> Next() {
    while (true) {
      const DeviceFeed::News news = feed_.Take(version_, only_changes_);
      if (news.message != nullptr && Seen() > 0) {
        version_ = news.version;
        return news.message;
      }
      const int seen = Seen();
      absl::MutexLock lock(&mu_);
      const auto has_more = [this, seen]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return n_news_ > seen;
      };
      mu_.Await(absl::Condition(&has_more));
    }
  }
  int Seen() {
    absl::MutexLock lock(&mu_);
    return n_news_;
  }
  absl::Status end() {
    absl::MutexLock lock(&mu_);
    return end_;
  }

 private:
  DeviceFeed& feed_;
  const bool only_changes_;
  int64_t version_ = 0;
  absl::Mutex mu_;
  int n_news_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status end_ ABSL_GUARDED_BY(mu_);
};

std::vector<std::string> IdsOf(const v1::WatchDevicesResponse& message) {
  std::vector<std::string> ids;
  for (const v1::Device& device : message.devices()) {
    ids.push_back(device.profile().id());
  }
  return ids;
}

using Strings = std::vector<std::string>;

TEST_F(DeviceFeedTest, NobodyWatchesAndNothingIsMade) {
  Set("a", 1);
  Set("b", 1);
  EXPECT_EQ(n_asked(), 0);
}

TEST_F(DeviceFeedTest, AWatcherKnowsAllAtOnce) {
  const auto watcher = std::make_shared<Watcher>(feed_, false);
  ASSERT_TRUE(feed_.Start(watcher).ok());
  EXPECT_EQ(watcher->Next()->devices_size(), 0);
  Set("a", 1);
  Set("b", 2);
  const auto late = std::make_shared<Watcher>(feed_, true);
  ASSERT_TRUE(feed_.Start(late).ok());
  const auto first = late->Next();
  EXPECT_EQ(IdsOf(*first), (Strings{"a", "b"}));
  EXPECT_FALSE(first->is_change());
  EXPECT_EQ(first->devices(1).held_bytes(), 2u);
}

TEST_F(DeviceFeedTest, OnlyWhatChangedIsToldToWhoWantsThat) {
  for (const char* id : {"a", "b", "c"}) Set(id, 1);
  const auto all = std::make_shared<Watcher>(feed_, false);
  const auto changes = std::make_shared<Watcher>(feed_, true);
  const auto twin = std::make_shared<Watcher>(feed_, true);
  for (const auto& watcher : {all, changes, twin}) {
    ASSERT_TRUE(feed_.Start(watcher).ok());
    EXPECT_EQ(watcher->Next()->devices_size(), 3);
  }
  Set("b", 7);
  const auto told = changes->Next();
  EXPECT_TRUE(told->is_change());
  EXPECT_EQ(IdsOf(*told), Strings{"b"});
  EXPECT_EQ(told->devices(0).held_bytes(), 7u);
  EXPECT_EQ(twin->Next(), told) << "one message is made for both";
  EXPECT_EQ(IdsOf(*all->Next()), (Strings{"a", "b", "c"}));
  Erase("a");
  const auto gone = changes->Next();
  EXPECT_EQ(gone->devices_size(), 0);
  ASSERT_EQ(gone->removed_ids_size(), 1);
  EXPECT_EQ(gone->removed_ids(0), "a");
  EXPECT_EQ(IdsOf(*all->Next()), (Strings{"b", "c"}));
}

TEST_F(DeviceFeedTest, WhoIsSlowGetsAllChangesAsOne) {
  Set("a", 1);
  const auto slow = std::make_shared<Watcher>(feed_, true);
  const auto quick = std::make_shared<Watcher>(feed_, true);
  for (const auto& watcher : {slow, quick}) {
    ASSERT_TRUE(feed_.Start(watcher).ok());
    watcher->Next();
  }
  Set("b", 2);
  quick->Next();
  Erase("a");
  quick->Next();
  Set("b", 3);
  quick->Next();
  const auto told = slow->Next();
  EXPECT_EQ(IdsOf(*told), Strings{"b"});
  EXPECT_EQ(told->devices(0).held_bytes(), 3u);
  EXPECT_EQ(told->removed_ids_size(), 1);
}

TEST_F(DeviceFeedTest, ADeviceThatComesBackIsNotGone) {
  Set("a", 1);
  Set("b", 1);
  const auto slow = std::make_shared<Watcher>(feed_, true);
  const auto quick = std::make_shared<Watcher>(feed_, true);
  for (const auto& watcher : {slow, quick}) {
    ASSERT_TRUE(feed_.Start(watcher).ok());
    watcher->Next();
  }
  Erase("a");
  quick->Next();
  Set("a", 1);
  quick->Next();
  const auto told = slow->Next();
  EXPECT_EQ(IdsOf(*told), Strings{"a"});
  EXPECT_EQ(told->removed_ids_size(), 0);
}

TEST_F(DeviceFeedTest, RemovalsUpToTheLimitAndNotPastIt) {
  for (size_t i = 0; i <= DeviceFeed::kMaxRemoved; ++i) {
    Set(absl::StrCat("d", i), 1);
  }
  const auto slow = std::make_shared<Watcher>(feed_, true);
  const auto quick = std::make_shared<Watcher>(feed_, true);
  for (const auto& watcher : {slow, quick}) {
    ASSERT_TRUE(feed_.Start(watcher).ok());
    watcher->Next();
  }
  {
    absl::MutexLock lock(&mu_);
    for (size_t i = 0; i < DeviceFeed::kMaxRemoved; ++i) {
      states_.erase(absl::StrCat("d", i));
    }
  }
  feed_.TouchAll();
  EXPECT_EQ(quick->Next()->removed_ids_size(),
            static_cast<int>(DeviceFeed::kMaxRemoved));
  Erase(absl::StrCat("d", DeviceFeed::kMaxRemoved));
  EXPECT_EQ(quick->Next()->removed_ids_size(), 1);
  const auto told = slow->Next();
  EXPECT_FALSE(told->is_change()) << "too far behind: all are told";
  EXPECT_EQ(told->devices_size(), 0);
}

TEST_F(DeviceFeedTest, ChangesOfOneAskForOneOnly) {
  for (int i = 0; i < 100; ++i) Set(absl::StrCat("d", i), 1);
  const auto watcher = std::make_shared<Watcher>(feed_, true);
  ASSERT_TRUE(feed_.Start(watcher).ok());
  watcher->Next();
  EXPECT_EQ(n_asked(), 100);
  Set("d7", 2);
  watcher->Next();
  EXPECT_EQ(n_asked(), 101);
}

TEST_F(DeviceFeedTest, TouchedOnesUpToTheLimitAndNotPastIt) {
  Set("other", 1);
  const auto watcher = std::make_shared<Watcher>(feed_, true);
  ASSERT_TRUE(feed_.Start(watcher).ok());
  watcher->Next();
  EXPECT_EQ(n_asked(), 1);
  {
    absl::MutexLock lock(&mu_);  // holds the feed up until all are touched
    for (size_t i = 0; i <= DeviceFeed::kMaxTouched; ++i) {
      DeviceState& state = states_[absl::StrCat("d", i)];
      state.profile = std::make_shared<v1::DeviceProfile>();
      feed_.Touch(absl::StrCat("d", i));
    }
  }
  int n_told = 0;
  while (n_told <= static_cast<int>(DeviceFeed::kMaxTouched)) {
    n_told += watcher->Next()->devices_size();
  }
  EXPECT_EQ(n_told, static_cast<int>(DeviceFeed::kMaxTouched) + 1);
}

TEST_F(DeviceFeedTest, WatchersUpToTheLimitAndNotPastIt) {
  std::vector<std::shared_ptr<Watcher>> watchers;
  for (size_t i = 0; i < DeviceFeed::kMaxListeners; ++i) {
    watchers.push_back(std::make_shared<Watcher>(feed_, false));
    ASSERT_TRUE(feed_.Start(watchers.back()).ok());
  }
  const auto one_more = std::make_shared<Watcher>(feed_, false);
  EXPECT_EQ(feed_.Start(one_more).code(), Code::kResourceExhausted);
  feed_.Stop(watchers[0]);
  EXPECT_TRUE(feed_.Start(one_more).ok());
}

TEST_F(DeviceFeedTest, AnEndIsToldAndNobodyComesAfterIt) {
  const auto watcher = std::make_shared<Watcher>(feed_, false);
  ASSERT_TRUE(feed_.Start(watcher).ok());
  feed_.End();
  EXPECT_EQ(DetailsOf(watcher->end()).reason, v1::ERROR_REASON_DRAINING);
  EXPECT_EQ(feed_.Start(watcher).code(), Code::kUnavailable);
}

}  // namespace
}  // namespace plimsoll::services
