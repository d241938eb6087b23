// What the lease book should do, said in the plainest way: a list of leases,
// and every number computed by walking it. Names are small numbers, times are
// milliseconds.
#ifndef PLIMSOLL_TESTS_PLANNER_NAIVE_LEASE_BOOK_H_
#define PLIMSOLL_TESTS_PLANNER_NAIVE_LEASE_BOOK_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace plimsoll::planner {

class NaiveBook {
 public:
  static constexpr int kDevices = 3;
  static constexpr int64_t kTtl = 10'000;
  static constexpr int64_t kGrace = 5'000;
  static constexpr int64_t kRefused = -1;  // a reply that is remembered
  static constexpr int64_t kNotNow = -2;   // one that is not

  struct Entry {
    int id, process, device, request;  // request: -1 = adopted
    int64_t bytes, epoch, measured, expires;
    bool released = false, confirmed = false, suspect = false;
    bool expired = false, in_reading = false, restored = false;
    // What the journal has of it.
    bool is_kept = false, kept_released = false, kept_confirmed = false;
    int64_t kept_measured = 0;
  };
  struct Device {
    bool registered = false, unhealthy = false;
    int unhealthy_by = -1;
    int64_t total = 0, headroom = 0, reading = -1;  // reading: -1 = none
  };
  struct Reply {
    int request;
    int64_t epoch;
  };

  std::vector<Entry> entries;
  std::array<Device, kDevices> devices;
  std::vector<Reply> replies;
  int64_t next_epoch = 1;
  int64_t now = 0;
  int64_t doors_open = 0;
  bool is_partial = false;  // what the journal has

