// Scripts of calls on a lease book and on its naive model, which must agree
// after each: sensible calls and senseless ones, drawn by whoever chooses.
#ifndef PLIMSOLL_TESTS_PLANNER_LEASE_LEASE_SCRIPT_H_
#define PLIMSOLL_TESTS_PLANNER_LEASE_LEASE_SCRIPT_H_

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/lease/lease_book.h"
#include "tests/planner/lease/naive_lease_book.h"

namespace plimsoll::planner {

class LeaseScript {
 public:
  // `below(n)` chooses a number in [0, n).
  explicit LeaseScript(std::function<int64_t(int64_t)> below)
      : below_(std::move(below)) {
    naive_.nameless = kNameless;
  }

  // Makes one call. Returns what went wrong, or nothing.
  std::string Step() {
    now_ += Below(3) * 750;
    if (Below(40) == 0) now_ += 12'000;
    book_.Expire(Now());
    naive_.Tick(now_);
    switch (Below(12)) {
      case 0:
        Register();
        break;
      case 1:
        Read();
        break;
      case 2:
        if (Below(8) == 0) Trouble();
        if (Below(4) == 0) SetLive();
        if (Below(16) == 0) Unregister();
        break;
      case 3:
        Adopt();
        break;
      case 4:
      case 5:
      case 6:
      case 7:
        Reserve();
        break;
      case 8:
      case 9:
        Keep();
        break;
      default:
        Release();
    }
    Compare();
    return failure_;
  }

  int64_t n_granted = 0;

 private:
  // Few names, so that repeats and reuse are common.
  static constexpr int kIds = 12, kHolders = 3, kDevices = 3;
  static constexpr int kNameless = 0;  // the holder that names no process

  int64_t Below(int64_t n) { return below_(n); }
  int Choose(int n) { return static_cast<int>(Below(n)); }
  static std::string Name(char kind, int64_t i) {
    return i < 0 ? "" : absl::StrCat(std::string(1, kind), i);
  }
  static std::string ProcessOf(int holder) {
    return holder == kNameless ? "" : Name('h', holder);
  }
  absl::Time Now() const {
    return absl::UnixEpoch() + absl::Milliseconds(now_);
  }
  void Expect(bool condition, const char* what) {
    if (!condition && failure_.empty()) failure_ = what;
  }
  bool IsRegistered(int device) const {
    return naive_.devices[static_cast<size_t>(device)].registered;
  }
  // Mostly the right epoch of a lease.
  int64_t EpochOf(const NaiveBook::Entry* entry) {
    const int64_t epoch = entry == nullptr ? 1 + Below(20) : entry->epoch;
    return Below(10) == 0 ? epoch + Below(3) - 1 : epoch;
  }

