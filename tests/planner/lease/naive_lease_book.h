// What the lease book should do, said in the plainest way: a list of leases,
// and every number computed by walking it. Names are small numbers, times are
// milliseconds.
#ifndef PLIMSOLL_TESTS_PLANNER_LEASE_NAIVE_LEASE_BOOK_H_
#define PLIMSOLL_TESTS_PLANNER_LEASE_NAIVE_LEASE_BOOK_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace plimsoll::planner {

// How a disk takes what is written to it.
enum class Disk {
  kGood,
  kFull,    // it has nothing of what it refuses
  kLoses,   // the next write fails, and is not there at the next start
  kKeeps,   // the next write fails, and is there all the same
  kFailed,  // after either, it takes nothing until the next start
};
struct DiskWrite {
  bool is_said;  // the writer is told that it is on the disk
  bool is_kept;  // it is
};
inline DiskWrite WriteTo(Disk& disk) {
  const DiskWrite write = {
      .is_said = disk == Disk::kGood,
      .is_kept = disk == Disk::kGood || disk == Disk::kKeeps};
  if (disk == Disk::kLoses || disk == Disk::kKeeps) disk = Disk::kFailed;
  return write;
}

class NaiveBook {
 public:
  static constexpr int kDevices = 3;
  static constexpr int64_t kTtl = 10'000;
  static constexpr int64_t kGrace = 5'000;
  static constexpr int kProcesses = 256;
  static constexpr int64_t kEpochsAhead = int64_t{1} << 42;
  static constexpr int64_t kRefused = -1;  // a reply that is remembered
  static constexpr int64_t kNotNow = -2;   // one that is not
  static constexpr int64_t kNeverYet = int64_t{1} << 60;
  static constexpr int64_t kNotOnce = -kNeverYet;
  static constexpr int64_t kNoLimit = int64_t{1} << 60;

  struct Entry {
    int id, process, device, request;  // request: -1 = adopted
    int64_t bytes, epoch, measured, expires;
    bool released = false, confirmed = false, suspect = false;
    bool expired = false, in_reading = false, restored = false;
    bool has_purpose = false;
    bool read_gone = false;  // a reading ended it, and its holder did not
    // Allocated by then, and when its holder last said so.
    int64_t allocated = kNeverYet, vouched = kNotOnce;
    // What the journal has of it.
    bool is_kept = false, kept_released = false, kept_confirmed = false;
    int64_t kept_measured = 0;
  };
  struct Device {
    bool registered = false, unhealthy = false;
    int unhealthy_by = -1;
    int64_t total = 0, headroom = 0, reading = -1;  // reading: -1 = none
    int64_t limit = kNoLimit;
    int64_t margin = 0;  // margin of loads with a purpose
    bool may_swap = true;
    // A reading that holders may still speak about; kNeverYet: there is none.
    int64_t old_came = kNeverYet, old_used = 0;
    int64_t Size() const { return std::min(total, limit); }
  };
  struct Reply {
    int request;
    int64_t epoch;
  };

  std::vector<Entry> entries;
  std::array<Device, kDevices> devices;
  std::vector<Reply> replies;
  std::vector<int> gone;  // ids of those that the last reading ended
  std::array<bool, kProcesses> lives = {};  // is known to live
  // It spoke, or was seen, less than so long ago that no reading counts.
  std::array<int64_t, kProcesses> trusted_until = {};
  int64_t next_epoch = 1;
  int64_t first_epoch = 1;
  int64_t now = 0;
  int64_t doors_open = 0;
  bool is_partial = false;  // what the journal has
  int64_t kept_next_epoch = 1;
  Disk disk = Disk::kGood;
  // Leases that the journal has although a write of them failed.
  std::vector<Entry> ghosts;
  int nameless = -1;        // a holder of which no process is known
  int64_t n_protected = 0;  // leases that only a sign of life keeps
  int64_t n_judged = 0;     // leases that an old reading ended

