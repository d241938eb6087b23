// What goes wrong in a simulated history: crashes, pauses, swapped memory,
// garbage that is presented, starts with and without files, and disks and
// devices that fail.
#include <algorithm>

#include "tests/planner/lease/lease_simulation.h"

namespace plimsoll::planner {

void LeaseSimulation::Trouble() {
  if (has_faults_ && OneIn(4)) return Fault();
  switch (Below(8)) {
    case 0:
    case 1:  // a death is seen, maybe not for the first time
      if (!dead_.empty()) {
        Bury(dead_[static_cast<size_t>(
            Below(static_cast<int64_t>(dead_.size())))]);
      }
      return;
    case 2:
      journal_.Flush();
      return naive_.Flush();
    case 3:
      return OneIn(3) ? RestartPlanner() : PresentGarbage();
    default:
      return TroubleFor(processes_[static_cast<size_t>(Below(kProcesses))]);
  }
}

void LeaseSimulation::TroubleFor(Process& process) {
  switch (Below(7)) {
    case 0:
    case 1:
      return Crash(process);
    case 2:
      process.stopped_until = now_ + 1'000 + Below(20'000);
      return;
    case 3:
      process.is_partitioned = !process.is_partitioned;
      return;
    case 4:
      strangers_[static_cast<size_t>(process.device)] = Below(kTotal / 3);
      return;
    case 5:
      return SwapOut(process);
    default:
      if (OneIn(4)) LoseSight(process);
  }
}

// A new process takes its place.
void LeaseSimulation::Crash(Process& process) {
  if (n_processes_ >= kStranger) return;
  for (int i = 0; i < n_holdings_; ++i) {
    Holding& h = holdings_[static_cast<size_t>(i)];
    if (h.process == process.number) h.state = Holding::kGone;
  }
  if (IsWatched(process.number)) dead_.push_back(process.number);
  Start(process);
}

// Readings do not show what of a process is swapped out.
void LeaseSimulation::SwapOut(const Process& process) {
  if (!has_swap_) return;
  for (int i = 0; i < n_holdings_; ++i) {
    Holding& h = holdings_[static_cast<size_t>(i)];
    if (h.process == process.number) h.written = Below(h.written + 1);
  }
}

void LeaseSimulation::Fault() {
  switch (Below(4)) {
    case 0:
    case 1:
      return ChangeDisk();
    case 2:
      return FailDevice(processes_[static_cast<size_t>(Below(kProcesses))]);
    default:
      return ResizeDevice(static_cast<int>(Below(kDevices)));
  }
}

void LeaseSimulation::ChangeDisk() {
  if (naive_.disk == Disk::kFailed) return RestartPlanner();
  constexpr std::array kNext = {Disk::kGood, Disk::kGood, Disk::kFull,
                                Disk::kLoses, Disk::kKeeps};
  naive_.disk =
      kNext[static_cast<size_t>(Below(static_cast<int64_t>(kNext.size())))];
  journal_.SetDisk(naive_.disk);
}

// The device fails under one process, which says so and ends. Others may use
// it on.
void LeaseSimulation::FailDevice(Process& process) {
  Message message = {kRegister, process.number, process.device, 0, 0, 0};
  message.is_unhealthy = true;
  Send(process, message);
  Crash(process);
}

// The device is lost with all that uses it, and comes back with another size.
// Connections end with their processes.
void LeaseSimulation::ResizeDevice(int device) {
  if (n_processes_ + kProcesses > kStranger) return;
  std::erase_if(network_, [device](const Message& message) {
    return message.device == device;
  });
  for (Process& process : processes_) {
    if (process.device != device) continue;
    if (OneIn(2)) {
      FailDevice(process);
    } else {
      Crash(process);
    }
  }
  ++n_resized;
  totals_[static_cast<size_t>(device)] = kTotal / 2 + Below(kTotal);
  is_resized_[static_cast<size_t>(device)] = true;
}

