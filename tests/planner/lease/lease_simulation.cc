#include "tests/planner/lease/lease_simulation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace plimsoll::planner {

// Names are made once: a history has a few hundred operations of some hundred
// nanoseconds each.
const std::string& LeaseSimulation::Name(char kind, int number) {
  static const auto* const names = [] {
    auto* table = new std::array<std::vector<std::string>, 4>;
    for (int i = 0; i < kNames; ++i) {
      size_t k = 0;
      for (const char* prefix : {"d", "l", "p", "r"}) {
        (*table)[k++].push_back(absl::StrCat(prefix, i));
      }
    }
    return table;
  }();
  const size_t k = kind == 'd' ? 0 : kind == 'l' ? 1 : kind == 'p' ? 2 : 3;
  return (*names)[k][static_cast<size_t>(number)];
}

absl::Status MemoryJournal::Write(const LeaseRecord& record,
                                  int64_t next_epoch) {
  const DiskWrite write = WriteTo(disk_);
  if (write.is_kept) {
    PutNoted();
    Put(record);
    image_.next_epoch = next_epoch;
    image_.is_partial = false;
  }
  return write.is_said ? absl::OkStatus()
                       : absl::UnavailableError("the disk fails");
}

void MemoryJournal::Flush() {
  if (WriteTo(disk_).is_kept) PutNoted();
}

void MemoryJournal::PutNoted() {
  for (const Lease& lease : noted_) Put({lease, ""});
  noted_.clear();
}

void MemoryJournal::Put(const LeaseRecord& record) {
  for (LeaseRecord& old : image_.records) {
    if (old.lease.id != record.lease.id) continue;
    // One that is there already keeps its request.
    if (old.lease.epoch != record.lease.epoch)
      old.request_id = record.request_id;
    old.lease = record.lease;
    return;
  }
  image_.records.push_back(record);
}

void MemoryJournal::Lose() {
  image_ = {};
  image_.is_partial = true;
}

const LeaseImage& MemoryJournal::Reopen() {
  noted_.clear();
  disk_ = Disk::kGood;
  return image_;
}

LeaseSimulation::LeaseSimulation(uint64_t seed, bool has_faults)
    : random_(seed * 0x9E3779B97F4A7C15u + 1), has_faults_(has_faults) {}

// The high bits of a linear congruential step, mixed: cheap and good enough.
int64_t LeaseSimulation::Below(int64_t n) {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  const uint64_t high = (random_ * 0x2545F4914F6CDD1Du) >> 33;
  return static_cast<int64_t>((high * static_cast<uint64_t>(n)) >> 31);
}

absl::Time LeaseSimulation::Now() const {
  return absl::UnixEpoch() + absl::Milliseconds(now_);
}

int64_t LeaseSimulation::FreeBytes(int device) const {
  const auto at = static_cast<size_t>(device);
  int64_t free = totals_[at] - strangers_[at];
  for (int i = 0; i < n_holdings_; ++i) {
    const Holding& h = holdings_[static_cast<size_t>(i)];
    if (h.device != device) continue;
    if (h.state != Holding::kGone) free -= h.written;
  }
  return std::max<int64_t>(free, 0);
}

void LeaseSimulation::Begin() {
  now_ = 0;
  max_epoch_ = 0;
  n_holdings_ = 0;
  n_processes_ = 0;
  network_.clear();
  dead_.clear();
  heard_.fill(-NaiveBook::kTtl);
  has_swap_ = OneIn(3);
  is_said_first_ = OneIn(2);
  strangers_.fill(0);
  totals_.fill(kTotal);
  is_resized_.fill(false);
  failed_under_.fill(kNobody);
  unwritten_ = kNobody;
  naive_ = NaiveBook();
  journal_ = MemoryJournal();
  book_ = std::make_unique<LeaseBook>(1, &journal_);
  for (Process& process : processes_) Start(process);
  for (int device = 0; device < kDevices; ++device) {
    ApplyRegister({kRegister, kNobody, device, 0, kTotal, 0});
  }
}

std::string LeaseSimulation::Run() {
  Begin();
  for (int i = 0; i < kOperations && failure_.empty(); ++i) Step();
  CheckLeases();
  if (has_faults_ && failure_.empty()) EndTrouble();
  return failure_;
}