  void Tick(int64_t time) {
    now = time;
    for (Entry& e : entries) {
      if (!e.released && now >= e.expires) e.suspect = e.expired = true;
    }
  }
  bool IsProvable(const Entry& e) const {
    return now >= e.expires + (e.confirmed ? 0 : kGrace);
  }
  bool Lives(const Entry& e) const {
    const auto process = static_cast<size_t>(e.process);
    return lives[process] || now < trusted_until[process];
  }
  void Trust(int process, int64_t time) {
    if (process == nameless) return;
    int64_t& until = trusted_until[static_cast<size_t>(process)];
    until = std::max(until, now + time);
  }
  void SetLive(int process, bool is_live) {
    bool& was = lives[static_cast<size_t>(process)];
    if (was && !is_live) Trust(process, kGrace);
    was = is_live;
  }
  struct Sums {
    int64_t held = 0;
    int64_t unread = 0;  // the part that the reading does not show
  };
  Sums SumsOf(int device) const {
    Sums sums;
    for (const Entry& e : entries) {
      if (e.device != device || e.released) continue;
      sums.held += e.bytes;
      if (!e.in_reading) sums.unread += e.bytes;
    }
    return sums;
  }
  int64_t Held(int device) const { return SumsOf(device).held; }
  int64_t Available(int device, bool has_purpose) const {
    return Available(device, SumsOf(device), has_purpose);
  }
  int64_t Available(int device, const Sums& sums, bool has_purpose) const {
    const Device& d = devices[static_cast<size_t>(device)];
    if (d.unhealthy) return 0;
    int64_t free = d.Size() - d.headroom - sums.held;
    if (d.reading >= 0) {
      const int64_t measured = std::max<int64_t>(d.reading - d.headroom, 0);
      free = std::min(free, measured - sums.unread);
    }
    if (has_purpose) free = std::max<int64_t>(free, 0) - d.margin;
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
    gone.clear();
    int64_t used = std::max<int64_t>(d.total - reading, 0);
    for (const Entry& e : entries) {
      const bool vouches = e.id == voucher && e.device == device &&
                           !e.released && !IsProvable(e);
      if (vouches) used -= e.measured;
    }
    for (Entry& e : entries) {
      if (e.device != device || e.released) continue;
      bool is_gone = !e.restored || used <= 0;
      if (e.confirmed) is_gone = e.measured > used;
      is_gone = is_gone && reading >= 0 && IsProvable(e);
      n_protected += is_gone && Lives(e);
      is_gone = is_gone && !Lives(e);
      e.released = e.read_gone = is_gone;
      e.in_reading = e.confirmed;
      if (is_gone) gone.push_back(e.id);
    }
  }
  void ReadFree(int device, int64_t reading, int voucher) {
    for (Entry& e : entries) {
      if (e.id == voucher && e.device == device && !e.released &&
          !IsProvable(e)) {
        e.vouched = now;
      }
    }
    Read(device, reading, voucher);
    Device& d = devices[static_cast<size_t>(device)];
    if (d.may_swap) {
      d.old_came = kNeverYet;
      return;
    }
    JudgeOld(device);
    if (d.old_came == kNeverYet || now >= d.old_came + kGrace + kTtl) {
      d.old_came = now;
      d.old_used = std::max<int64_t>(d.total - reading, 0);
    }
  }
  // What was certainly there at the old reading leaves too little of it for
  // those that are silent.
  void JudgeOld(int device) {
    const Device& d = devices[static_cast<size_t>(device)];
    const int64_t after = d.old_came + kGrace;
    if (now < after) return;
    const auto was_there = [&](const Entry& e) {
      return e.device == device && !e.released &&
             e.allocated + kGrace <= d.old_came;
    };
    int64_t left = d.old_used;
    for (const Entry& e : entries) {
      if (was_there(e) && e.vouched >= after) left -= e.measured;
    }
    for (Entry& e : entries) {
      if (!was_there(e) || e.vouched >= after) continue;
      if (!IsProvable(e) || e.measured <= left) continue;
      if (Lives(e)) {
        ++n_protected;
        continue;
      }
      e.released = e.read_gone = true;
      gone.push_back(e.id);
      ++n_judged;
    }
  }
  struct Registration {
    int64_t total = 0;
    int64_t headroom = 0;
    int64_t reading = -1;  // -1: none
    int registrant = -1;   // -1: nobody
    bool may_swap = true;
    int64_t limit = kNoLimit;
  };
  void Register(int device, const Registration& message) {
    const int registrant = message.registrant;
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
    d.may_swap = message.may_swap;
    d.total = message.total;
    d.limit = message.limit;
    d.headroom = message.headroom;
    Read(device, message.reading, -1);
  }
  bool Unregister(int device) {
    Device& d = devices[static_cast<size_t>(device)];
    if (!d.registered || Held(device) > 0) return false;
    if (!d.unhealthy) d = {};
    d.registered = false;
    d.margin = 0;
    return true;
  }
  struct Request {
    int request;
    int id;
    int process;
    int device;
    int64_t bytes;
    bool has_purpose = false;
  };
  int64_t Reserve(const Request& asked) {
    for (const Reply& reply : replies) {
      if (reply.request == asked.request) return reply.epoch;
    }
    const int64_t epoch = Grant(asked);
    if (epoch != kNotNow) replies.push_back({asked.request, epoch});
    return epoch;
  }
  // Renews; with measured >= 0, confirms.
  bool Keep(int id, int64_t epoch, int64_t measured) {
    Entry* e = Find(id);
    if (e == nullptr || e->epoch != epoch || e->released) return false;
    if ((e->expired && !e->confirmed) || measured > e->bytes) return false;
    if (measured >= 0) {
      int64_t& margin = devices[static_cast<size_t>(e->device)].margin;
      if (!e->confirmed && e->has_purpose) {
        margin = std::max<int64_t>(margin - std::max(margin / 8, kOne), 0);
      }
      if (!e->confirmed || e->measured != measured) e->allocated = now;
      e->confirmed = true;
      e->measured = measured;
    }
    e->suspect = e->expired = false;
    e->expires = std::max(e->expires, now + kTtl);
    Trust(e->process, kTtl);
    return true;
  }
  bool Adopt(const Entry& claim) {
    Entry* e = Find(claim.id);
    if (e != nullptr) {
      if (e->epoch != claim.epoch) return false;
      if (e->released && !e->read_gone) return false;
      if (e->device != claim.device || e->process != claim.process ||
          e->bytes != claim.bytes) {
        return false;
      }
      if (e->confirmed && !e->released) return Keep(claim.id, claim.epoch, -1);
      if (claim.measured > e->bytes) return false;
      if (!e->released) {
        e->expired = false;
        return Keep(claim.id, claim.epoch, claim.measured);
      }
    } else if (claim.epoch > first_epoch + kEpochsAhead) {
      return false;
    }
    const Device& d = devices[static_cast<size_t>(claim.device)];
    if (!d.registered || claim.bytes > d.total) return false;
    const bool fits =
        claim.bytes <= d.Size() - d.headroom - Held(claim.device) &&
        claim.epoch < next_epoch;
    const bool is_written = now >= doors_open;
    if (is_written && !fits) return false;
    if (is_written) {
      Entry kept = claim;
      kept.request = e == nullptr ? -1 : e->request;
      kept.confirmed = true;
      if (!Write(kept)) return false;
    }
    if (e == nullptr) {
      entries.push_back(claim);
      e = &entries.back();
      e->is_kept = false;
      e->request = -1;
    }
    e->released = e->read_gone = e->suspect = e->expired = false;
    e->in_reading = e->restored = false;
    e->confirmed = true;
    e->measured = claim.measured;
    e->allocated = now;
    e->vouched = kNotOnce;
    e->expires = now + kTtl;
    Trust(e->process, kTtl);
    next_epoch = std::max(next_epoch, claim.epoch + 1);
    if (is_written) Save(*e);
    return true;
  }
  // Called when the holder says, or its process's death proves, that the bytes
  // are free.
  void End(Entry& e, int64_t shortfall) {
    e.read_gone = false;
    if (e.released) return;
    e.released = true;
    Device& d = devices[static_cast<size_t>(e.device)];
    if (e.has_purpose && shortfall > 0) {
      d.margin =
          std::min(d.margin + std::min(shortfall, e.bytes), d.Size() / 4);
    }
    if (e.in_reading && d.reading >= 0) {
      d.reading =
          std::max(d.reading, std::min(d.reading + e.measured, d.total));
    }
  }
  // All leases of a process end. Returns their bytes.
  int64_t Die(int process) {
    int64_t freed = 0;
    for (Entry& e : entries) {
      if (e.process != process || e.released) continue;
      freed += e.bytes;
      End(e, /*shortfall=*/0);
    }
    SetLive(process, false);
    return freed;
  }
  // The journal now has everything, unless its disk fails.
  void Flush() {
    if (WriteTo(disk).is_kept) SaveAll();
  }
  // The planner ends and starts again with what its journal had, or with none,
  // and grants nothing for `recovery`.
  void Restart(bool has_journal, int64_t first, int64_t recovery) {
    devices.fill({});
    lives.fill(false);
    trusted_until.fill(0);
    replies.clear();
    disk = Disk::kGood;
    entries.insert(entries.end(), ghosts.begin(), ghosts.end());
    ghosts.clear();
    if (!has_journal) entries.clear();
    is_partial |= !has_journal;
    next_epoch = is_partial ? first : kept_next_epoch;
    first_epoch = next_epoch;
    doors_open = now + recovery;
    std::erase_if(entries, [](const Entry& e) { return !e.is_kept; });
    for (Entry& e : entries) {
      if (e.request >= 0) replies.push_back({e.request, e.epoch});
      e.released = e.kept_released;
      e.confirmed = e.kept_confirmed;
      e.measured = e.kept_measured;
      e.expires = now + kTtl;
      e.suspect = e.restored = true;
      e.expired = e.in_reading = e.read_gone = false;
      e.allocated = e.confirmed ? now : kNeverYet;
      e.vouched = kNotOnce;
      next_epoch = std::max(next_epoch, e.epoch + 1);
    }
  }