// After the last trouble all holders end, and then nothing is held.
void LeaseSimulation::EndTrouble() {
  if (n_processes_ + 2 * kProcesses > kStranger) return;
  if (naive_.disk == Disk::kFailed) RestartPlanner();
  naive_.disk = Disk::kGood;
  journal_.SetDisk(Disk::kGood);
  for (Process& process : processes_) Crash(process);
  for (const int number : dead_) Bury(number);
  strangers_.fill(0);
  now_ += 4 * NaiveBook::kTtl;
  Tick();
  for (int device = 0; device < kDevices; ++device) {
    const int64_t total = totals_[static_cast<size_t>(device)];
    // By a process that holds nothing and has said nothing of it.
    ApplyRegister(
        {kRegister, processes_[0].number, device, 0, total, now_, total});
    // A lease whose holder has measured nothing is proven gone by no reading.
    const bool is_empty =
        std::none_of(naive_.entries.begin(), naive_.entries.end(),
                     [device](const NaiveBook::Entry& e) {
                       return e.device == device && !e.released &&
                              e.confirmed && e.measured == 0;
                     });
    if (!is_empty) continue;
    ++n_emptied;
    Expect(*book_->AvailableBytes(Name('d', device)) == total - kHeadroom,
           "bytes did not come back after the last trouble");
  }
  Check();
  if (unwritten_ == kNobody) return;
  const auto retried = book_->Reserve({.request_id = Name('r', unwritten_),
                                       .lease_id = Name('l', unwritten_),
                                       .device_id = Name('d', 0),
                                       .holder = Name('p', kStranger),
                                       .purpose = "",
                                       .bytes = 1},
                                      Now());
  Expect(!absl::IsUnavailable(retried.status()),
         "what a disk refused is refused for ever");
}

// The planner can watch it no longer.
void LeaseSimulation::LoseSight(Process& process) {
  if (!process.is_watched) return;
  process.is_watched = false;
  is_watched_[static_cast<size_t>(process.number)] = false;
  Expect(book_->SetProcessLive(Name('p', process.number), false, Now()).ok(),
         "SetProcessLive");
  naive_.SetLive(process.number, false);
}

// Epochs that nobody was granted, and leases of others.
void LeaseSimulation::PresentGarbage() {
  NaiveBook::Entry claim = {};
  claim.id = kFirstStrangeLease + static_cast<int>(Below(4));
  claim.process = kStranger;
  claim.device = static_cast<int>(Below(kDevices));
  claim.bytes = 1 + Below(100);
  claim.measured = Below(claim.bytes + 1);
  claim.request = -1;
  switch (Below(4)) {
    case 0:
      claim.epoch = (int64_t{1} << 62) - Below(3);
      break;
    case 1:
      claim.epoch = naive_.first_epoch + NaiveBook::kEpochsAhead + Below(2);
      break;
    case 2:
      claim.epoch = std::max<int64_t>(naive_.next_epoch + Below(5) - 2, 1);
      break;
    default:
      if (n_holdings_ == 0) return;
      claim.id = static_cast<int>(Below(n_holdings_));
      claim.epoch =
          std::max<int64_t>(holdings_[static_cast<size_t>(claim.id)].epoch, 1);
      // It would be that holder's own, for all that a planner can tell.
      if (naive_.Find(claim.id) == nullptr) return;
  }
  const bool is_ok = naive_.Adopt(claim);
  Expect(book_->Adopt({.id = Name('l', claim.id),
                       .device_id = Name('d', claim.device),
                       .holder = Name('p', claim.process),
                       .process = Name('p', claim.process),
                       .bytes = claim.bytes,
                       .measured_bytes = claim.measured,
                       .epoch = claim.epoch},
                      Now())
                 .ok() == is_ok,
         "Adopt: what nobody was granted");
}

void LeaseSimulation::Bury(int number) {
  Expect(book_->ProcessDied(Name('p', number)) == naive_.Die(number),
         "ProcessDied");
}