void LeaseSimulation::Step() {
  switch (Below(8)) {
    case 0:
    case 1:
    case 2:  // the planner hears nothing of it yet
      return Work(processes_[static_cast<size_t>(Below(kProcesses))]);
    case 3:
    case 4:
    case 5:
      return Deliver();
    case 6:
      now_ += OneIn(24) ? 9'000 + Below(9'000) : Below(1'500);
      Tick();
      break;
    default:
      Trouble();
  }
  Check();
}

void LeaseSimulation::Tick() {
  book_->Expire(Now());
  naive_.Tick(now_);
}

void LeaseSimulation::Start(Process& process) {
  process = {.number = n_processes_++,
             .device = static_cast<int>(Below(kDevices)),
             .is_watched = OneIn(2)};
  is_watched_[static_cast<size_t>(process.number)] = process.is_watched;
}

void LeaseSimulation::Work(Process& process) {
  if (now_ < process.stopped_until) return;
  const auto start = static_cast<int>(Below(n_holdings_ + 4));
  for (int i = start; i < n_holdings_; ++i) {
    const Holding& h = holdings_[static_cast<size_t>(i)];
    const bool is_own =
        h.process == process.number && h.state != Holding::kGone;
    if (is_own) return WorkOn(process, i);
  }
  // A worker asks for nothing of a device that it has not registered.
  if (OneIn(4) || is_resized_[static_cast<size_t>(process.device)]) {
    Send(process, {kRegister, process.number, process.device, 0, 0, 0});
  } else {
    Ask(process);
  }
}

void LeaseSimulation::Ask(Process& process) {
  if (n_holdings_ == kMaxHoldings) return;
  Holding& h = holdings_[static_cast<size_t>(n_holdings_)];
  h = {.state = Holding::kAsked,
       .process = process.number,
       .device = process.device,
       .bytes = 1 + Below(500),
       .asked = now_};
  Send(process, {kReserve, n_holdings_++, process.device, 0, 0, 0});
}

void LeaseSimulation::WorkOn(Process& process, int index) {
  Holding& h = holdings_[static_cast<size_t>(index)];
  const auto send = [&](Kind kind) {
    Send(process, {kind, index, h.device, h.epoch, 0, 0});
  };
  if (h.state == Holding::kAsked) return send(kReserve);  // once more
  if (h.state == Holding::kLoading && now_ >= h.fence) {
    h.state = Holding::kGone;
    return send(kRelease);
  }
  if (h.state == Holding::kLoading) {
    if (OneIn(3)) return send(kRenew);
    if (!h.is_full && OneIn(4)) {  // a chunk
      h.written = std::max(h.written, Below(h.bytes));
      return;
    }
    if (!h.is_full) h.measured = h.bytes - Below(h.bytes / 8 + 1);
    h.is_full = true;
    h.written = h.measured;
    return send(kConfirm);
  }
  if (!OneIn(5)) return send(kPresent);
  h.state = Holding::kGone;
  send(kRelease);
}

void LeaseSimulation::Send(const Process& process, Message message) {
  if (process.is_partitioned || OneIn(16)) return;
  message.sent = now_;
  message.total = totals_[static_cast<size_t>(message.device)];
  const bool has_reading = message.kind != kReserve && message.kind != kRelease;
  if (has_reading) message.reading = FreeBytes(message.device);
  if (network_.size() < kMaxMessages) {
    network_.push_back(message);
  } else {
    network_[static_cast<size_t>(Below(kMaxMessages))] = message;
  }
}

void LeaseSimulation::Deliver() {
  if (network_.empty()) return;
  const auto at =
      static_cast<size_t>(Below(static_cast<int64_t>(network_.size())));
  const Message message = network_[at];
  const bool is_late = now_ - message.sent > kMaxMessageAge;
  if (is_late || !OneIn(8)) {  // else it comes once more
    network_[at] = network_.back();
    network_.pop_back();
  }
  if (is_late) return;
  if (message.kind >= kGranted) return Hear(message);
  Apply(message);
  Check();
}

void LeaseSimulation::Apply(const Message& message) {
  switch (message.kind) {
    case kReserve:
      return ApplyReserve(message);
    case kConfirm:
    case kRenew:
    case kPresent:
      return ApplyKeep(message);
    case kRelease:
      return ApplyRelease(message);
    default:
      return ApplyRegister(message);
  }
}

void LeaseSimulation::Answer(Message message, bool is_ok, Kind kind) {
  message.kind = is_ok ? kind : kRefused;
  if (OneIn(8)) return;  // lost
  if (OneIn(2)) return Hear(message);
  if (network_.size() < kMaxMessages) network_.push_back(message);
}