 private:
  static constexpr int64_t kOne = 1;

  static void Save(Entry& e) {
    e.is_kept = true;
    e.kept_released = e.released;
    e.kept_confirmed = e.confirmed;
    e.kept_measured = e.measured;
  }
  void SaveAll() {
    for (Entry& e : entries) Save(e);
  }
  // Whether the journal says that it has a new lease, and all of before.
  bool Write(Entry entry) {
    const DiskWrite write = WriteTo(disk);
    if (!write.is_kept) return false;
    SaveAll();
    is_partial = false;
    kept_next_epoch = next_epoch;
    if (write.is_said) return true;
    Save(entry);
    ghosts.push_back(entry);
    return false;
  }
  int64_t Grant(const Request& asked) {
    const Device& d = devices[static_cast<size_t>(asked.device)];
    if (!d.registered) return kRefused;
    if (now < doors_open || d.unhealthy) return kNotNow;
    const Entry* old = Find(asked.id);
    if (old != nullptr && !old->released) return kRefused;
    if (asked.bytes > Available(asked.device, asked.has_purpose)) {
      return kRefused;
    }
    Entry entry = {.id = asked.id,
                   .process = asked.process,
                   .device = asked.device,
                   .request = asked.request,
                   .bytes = asked.bytes,
                   .epoch = next_epoch++,
                   .measured = 0,
                   .expires = now + kTtl};
    entry.has_purpose = asked.has_purpose;
    if (!Write(entry)) return kNotNow;
    Save(entry);
    entries.push_back(entry);
    Trust(asked.process, kTtl);
    return entry.epoch;
  }
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_TESTS_PLANNER_LEASE_NAIVE_LEASE_BOOK_H_
