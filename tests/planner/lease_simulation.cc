#include "tests/planner/lease_simulation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace plimsoll::planner {
namespace {

constexpr int kNames = 256;

// Names are made once: a history has a few hundred operations of some hundred
// nanoseconds each.
const std::string& Name(char kind, int number) {
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

}  // namespace

absl::Status MemoryJournal::Write(const LeaseRecord& record,
                                  int64_t next_epoch) {
  Flush();
  image_.records.push_back(record);
  image_.next_epoch = next_epoch;
  image_.is_partial = false;
  return absl::OkStatus();
}

void MemoryJournal::Flush() {
  for (const Lease& lease : noted_) {
    const auto found = std::find_if(
        image_.records.begin(), image_.records.end(),
        [&](const LeaseRecord& record) { return record.lease.id == lease.id; });
    if (found != image_.records.end()) {
      found->lease = lease;
    } else {
      image_.records.push_back({lease, ""});
    }
  }
  noted_.clear();
}

void MemoryJournal::Lose() {
  image_ = {};
  image_.is_partial = true;
}

const LeaseImage& MemoryJournal::Reopen() {
  noted_.clear();
  return image_;
}

LeaseSimulation::LeaseSimulation(uint64_t seed)
    : random_(seed * 0x9E3779B97F4A7C15u + 1) {}

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
  int64_t free = kTotal - strangers_[static_cast<size_t>(device)];
  for (int i = 0; i < n_holdings_; ++i) {
    const Holding& h = holdings_[static_cast<size_t>(i)];
    if (h.device != device) continue;
    if (h.state == Holding::kLoaded || h.is_full) {
      free -= h.measured;
    } else if (h.state == Holding::kLoading) {
      free -= h.bytes / 2;
    }
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
  strangers_.fill(0);
  naive_ = NaiveBook();
  journal_ = MemoryJournal();
  book_ = std::make_unique<LeaseBook>(1, &journal_);
  for (Process& process : processes_) Start(process);
  for (int device = 0; device < kDevices; ++device) {
    ApplyRegister({kRegister, 0, device, 0, kTotal, 0});
  }
}

std::string LeaseSimulation::Run() {
  Begin();
  for (int i = 0; i < kOperations && failure_.empty(); ++i) {
    Step();
    Check();
  }
  CheckLeases();
  return failure_;
}

void LeaseSimulation::Step() {
  switch (Below(8)) {
    case 0:
    case 1:
    case 2:
      return Work(processes_[static_cast<size_t>(Below(kProcesses))]);
    case 3:
    case 4:
    case 5:
      return Deliver();
    case 6:
      now_ += OneIn(24) ? 9'000 + Below(9'000) : Below(1'500);
      return Tick();
    default:
      return Trouble();
  }
}

void LeaseSimulation::Tick() {
  book_->Expire(Now());
  naive_.Tick(now_);
}

void LeaseSimulation::Start(Process& process) {
  process = {.number = n_processes_++,
             .device = static_cast<int>(Below(kDevices))};
}

void LeaseSimulation::Trouble() {
  Process& process = processes_[static_cast<size_t>(Below(kProcesses))];
  switch (Below(8)) {
    case 0:  // a crash; a new process takes its place
      if (n_processes_ >= kNames) return;
      for (int i = 0; i < n_holdings_; ++i) {
        Holding& h = holdings_[static_cast<size_t>(i)];
        if (h.process != process.number) continue;
        h.state = Holding::kGone;
        h.is_full = false;
      }
      dead_.push_back(process.number);
      return Start(process);
    case 1:
    case 2:  // a death is proven, maybe not for the first time
      if (!dead_.empty()) {
        Bury(dead_[static_cast<size_t>(
            Below(static_cast<int64_t>(dead_.size())))]);
      }
      return;
    case 3:
      process.stopped_until = now_ + 1'000 + Below(20'000);
      return;
    case 4:
      process.is_partitioned = !process.is_partitioned;
      return;
    case 5:
      strangers_[static_cast<size_t>(process.device)] = Below(kTotal / 3);
      return;
    case 6:
      journal_.Flush();
      return naive_.Flush();
    default:
      if (OneIn(3)) RestartPlanner();
  }
}

void LeaseSimulation::Bury(int number) {
  int64_t freed = 0;
  for (NaiveBook::Entry& e : naive_.entries) {
    if (e.process != number || e.released) continue;
    freed += e.bytes;
    naive_.End(e);
  }
  Expect(book_->ProcessDied(Name('p', number)) == freed, "ProcessDied");
}

void LeaseSimulation::RestartPlanner() {
  ++n_restarts;
  const bool has_journal = !OneIn(4);
  const int64_t first_epoch = max_epoch_ + 1'000;
  if (!has_journal) {
    journal_.Lose();
    for (Holding& h : holdings_) h.is_forgotten = true;
  }
  const LeaseImage& image = journal_.Reopen();
  book_ = std::make_unique<LeaseBook>(image.is_partial ? first_epoch : 1,
                                      &journal_);
  Expect(book_->Restore(image, Now()).ok(), "Restore");
  naive_.Restart(has_journal, first_epoch);
  // Connections end with the process, and what was on its way with them.
  network_.clear();
  for (const Process& process : processes_) {
    Send(process, {kRegister, 0, process.device, 0, 0, 0});
  }
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
  if (OneIn(4)) {
    Send(process, {kRegister, 0, process.device, 0, 0, 0});
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
    h.is_full = false;
    return send(kRelease);
  }
  if (h.state == Holding::kLoading) {
    if (OneIn(3)) return send(kRenew);
    if (!h.is_full) h.measured = h.bytes - Below(h.bytes / 8 + 1);
    h.is_full = true;
    return send(kConfirm);
  }
  if (!OneIn(5)) return send(kPresent);
  h.state = Holding::kGone;
  h.is_full = false;
  send(kRelease);
}