void LeaseSimulation::ApplyReserve(const Message& message) {
  Message reply = message;
  const int index = message.holding;
  const Holding& h = holdings_[static_cast<size_t>(index)];
  if (!Watch(h.process)) return;
  const auto lease = book_->Reserve({.request_id = Name('r', index),
                                     .lease_id = Name('l', index),
                                     .device_id = Name('d', h.device),
                                     .holder = Name('p', h.process),
                                     .purpose = "",
                                     .bytes = h.bytes,
                                     .process = Name('p', h.process)},
                                    Now());
  const int64_t before = naive_.next_epoch;
  const bool is_disk_good = naive_.disk == Disk::kGood;
  const int64_t epoch = naive_.Reserve({.request = index,
                                        .id = index,
                                        .process = h.process,
                                        .device = h.device,
                                        .bytes = h.bytes});
  if (lease.ok()) {
    Expect(lease->epoch == epoch, "Reserve: the epoch");
  } else {
    Expect(epoch == (absl::IsUnavailable(lease.status()) ? NaiveBook::kNotNow
                                                         : NaiveBook::kRefused),
           "Reserve: refused");
  }
  if (naive_.next_epoch > before && !lease.ok()) {
    ++n_unwritten;
    unwritten_ = index;
  } else if (naive_.next_epoch > before) {
    ++n_granted;
    Expect(is_disk_good, "a grant is not in the journal");
    Expect(failed_under_[static_cast<size_t>(h.device)] == kNobody,
           "bytes of a device that failed were granted");
    heard_[static_cast<size_t>(h.process)] = now_;
    Expect(epoch > max_epoch_, "an epoch came twice");
    max_epoch_ = epoch;
  }
  reply.epoch = epoch;
  Answer(reply, lease.ok(), kGranted);
}

bool LeaseSimulation::Keep(const Message& message) {
  const int index = message.holding;
  const Holding& h = holdings_[static_cast<size_t>(index)];
  const std::string& id = Name('l', index);
  const int64_t epoch = message.epoch;
  if (message.kind == kRenew) {
    const bool is_ok = naive_.Keep(index, epoch, -1);
    Expect(book_->Renew(id, epoch, Now()).ok() == is_ok, "Renew");
    return is_ok;
  }
  if (message.kind == kPresent) return Present(message);
  const bool is_ok = naive_.Keep(index, epoch, h.measured);
  Expect(book_->Confirm(id, epoch, h.measured, Now()).ok() == is_ok, "Confirm");
  return is_ok;
}

bool LeaseSimulation::Present(const Message& message) {
  const int index = message.holding;
  Holding& h = holdings_[static_cast<size_t>(index)];
  if (!Watch(h.process)) return false;
  const size_t before = naive_.entries.size();
  const NaiveBook::Entry* const known = naive_.Find(index);
  const NaiveBook::Device& device =
      naive_.devices[static_cast<size_t>(h.device)];
  const bool is_disk_good = naive_.disk == Disk::kGood;
  const bool fits =
      naive_.Held(h.device) + h.bytes <= device.total - kHeadroom &&
      message.epoch < naive_.next_epoch && is_disk_good;
  const bool is_taken_in = known == nullptr || known->read_gone;
  const bool is_owed = is_taken_in && (now_ < naive_.doors_open || fits) &&
                       h.bytes <= device.total && device.registered;
  const bool is_ok = naive_.Adopt(
      {index, h.process, h.device, -1, h.bytes, message.epoch, h.measured, 0});
  const auto lease = book_->Adopt({.id = Name('l', index),
                                   .device_id = Name('d', h.device),
                                   .holder = Name('p', h.process),
                                   .process = Name('p', h.process),
                                   .bytes = h.bytes,
                                   .measured_bytes = h.measured,
                                   .epoch = message.epoch},
                                  Now());
  Expect(lease.ok() == is_ok, "Adopt");
  Expect(is_ok || !is_owed, "a holder was refused what it is owed");
  if (naive_.entries.size() > before) ++n_adopted;
  const bool is_unwritten = is_taken_in && !is_disk_good;
  Expect(!is_ok || !is_unwritten || now_ < naive_.doors_open,
         "a lease that was taken in is not in the journal");
  if (is_ok) Count(h);
  return is_ok;
}