  void Register() {
    const int device = Choose(kDevices);
    const int64_t total = 500 + Below(3) * 300;
    const int64_t headroom = Below(3) * 50;
    const int64_t reading = Below(2) == 0 ? -1 : Below(total + 1);
    const int registrant = Choose(kHolders + 2) - 1;
    const bool may_swap = Below(8) == 0;
    const int64_t limit =
        Below(3) == 0 ? Below(1'200) : int64_t{NaiveBook::kNoLimit};
    Expect(book_
               .RegisterDevice(
                   {.id = Name('d', device),
                    .total_bytes = total,
                    .headroom_bytes = headroom,
                    .measured_free_bytes =
                        reading < 0 ? std::nullopt : std::optional(reading),
                    .may_swap = may_swap,
                    .limit_bytes = limit},
                   Name('h', registrant))
               .ok(),
           "RegisterDevice");
    naive_.Register(device, {.total = total,
                             .headroom = headroom,
                             .reading = reading,
                             .registrant = registrant,
                             .may_swap = may_swap,
                             .limit = limit});
  }

  void Read() {
    const int device = Choose(kDevices);
    const int64_t reading = Below(1'300);
    const int voucher = Choose(kIds + 1) - 1;
    Expect(book_.ReadFree(Name('d', device), reading, Name('l', voucher), Now())
                   .ok() == IsRegistered(device),
           "ReadFree");
    if (IsRegistered(device)) naive_.ReadFree(device, reading, voucher);
  }

  void Trouble() {
    const int device = Choose(kDevices);
    if (Below(3) == 0) {
      book_.Recover(Now());
      naive_.doors_open = now_ + NaiveBook::kTtl;
      return;
    }
    const int holder = Choose(kHolders);
    Expect(book_.MarkUnhealthy(Name('d', device), Name('h', holder)).ok() ==
               IsRegistered(device),
           "MarkUnhealthy");
    if (!IsRegistered(device)) return;
    naive_.devices[static_cast<size_t>(device)].unhealthy = true;
    naive_.devices[static_cast<size_t>(device)].unhealthy_by = holder;
    Expect(!book_.IsHealthy(Name('d', device)), "IsHealthy");
  }

  void SetLive() {
    const int process = Choose(kHolders);
    const bool is_live = Below(2) == 0;
    Expect(book_.SetProcessLive(ProcessOf(process), is_live, Now()).ok() ==
               (process != kNameless),
           "SetProcessLive");
    if (process != kNameless) naive_.SetLive(process, is_live);
  }

  void Unregister() {
    const int device = Choose(kDevices);
    Expect(book_.UnregisterDevice(Name('d', device)).ok() ==
               naive_.Unregister(device),
           "UnregisterDevice");
    Expect(book_.IsRegistered(Name('d', device)) == IsRegistered(device),
           "IsRegistered");
  }

  void Adopt() {
    const int id = Choose(kIds);
    NaiveBook::Entry claim = {};
    claim.id = id;
    claim.process = Choose(kHolders);
    claim.device = Choose(kDevices);
    claim.bytes = 1 + Below(1'200);
    // Mostly what was granted under this id.
    const NaiveBook::Entry* const known = naive_.Find(id);
    if (known != nullptr && Below(4) > 0) {
      claim.process = known->process;
      claim.device = known->device;
      claim.bytes = known->bytes;
    }
    claim.measured = Below(claim.bytes + 1);
    claim.epoch = std::max<int64_t>(EpochOf(naive_.Find(id)), 1);
    claim.has_purpose = Below(2) == 0;
    if (Below(16) == 0) {  // one that nobody can have been granted
      claim.epoch = NaiveBook::kEpochsAhead + 2 + Below(2) * (int64_t{1} << 61);
    }
    const auto lease = book_.Adopt({.id = Name('l', id),
                                    .device_id = Name('d', claim.device),
                                    .holder = Name('h', claim.process),
                                    .purpose = claim.has_purpose ? "m" : "",
                                    .process = ProcessOf(claim.process),
                                    .bytes = claim.bytes,
                                    .measured_bytes = claim.measured,
                                    .epoch = claim.epoch},
                                   Now());
    Expect(lease.ok() == naive_.Adopt(claim), "Adopt");
  }

  void Reserve() {
    const int request = Choose(4'000);
    const int id = Choose(kIds);
    const int holder = Choose(kHolders);
    const int device = Choose(kDevices);
    const int64_t bytes = 1 + Below(400);
    const bool has_purpose = Below(2) == 0;
    const int64_t before = naive_.next_epoch;
    const auto lease = book_.Reserve({.request_id = Name('r', request),
                                      .lease_id = Name('l', id),
                                      .device_id = Name('d', device),
                                      .holder = Name('h', holder),
                                      .purpose = has_purpose ? "m" : "",
                                      .bytes = bytes,
                                      .process = ProcessOf(holder)},
                                     Now());
    const int64_t epoch = naive_.Reserve({.request = request,
                                          .id = id,
                                          .process = holder,
                                          .device = device,
                                          .bytes = bytes,
                                          .has_purpose = has_purpose});
    if (lease.ok()) {
      Expect(lease->epoch == epoch, "Reserve: the epoch");
    } else {
      Expect(epoch < 0 && absl::IsUnavailable(lease.status()) ==
                              (epoch == NaiveBook::kNotNow),
             "Reserve: refused");
    }
    if (naive_.next_epoch == before) return;
    ++n_granted;
    const NaiveBook::Device& d = naive_.devices[static_cast<size_t>(device)];
    Expect(naive_.Held(device) <= d.Size() - d.headroom,
           "more was granted than there is");
  }

  void Keep() {
    const int id = Choose(kIds);
    const NaiveBook::Entry* entry = naive_.Find(id);
    const int64_t epoch = EpochOf(entry);
    if (Below(2) == 0) {
      Expect(book_.Renew(Name('l', id), epoch, Now()).ok() ==
                 naive_.Keep(id, epoch, -1),
             "Renew");
      return;
    }
    const int64_t measured = entry == nullptr ? 0 : Below(entry->bytes + 2);
    Expect(book_.Confirm(Name('l', id), epoch, measured, Now()).ok() ==
               naive_.Keep(id, epoch, measured),
           "Confirm");
  }

  void Release() {
    if (Below(8) == 0) {
      const int process = Choose(kHolders);
      Expect(book_.ProcessDied(ProcessOf(process)) ==
                 (process == kNameless ? 0 : naive_.Die(process)),
             "ProcessDied");
      return;
    }
    const int id = Choose(kIds);
    NaiveBook::Entry* const entry = naive_.Find(id);
    const int64_t epoch = EpochOf(entry);
    const bool may = entry != nullptr && entry->epoch == epoch;
    const int64_t shortfall = std::max<int64_t>(Below(300) - 200, 0);
    Expect(book_.Release(Name('l', id), epoch, shortfall).ok() == may,
           "Release");
    if (may) naive_.End(*entry, shortfall);
  }

  void Compare() {
    for (int device = 0; device < kDevices; ++device) {
      if (!IsRegistered(device)) continue;
      Expect(*book_.HeldBytes(Name('d', device)) == naive_.Held(device),
             "HeldBytes");
      Expect(*book_.AvailableBytes(Name('d', device)) ==
                 naive_.Available(device, /*has_purpose=*/false),
             "AvailableBytes");
      Expect(*book_.AvailableBytes(Name('d', device), "m") ==
                 naive_.Available(device, /*has_purpose=*/true),
             "AvailableBytes: a purpose");
    }
    for (const Lease& lease : book_.Leases()) {
      int id = 0;
      while (Name('l', id) != lease.id) ++id;
      const NaiveBook::Entry* const e = naive_.Find(id);
      Expect(e != nullptr && !e->released && e->epoch == lease.epoch &&
                 e->confirmed == lease.was_confirmed &&
                 e->suspect == (lease.state == LeaseState::kSuspect),
             "Leases");
    }
    // The naive list only grows; ended leases of the past tell nothing more.
    if (naive_.entries.size() < 200) return;
    std::erase_if(naive_.entries, [this](const NaiveBook::Entry& e) {
      return e.released && naive_.Find(e.id)->epoch != e.epoch;
    });
  }

  const std::function<int64_t(int64_t)> below_;
  LeaseBook book_;
  NaiveBook naive_;
  int64_t now_ = 0;
  std::string failure_;
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_TESTS_PLANNER_LEASE_LEASE_SCRIPT_H_