void LeaseSimulation::Send(const Process& process, Message message) {
  message.sent = now_;
  message.reading = FreeBytes(message.device);
  if (process.is_partitioned || OneIn(16)) return;
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
  Apply(message);
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
    case kRegister:
      return ApplyRegister(message);
    default:
      return Hear(message);
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
  const auto lease = book_->Reserve({.request_id = Name('r', index),
                                     .lease_id = Name('l', index),
                                     .device_id = Name('d', h.device),
                                     .holder = Name('p', h.process),
                                     .purpose = "",
                                     .bytes = h.bytes,
                                     .process = Name('p', h.process)},
                                    Now());
  const int64_t before = naive_.next_epoch;
  const int64_t epoch =
      naive_.Reserve(index, index, h.process, h.device, h.bytes);
  if (lease.ok()) {
    Expect(lease->epoch == epoch, "Reserve: the epoch");
  } else {
    Expect(epoch == (absl::IsUnavailable(lease.status()) ? NaiveBook::kNotNow
                                                         : NaiveBook::kRefused),
           "Reserve: refused");
  }
  if (naive_.next_epoch > before) {
    ++n_granted;
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
  if (message.kind == kPresent) {
    const size_t before = naive_.entries.size();
    const bool is_ok = naive_.Adopt(
        {index, h.process, h.device, -1, h.bytes, epoch, h.measured, 0});
    const auto lease = book_->Adopt({.id = id,
                                     .device_id = Name('d', h.device),
                                     .holder = Name('p', h.process),
                                     .process = Name('p', h.process),
                                     .bytes = h.bytes,
                                     .measured_bytes = h.measured,
                                     .epoch = epoch},
                                    Now());
    Expect(lease.ok() == is_ok, "Adopt");
    if (naive_.entries.size() > before) ++n_adopted;
    return is_ok;
  }
  const bool is_ok = naive_.Keep(index, epoch, h.measured);
  Expect(book_->Confirm(id, epoch, h.measured, Now()).ok() == is_ok, "Confirm");
  return is_ok;
}

void LeaseSimulation::ApplyKeep(const Message& message) {
  const bool is_ok = Keep(message);
  if (is_ok) Read(message, message.kind == kRenew ? -1 : message.holding);
  if (is_ok && message.kind == kPresent) {
    holdings_[static_cast<size_t>(message.holding)].is_forgotten = false;
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
  if (is_registered) naive_.Read(message.device, message.reading, voucher);
  if (naive_.Held(message.device) < held) ++n_proven;
}

void LeaseSimulation::ApplyRelease(const Message& message) {
  NaiveBook::Entry* const entry = naive_.Find(message.holding);
  const bool is_known = entry != nullptr && entry->epoch == message.epoch;
  if (is_known && !entry->released) naive_.End(*entry);
  Expect(book_->Release(Name('l', message.holding), message.epoch).ok() ==
             is_known,
         "Release");
}

void LeaseSimulation::ApplyRegister(const Message& message) {
  Expect(book_
             ->RegisterDevice({.id = Name('d', message.device),
                               .total_bytes = kTotal,
                               .headroom_bytes = kHeadroom,
                               .measured_free_bytes = message.reading})
             .ok(),
         "RegisterDevice");
  const int64_t held = naive_.Held(message.device);
  naive_.Register(message.device, kTotal, kHeadroom, message.reading, -1);
  if (naive_.Held(message.device) < held) ++n_proven;
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
    h.is_full = false;
    Send(*process, {kRelease, message.holding, h.device, h.epoch, 0, 0});
  };
  if (message.kind == kGranted && h.state == Holding::kAsked) {
    h.epoch = message.epoch;
    h.fence = h.asked + NaiveBook::kTtl - kFenceMargin;
    h.state = Holding::kLoading;
    // The worker measures again before it allocates.
    if (now_ >= h.fence || FreeBytes(h.device) < h.bytes) give_up();
  } else if (h.state == Holding::kLoading && now_ >= h.fence) {
    give_up();
  } else if (message.kind == kRenewed && h.state == Holding::kLoading) {
    h.fence = std::max(h.fence, message.sent + NaiveBook::kTtl - kFenceMargin);
  } else if (message.kind == kConfirmed && h.is_full) {
    h.state = Holding::kLoaded;
  } else if (message.kind == kRefused && h.state == Holding::kLoading) {
    give_up();
  }
}

void LeaseSimulation::Check() {
  std::array<int64_t, kDevices> in_use = {};
  for (int i = 0; i < n_holdings_; ++i) {
    const Holding& h = holdings_[static_cast<size_t>(i)];
    const bool counts =
        !h.is_forgotten && (h.state == Holding::kLoaded ||
                            (h.state == Holding::kLoading && now_ < h.fence));
    if (counts) in_use[static_cast<size_t>(h.device)] += h.bytes;
  }
  for (int device = 0; device < kDevices; ++device) {
    Expect(in_use[static_cast<size_t>(device)] <= kTotal - kHeadroom,
           "bytes were granted twice");
    if (!naive_.devices[static_cast<size_t>(device)].registered) continue;
    const int64_t held = naive_.Held(device);
    Expect(*book_->HeldBytes(Name('d', device)) == held, "HeldBytes");
    Expect(
        *book_->AvailableBytes(Name('d', device)) == naive_.Available(device),
        "AvailableBytes");
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