// The planner knows of it from now on. If it was not told in time and did not
// take it in for that, it fits beside all that has been granted since. While it
// recovers the planner takes in all that is in use, also what it granted twice
// because nobody told it; no more is granted until that is over.
void LeaseSimulation::Count(Holding& holding) {
  const bool was_in_use = IsInUse(holding);
  holding.forgotten_at = kNever;
  holding.is_misread = false;
  if (was_in_use || !IsInUse(holding)) return;
  ++n_returned;
  if (now_ >= naive_.doors_open) CheckInUse(holding.device);
}

void LeaseSimulation::ApplyKeep(const Message& message) {
  const bool is_ok = Keep(message);
  if (is_ok) {
    const Holding& h = holdings_[static_cast<size_t>(message.holding)];
    heard_[static_cast<size_t>(h.process)] = now_;
    Read(message, message.kind == kRenew ? -1 : message.holding);
  }
  Answer(message, is_ok, message.kind == kConfirm ? kConfirmed : kRenewed);
}

void LeaseSimulation::Read(const Message& message, int voucher) {
  const bool is_registered =
      naive_.devices[static_cast<size_t>(message.device)].registered;
  const std::string lease = voucher < 0 ? "" : Name('l', voucher);
  const absl::Status status =
      book_->ReadFree(Name('d', message.device), message.reading, lease, Now());
  Expect(status.ok() == is_registered, "ReadFree");
  const int64_t held = naive_.Held(message.device);
  if (is_registered) {
    naive_.ReadFree(message.device, message.reading, voucher);
  }
  if (naive_.Held(message.device) < held) ++n_proven;
  if (is_registered) CheckFreed();
  n_protected += naive_.n_protected;
  naive_.n_protected = 0;
  n_judged += naive_.n_judged;
  naive_.n_judged = 0;
}

void LeaseSimulation::ApplyRelease(const Message& message) {
  NaiveBook::Entry* const entry = naive_.Find(message.holding);
  const bool is_known = entry != nullptr && entry->epoch == message.epoch;
  if (is_known) naive_.End(*entry, /*shortfall=*/0);
  Expect(book_->Release(Name('l', message.holding), message.epoch).ok() ==
             is_known,
         "Release");
}

void LeaseSimulation::ApplyRegister(const Message& message) {
  const int device = message.device;
  const auto at = static_cast<size_t>(device);
  // Who says that the device failed makes nothing healthy by that.
  const int by = message.is_unhealthy ? kNobody : message.holding;
  Expect(book_
             ->RegisterDevice({.id = Name('d', device),
                               .total_bytes = message.total,
                               .headroom_bytes = kHeadroom,
                               .measured_free_bytes = message.reading,
                               .may_swap = has_swap_},
                              by == kNobody ? "" : Name('p', by))
             .ok(),
         "RegisterDevice");
  const int64_t held = naive_.Held(device);
  const bool holds_some =
      std::any_of(naive_.entries.begin(), naive_.entries.end(),
                  [&](const NaiveBook::Entry& e) {
                    return e.device == device && e.process == by && !e.released;
                  });
  naive_.Register(device, {.total = message.total,
                           .headroom = kHeadroom,
                           .reading = message.reading,
                           .registrant = by,
                           .may_swap = has_swap_});
  if (naive_.Held(device) < held) ++n_proven;
  CheckFreed();
  if (!message.is_unhealthy) {
    if (by != failed_under_[at] && !holds_some) failed_under_[at] = kNobody;
    if (message.total == totals_[at]) is_resized_[at] = false;
    return;
  }
  ++n_failed;
  failed_under_[at] = message.holding;
  Expect(
      book_->MarkUnhealthy(Name('d', device), Name('p', message.holding)).ok(),
      "MarkUnhealthy");
  naive_.devices[at].unhealthy = true;
  naive_.devices[at].unhealthy_by = message.holding;
}

