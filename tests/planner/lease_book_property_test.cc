// The book against a naive model written apart, over long random histories.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "planner/lease_book.h"

namespace plimsoll::planner {
namespace {

// What the book should do, said in the plainest way: a list of leases, and
// every number computed by walking it.
class NaiveBook {
 public:
  struct Entry {
    std::string id, holder;
    int device;
    int64_t bytes, measured, epoch;
    double expires;
    bool is_released = false, was_confirmed = false, is_suspect = false;
    bool in_reading = false;
  };
  struct Device {
    int64_t total, headroom, reading;  // reading: -1 = none
  };

  std::vector<Entry> entries;
  std::map<int, Device> devices;
  std::map<std::string, int64_t> replies;  // epoch, or -1 for a refusal
  int64_t next_epoch = 1;

  void Tick(double now) {
    for (Entry& e : entries) {
      if (!e.is_released && now >= e.expires) e.is_suspect = true;
    }
  }
  int64_t Held(int device) const {
    int64_t sum = 0;
    for (const Entry& e : entries) {
      if (e.device == device && !e.is_released) sum += e.bytes;
    }
    return sum;
  }
  int64_t Available(int device) const {
    const Device& d = devices.at(device);
    int64_t free = d.total - d.headroom - Held(device);
    if (d.reading >= 0) {
      int64_t measured = std::max<int64_t>(d.reading - d.headroom, 0);
      for (const Entry& e : entries) {
        if (e.device == device && !e.is_released && !e.in_reading) {
          measured -= e.bytes;
        }
      }
      free = std::min(free, measured);
    }
    return std::max<int64_t>(free, 0);
  }
  Entry* Find(const std::string& id) {
    for (size_t i = entries.size(); i > 0; --i) {
      if (entries[i - 1].id == id) return &entries[i - 1];
    }
    return nullptr;
  }
  void Register(int device, const Device& values) {
    devices[device] = values;
    for (Entry& e : entries) {
      if (e.device == device && !e.is_released) e.in_reading = e.was_confirmed;
    }
  }
  int64_t Reserve(const std::string& request, const std::string& id,
                  const std::string& holder, int device, int64_t bytes,
                  double now) {
    if (const auto it = replies.find(request); it != replies.end()) {
      return it->second;
    }
    int64_t& reply = replies[request];
    reply = -1;
    const Entry* old = Find(id);
    if (old != nullptr && !old->is_released) return -1;
    if (devices.count(device) == 0 || bytes > Available(device)) return -1;
    reply = next_epoch++;
    entries.push_back({id, holder, device, bytes, 0, reply, now + 10});
    return reply;
  }
  bool Keep(const std::string& id, int64_t epoch, double now) {
    Entry* e = Find(id);
    if (e == nullptr || e->epoch != epoch || e->is_released) return false;
    if (e->is_suspect && !e->was_confirmed) return false;
    e->is_suspect = false;
    e->expires = std::max(e->expires, now + 10);
    return true;
  }
  void End(Entry& e) {
    e.is_released = true;
    Device& d = devices.at(e.device);
    if (e.in_reading && d.reading >= 0) {
      d.reading =
          std::max(d.reading, std::min(d.reading + e.measured, d.total));
    }
  }
};

class LeaseBookProperty : public ::testing::TestWithParam<uint64_t> {
 protected:
  int64_t Below(int64_t n) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
  }
  static std::string Name(char kind, int64_t i) {
    return absl::StrCat(std::string(1, kind), i);
  }
  absl::Time Now() const { return absl::UnixEpoch() + absl::Seconds(now_); }

  void Step();
  void Register();
  void Reserve();
  void ConfirmOrRenew();
  void Release();
  void Compare();