bool LeaseSimulation::Watch(int number) {
  if (!IsWatched(number)) return true;
  if (naive_.lives[static_cast<size_t>(number)]) return true;  // still watched
  if (std::find(dead_.begin(), dead_.end(), number) != dead_.end()) {
    return false;
  }
  naive_.SetLive(number, true);
  Expect(book_->SetProcessLive(Name('p', number), true, Now()).ok(),
         "SetProcessLive");
  return true;
}

// What is loaded goes on, but the planner does not know of it any more.
void LeaseSimulation::Forget() {
  for (int i = 0; i < n_holdings_; ++i) {
    Holding& h = holdings_[static_cast<size_t>(i)];
    const bool is_known = naive_.Find(i) != nullptr;
    if (!is_known && h.forgotten_at == kNever) h.forgotten_at = now_;
  }
  // The clock does not know how far presented leases have lifted the epochs.
  max_epoch_ = 0;
}

// What a planner that starts finds, which may be what somebody did to its
// files.
StartEvidence LeaseSimulation::Evidence(bool is_anybody_left) {
  StartEvidence evidence = {.journal = JournalFound::kWhole,
                            .is_said_first = is_said_first_,
                            .has_mark = true,
                            .wall_millis = kWall + now_};
  if (!OneIn(is_anybody_left ? 4 : 2)) {
    if (!journal_.Reopen().is_partial) return evidence;
    evidence.journal = JournalFound::kPartial;
    evidence.has_mark = !OneIn(8);
    return evidence;
  }
  journal_.Lose();
  evidence.journal = OneIn(2) ? JournalFound::kBad : JournalFound::kNew;
  // Who removes the mark as well says that nothing is held only if that is so.
  if (OneIn(is_anybody_left ? 8 : 1)) {
    evidence.has_mark = false;
    // A journal that was not sound says otherwise, with or without a mark.
    if (evidence.journal == JournalFound::kNew) {
      evidence.is_said_first &= !is_anybody_left;
    }
  }
  return evidence;
}

void LeaseSimulation::RestartPlanner() {
  ++n_restarts;
  const bool has_host_restarted =
      OneIn(16) && n_processes_ + kProcesses <= kStranger;
  if (has_host_restarted) {
    for (Process& process : processes_) Crash(process);
  }
  const StartEvidence evidence =
      Evidence(/*is_anybody_left=*/!has_host_restarted);
  const bool has_journal = evidence.journal == JournalFound::kWhole ||
                           evidence.journal == JournalFound::kPartial;
  const PlannerStart start = StartOf(evidence, LeaseTimes());
  const bool is_at_once = start.recovery == absl::ZeroDuration();
  if (is_at_once && evidence.journal != JournalFound::kWhole) ++n_believed;
  n_ghosts += static_cast<int64_t>(naive_.ghosts.size());
  const LeaseImage& image = journal_.Reopen();
  book_ = std::make_unique<LeaseBook>(start.first_epoch, &journal_);
  Expect(book_->Restore(image, Now()).ok(),
         "the book cannot read what it wrote");
  book_->Recover(Now(), start.recovery);
  naive_.Restart(has_journal, start.first_epoch,
                 absl::ToInt64Milliseconds(start.recovery));
  if (evidence.journal != JournalFound::kWhole) Forget();
  Rewatch();
  // Connections end with the process, and what was on its way with them.
  network_.clear();
  failed_under_.fill(kNobody);
  for (const Process& process : processes_) {
    Send(process, {kRegister, process.number, process.device, 0, 0, 0});
  }
}

// Watches the holders again, as a planner does for the leases it restored.
void LeaseSimulation::Rewatch() {
  std::vector<int> holders;
  for (const NaiveBook::Entry& e : naive_.entries) {
    if (!e.released) holders.push_back(e.process);
  }
  for (const int number : holders) {
    if (!Watch(number)) Bury(number);
  }
}

}  // namespace plimsoll::planner