  void Tick(int64_t time) {
    now = time;
    for (Entry& e : entries) {
      if (!e.released && now >= e.expires) e.suspect = e.expired = true;
    }
  }
  bool IsProvable(const Entry& e) const {
    return now >= e.expires + (e.confirmed ? 0 : kGrace);
  }
  int64_t Held(int device) const {
    int64_t sum = 0;
    for (const Entry& e : entries) {
      if (e.device == device && !e.released) sum += e.bytes;
    }
    return sum;
  }
  int64_t Available(int device) const {
    const Device& d = devices[static_cast<size_t>(device)];
    if (d.unhealthy) return 0;
    int64_t free = d.total - d.headroom - Held(device);
    if (d.reading >= 0) {
      int64_t measured = std::max<int64_t>(d.reading - d.headroom, 0);
      for (const Entry& e : entries) {
        const bool counts = e.device == device && !e.released && !e.in_reading;
        if (counts) measured -= e.bytes;
      }
      free = std::min(free, measured);
    }
    return std::max<int64_t>(free, 0);
  }
  // The newest with this id, or null.
  Entry* Find(int id) {
    for (size_t i = entries.size(); i > 0; --i) {
      if (entries[i - 1].id == id) return &entries[i - 1];
    }
    return nullptr;
  }
  void Read(int device, int64_t reading, int voucher) {
    Device& d = devices[static_cast<size_t>(device)];
    d.reading = reading;
    int64_t used = std::max<int64_t>(d.total - reading, 0);
    for (const Entry& e : entries) {
      const bool vouches = e.id == voucher && e.device == device &&
                           !e.released && !IsProvable(e);
      if (vouches) used -= e.measured;
    }
    for (Entry& e : entries) {
      if (e.device != device || e.released) continue;
      bool gone = !e.restored || used <= 0;
      if (e.confirmed) gone = e.measured > used;
      gone = gone && reading >= 0 && IsProvable(e);
      e.released = gone;
      e.in_reading = e.confirmed;
    }
  }
  // registrant: -1 = nobody.
  void Register(int device, int64_t total, int64_t headroom, int64_t reading,
                int registrant) {
    Device& d = devices[static_cast<size_t>(device)];
    bool holds_some = false;
    for (const Entry& e : entries) {
      holds_some |=
          e.device == device && !e.released && e.process == registrant;
    }
    if (registrant >= 0 && !holds_some && registrant != d.unhealthy_by) {
      d.unhealthy = false;
    }
    d.registered = true;
    d.total = total;
    d.headroom = headroom;
    Read(device, reading, -1);
  }
  int64_t Reserve(int request, int id, int process, int device, int64_t bytes) {
    for (const Reply& reply : replies) {
      if (reply.request == request) return reply.epoch;
    }
    const int64_t epoch = Grant(request, id, process, device, bytes);
    if (epoch != kNotNow) replies.push_back({request, epoch});
    return epoch;
  }
  // Renews; with measured >= 0, confirms.
  bool Keep(int id, int64_t epoch, int64_t measured) {
    Entry* e = Find(id);
    if (e == nullptr || e->epoch != epoch || e->released) return false;
    if ((e->expired && !e->confirmed) || measured > e->bytes) return false;
    if (measured >= 0) {
      e->confirmed = true;
      e->measured = measured;
    }
    e->suspect = e->expired = false;
    e->expires = std::max(e->expires, now + kTtl);
    return true;
  }
  bool Adopt(const Entry& claim) {
    if (Entry* e = Find(claim.id); e != nullptr) {
      if (e->epoch != claim.epoch || e->released) return false;
      if (e->confirmed) return Keep(claim.id, claim.epoch, -1);
      if (claim.measured > e->bytes) return false;
      e->expired = false;
      return Keep(claim.id, claim.epoch, claim.measured);
    }
    const Device& d = devices[static_cast<size_t>(claim.device)];
    if (!d.registered || claim.bytes > d.total) return false;
    const bool fits =
        claim.bytes <= d.total - d.headroom - Held(claim.device) &&
        claim.epoch < next_epoch;
    if (now >= doors_open && !fits) return false;
    const bool is_written = now >= doors_open;
    entries.push_back(claim);
    Entry& e = entries.back();
    e.released = e.suspect = e.expired = e.in_reading = e.restored = false;
    e.confirmed = true;
    e.is_kept = false;
    e.request = -1;
    e.expires = now + kTtl;
    next_epoch = std::max(next_epoch, claim.epoch + 1);
    if (is_written) Write();
    return true;
  }
  // Its holder says, or its process's death proves, that the bytes are free.
  void End(Entry& e) {
    e.released = true;
    Device& d = devices[static_cast<size_t>(e.device)];
    if (e.in_reading && d.reading >= 0) {
      d.reading =
          std::max(d.reading, std::min(d.reading + e.measured, d.total));
    }
  }
  // The journal now has everything.
  void Flush() {
    for (Entry& e : entries) {
      e.is_kept = true;
      e.kept_released = e.released;
      e.kept_confirmed = e.confirmed;
      e.kept_measured = e.measured;
    }
  }
  void Write() {
    Flush();
    is_partial = false;
  }
  // The planner ends and starts again with what its journal had, or with none.
  void Restart(bool has_journal, int64_t first_epoch) {
    devices.fill({});
    replies.clear();
    if (!has_journal) entries.clear();
    is_partial |= !has_journal;
    if (is_partial) {
      next_epoch = first_epoch;
      doors_open = now + kTtl;
    }
    std::erase_if(entries, [](const Entry& e) { return !e.is_kept; });
    for (Entry& e : entries) {
      if (e.request >= 0) replies.push_back({e.request, e.epoch});
      e.released = e.kept_released;
      e.confirmed = e.kept_confirmed;
      e.measured = e.kept_measured;
      e.expires = now + kTtl;
      e.suspect = e.restored = true;
      e.expired = e.in_reading = false;
    }
  }

 private:
  int64_t Grant(int request, int id, int process, int device, int64_t bytes) {
    const Device& d = devices[static_cast<size_t>(device)];
    if (!d.registered) return kRefused;
    if (now < doors_open || d.unhealthy) return kNotNow;
    const Entry* old = Find(id);
    if (old != nullptr && !old->released) return kRefused;
    if (bytes > Available(device)) return kRefused;
    entries.push_back(
        {id, process, device, request, bytes, next_epoch, 0, now + kTtl});
    Write();
    return next_epoch++;
  }
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_TESTS_PLANNER_NAIVE_LEASE_BOOK_H_