  std::mt19937_64 random_{GetParam()};
  LeaseBook book_;
  NaiveBook naive_;
  double now_ = 0;
  int64_t n_granted_ = 0;
};

void LeaseBookProperty::Register() {
  const auto device = static_cast<int>(Below(3));
  const int64_t total = 500 + Below(3) * 300;
  const int64_t headroom = Below(3) * 50;
  const int64_t reading = Below(2) == 0 ? -1 : Below(total + 1);
  ASSERT_TRUE(
      book_
          .RegisterDevice({Name('d', device), total, headroom,
                           reading < 0 ? std::nullopt : std::optional(reading)})
          .ok());
  naive_.Register(device, {total, headroom, reading});
}

void LeaseBookProperty::Reserve() {
  // Few names, so that repeats and reuse are common.
  const std::string request = Name('r', Below(4'000));
  const std::string id = Name('l', Below(12));
  const std::string holder = Name('h', Below(3));
  const auto device = static_cast<int>(Below(4));
  const int64_t bytes = 1 + Below(400);
  const bool is_repeat = naive_.replies.count(request) > 0;
  const auto lease =
      book_.Reserve({request, id, Name('d', device), holder, "", bytes}, Now());
  const int64_t epoch =
      naive_.Reserve(request, id, holder, device, bytes, now_);
  ASSERT_EQ(lease.ok() ? lease->epoch : -1, epoch);
  if (!lease.ok() || is_repeat) return;
  ++n_granted_;
  const NaiveBook::Device& d = naive_.devices.at(device);
  ASSERT_LE(naive_.Held(device), d.total - d.headroom);
}

void LeaseBookProperty::ConfirmOrRenew() {
  const std::string id = Name('l', Below(12));
  NaiveBook::Entry* entry = naive_.Find(id);
  int64_t epoch = entry == nullptr ? 1 : entry->epoch;
  if (Below(10) == 0) epoch -= 1;
  if (Below(2) == 0) {
    ASSERT_EQ(book_.Renew(id, epoch, Now()).ok(), naive_.Keep(id, epoch, now_));
    return;
  }
  const int64_t measured = entry == nullptr ? 0 : Below(entry->bytes + 1);
  const bool may = naive_.Keep(id, epoch, now_);
  if (may) {
    entry->was_confirmed = true;
    entry->measured = measured;
  }
  ASSERT_EQ(book_.Confirm(id, epoch, measured, Now()).ok(), may);
}

void LeaseBookProperty::Release() {
  if (Below(8) == 0) {
    const std::string holder = Name('h', Below(3));
    int64_t freed = 0;
    for (NaiveBook::Entry& e : naive_.entries) {
      if (e.holder != holder || e.is_released) continue;
      freed += e.bytes;
      naive_.End(e);
    }
    ASSERT_EQ(book_.HolderDied(holder), freed);
    return;
  }
  const std::string id = Name('l', Below(12));
  NaiveBook::Entry* entry = naive_.Find(id);
  int64_t epoch = entry == nullptr ? 1 : entry->epoch;
  if (Below(10) == 0) epoch += 1;
  const bool may = entry != nullptr && entry->epoch == epoch;
  ASSERT_EQ(book_.Release(id, epoch).ok(), may);
  if (may && !entry->is_released) naive_.End(*entry);
}

void LeaseBookProperty::Compare() {
  for (const auto& [device, values] : naive_.devices) {
    ASSERT_EQ(*book_.HeldBytes(Name('d', device)), naive_.Held(device));
    ASSERT_EQ(*book_.AvailableBytes(Name('d', device)),
              naive_.Available(device));
  }
  for (const Lease& lease : book_.Leases()) {
    const NaiveBook::Entry* e = naive_.Find(lease.id);
    ASSERT_NE(e, nullptr);
    ASSERT_EQ(lease.epoch, e->epoch);
    ASSERT_EQ(lease.state == LeaseState::kSuspect, e->is_suspect);
    ASSERT_EQ(lease.was_confirmed, e->was_confirmed);
  }
  // The naive list only grows; ended leases of the past tell nothing more.
  if (naive_.entries.size() < 200) return;
  std::map<std::string, int64_t> newest;
  for (const auto& e : naive_.entries) newest[e.id] = e.epoch;
  std::erase_if(naive_.entries, [&](const NaiveBook::Entry& e) {
    return e.is_released && newest[e.id] != e.epoch;
  });
}

void LeaseBookProperty::Step() {
  now_ += static_cast<double>(Below(3)) * 0.75;
  if (Below(40) == 0) now_ += 12;
  book_.Expire(Now());
  naive_.Tick(now_);
  switch (Below(8)) {
    case 0:
      if (Below(4) == 0) Register();
      break;
    case 1:
    case 2:
    case 3:
      Reserve();
      break;
    case 4:
    case 5:
      ConfirmOrRenew();
      break;
    default:
      Release();
  }
}

TEST_P(LeaseBookProperty, BehavesLikeTheNaiveModel) {
  Register();
  for (int i = 0; i < 5'000; ++i) {
    ASSERT_NO_FATAL_FAILURE(Step()) << "step " << i;
    ASSERT_NO_FATAL_FAILURE(Compare()) << "step " << i;
  }
  EXPECT_GT(n_granted_, 100);
}

INSTANTIATE_TEST_SUITE_P(Seeds, LeaseBookProperty,
                         ::testing::Range<uint64_t>(1, 31));

}  // namespace
}  // namespace plimsoll::planner