// A reply comes to the process that asked, if it still lives and runs.
void LeaseSimulation::Hear(const Message& message) {
  Holding& h = holdings_[static_cast<size_t>(message.holding)];
  const auto process =
      std::find_if(processes_.begin(), processes_.end(),
                   [&](const Process& p) { return p.number == h.process; });
  if (process == processes_.end() || process->is_partitioned ||
      now_ < process->stopped_until) {
    return;
  }
  const auto give_up = [&] {
    h.state = Holding::kGone;
    Send(*process, {kRelease, message.holding, h.device, h.epoch, 0, 0});
  };
  if (message.kind == kGranted && h.state == Holding::kAsked) {
    h.epoch = message.epoch;
    h.forgotten_at = kNever;
    h.fence = h.asked + NaiveBook::kTtl - kFenceMargin;
    h.state = Holding::kLoading;
    // The worker measures again before it allocates.
    if (now_ >= h.fence || FreeBytes(h.device) < h.bytes) return give_up();
    CheckInUse(h.device);
  } else if (h.state == Holding::kLoading &&
             (now_ >= h.fence || message.kind == kRefused)) {
    give_up();
  } else if (message.kind == kRenewed && h.state == Holding::kLoading) {
    h.fence = std::max(h.fence, message.sent + NaiveBook::kTtl - kFenceMargin);
  } else if (message.kind == kConfirmed && h.state == Holding::kLoading) {
    h.state = Holding::kLoaded;
  }
}

// What the planner promises to nobody else. It cannot know of two holders:
// - one that a planner without its journal forgot, and that could tell no
//   planner of it until the recovery ended;
// - one that a reading ended (CheckFreed says when one may).
// Both go on using their memory, and count again once they are taken in.
bool LeaseSimulation::IsInUse(const Holding& holding) const {
  if (holding.state != Holding::kLoading && holding.state != Holding::kLoaded) {
    return false;
  }
  if (holding.forgotten_at != kNever &&
      now_ >= holding.forgotten_at + NaiveBook::kTtl) {
    return false;
  }
  if (holding.is_misread) return false;
  if (holding.state == Holding::kLoaded) return true;
  // Who was stopped goes on with what it was writing, before it looks at its
  // fence. Nobody can know that of a process that is not watched.
  return now_ < holding.fence || IsWatched(holding.process);
}

bool LeaseSimulation::HasSpoken(int process) const {
  return now_ < heard_[static_cast<size_t>(process)] + NaiveBook::kTtl;
}

// A reading is right but for what is swapped out, and even then it frees
// nothing of a process that the planner watches or heard of lately.
void LeaseSimulation::CheckFreed() {
  for (const int id : naive_.gone) {
    if (id >= n_holdings_) continue;
    Holding& h = holdings_[static_cast<size_t>(id)];
    if (!IsInUse(h)) continue;
    Expect(has_swap_ && !IsWatched(h.process) && !HasSpoken(h.process),
           "a reading freed what is in use");
    h.is_misread = true;
    ++n_misread;
  }
}

// To be called when more may be in use than before.
void LeaseSimulation::CheckInUse(int device) {
  int64_t in_use = 0;
  for (int i = 0; i < n_holdings_; ++i) {
    const Holding& h = holdings_[static_cast<size_t>(i)];
    if (h.device == device && IsInUse(h)) in_use += h.bytes;
  }
  Expect(in_use <= totals_[static_cast<size_t>(device)] - kHeadroom,
         "bytes were granted twice");
}

// To be called when the planner has been called.
void LeaseSimulation::Check() {
  for (int device = 0; device < kDevices; ++device) {
    if (!naive_.devices[static_cast<size_t>(device)].registered) continue;
    const NaiveBook::Sums sums = naive_.SumsOf(device);
    Expect(*book_->HeldBytes(Name('d', device)) == sums.held, "HeldBytes");
    Expect(*book_->AvailableBytes(Name('d', device)) ==
               naive_.Available(device, sums, /*has_purpose=*/false),
           "AvailableBytes");
    Expect(book_->IsHealthy(Name('d', device)) !=
               naive_.devices[static_cast<size_t>(device)].unhealthy,
           "IsHealthy");
  }
}

void LeaseSimulation::CheckLeases() {
  size_t n_live = 0;
  for (const NaiveBook::Entry& e : naive_.entries) n_live += !e.released;
  const std::vector<Lease> leases = book_->Leases();
  Expect(leases.size() == n_live, "Leases: how many");
  for (const Lease& lease : leases) {
    const auto found = std::find_if(
        naive_.entries.begin(), naive_.entries.end(),
        [&](const NaiveBook::Entry& e) { return Name('l', e.id) == lease.id; });
    if (found == naive_.entries.end()) return Expect(false, "Leases: which");
    Expect(!found->released && lease.epoch == found->epoch &&
               lease.bytes == found->bytes &&
               lease.was_confirmed == found->confirmed &&
               (lease.state == LeaseState::kSuspect) == found->suspect,
           "Leases: a state");
  }
}

}  // namespace plimsoll::planner
