// A planner's lease book and several workers in one thread, on a network that
// drops, repeats and reorders, with crashes, partitions, pauses, swapped
// memory, strangers who present what they do not have, and starts of the
// planner and of the host with and without their files: a history is what a
// seed makes of them. With faults, the journal's disk and the devices fail too.
#ifndef PLIMSOLL_TESTS_PLANNER_LEASE_LEASE_SIMULATION_H_
#define PLIMSOLL_TESTS_PLANNER_LEASE_LEASE_SIMULATION_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "planner/lease/lease_book.h"
#include "planner/lease/lease_start.h"
#include "tests/planner/lease/naive_lease_book.h"

namespace plimsoll::planner {

// Keeps in memory what a journal on a disk would keep.
class MemoryJournal final : public LeaseJournal {
 public:
  absl::Status Write(const LeaseRecord& record, int64_t next_epoch) override;
  void Note(const Lease& lease) override { noted_.push_back(lease); }
  void Flush();
  // A start without any earlier state.
  void Lose();
  // What a restart finds: what was only noted is gone.
  const LeaseImage& Reopen();
  void SetDisk(Disk disk) { disk_ = disk; }

 private:
  void Put(const LeaseRecord& record);
  void PutNoted();

  Disk disk_ = Disk::kGood;
  LeaseImage image_;
  std::vector<Lease> noted_;
};

class LeaseSimulation {
 public:
  static constexpr int kOperations = 400;

  explicit LeaseSimulation(uint64_t seed, bool has_faults);

  // Runs one history. Returns what went wrong, or nothing.
  std::string Run();

  // These count, over all histories of this object, how often something
  // happened.
  int64_t n_granted = 0, n_adopted = 0, n_proven = 0, n_restarts = 0;
  int64_t n_protected = 0;  // a reading freed nothing, for its process lived
  int64_t n_believed = 0;   // a start without its journal that granted at once
  int64_t n_misread = 0;    // a reading freed what was swapped out
  int64_t n_judged = 0;     // an old reading freed what others did not have
  int64_t n_returned = 0;   // its holder, or one cut off too long, was taken in
  // With faults.
  int64_t n_unwritten = 0;  // a grant was refused, for the disk did not take it
  int64_t n_ghosts = 0;     // one that was refused so is in the journal
  int64_t n_failed = 0;     // a worker said that its device failed
  int64_t n_resized = 0;    // a device came back with another size
  int64_t n_emptied = 0;    // all bytes came back after the last trouble

 private:
  static constexpr int kProcesses = 4;  // processes that live at one time
  static constexpr int kDevices = 2;
  static constexpr int64_t kTotal = 1'000;
  static constexpr int64_t kHeadroom = 50;
  static constexpr int kMaxHoldings = 64;
  static constexpr int kMaxMessages = 16;
  static constexpr int64_t kFenceMargin = 2'000;
  static constexpr int64_t kMaxMessageAge = NaiveBook::kGrace;
  static constexpr int64_t kNever = -1;
  static constexpr int kNobody = -1;
  static constexpr int kNames = NaiveBook::kProcesses;
  // Who never held anything, and what it presents.
  static constexpr int kStranger = kNames - 1;
  static constexpr int kFirstStrangeLease = kNames - 4;
  static constexpr int64_t kWall = 1'800'000'000'000;  // the clock at 0

  // A process of a worker.
  struct Process {
    int number = 0;  // new with every start
    int device = 0;
    bool is_watched = false;  // the planner sees that it lives, and its end
    bool is_partitioned = false;
    int64_t stopped_until = 0;  // then it goes on where it was
  };
  // What a process knows of one lease of its own.
  struct Holding {
    enum State { kAsked, kLoading, kLoaded, kGone };
    State state = kGone;
    int process = 0;  // number
    int device = 0;
    int64_t bytes = 0, epoch = 0, measured = 0;
    int64_t asked = 0;     // when the first request was sent
    int64_t fence = 0;     // no allocation from here on
    int64_t written = 0;   // bytes that the device's reading shows
    bool is_full = false;  // all is allocated, to be confirmed
    // When the planner lost its state, if it has not taken this in since.
    int64_t forgotten_at = kNever;
    // Swapped out, a reading ended it; it has not been taken in since.
    bool is_misread = false;
  };
  enum Kind {
    kReserve,
    kConfirm,
    kRenew,
    kPresent,  // a renewal of what is loaded, for a planner that forgot it
    kRelease,
    kRegister,
    kGranted,  // replies
    kRenewed,
    kConfirmed,
    kRefused,
  };
  struct Message {
    Kind kind;
    int holding, device;
    int64_t epoch, reading, sent;
    // These are a kRegister's, whose `holding` is the process's number.
    int64_t total = kTotal;
    bool is_unhealthy = false;
  };

  // "d7" is a device, "l7" a lease, "p7" a process and "r7" a request.
  static const std::string& Name(char kind, int number);
  int64_t Below(int64_t n);
  bool OneIn(int64_t n) { return Below(n) == 0; }
  absl::Time Now() const;
  int64_t FreeBytes(int device) const;  // what the device itself would say

  void Step();
  void Work(Process& process);
  void WorkOn(Process& process, int index);
  void Ask(Process& process);
  void Trouble();
  void TroubleFor(Process& process);
  void Crash(Process& process);
  void SwapOut(const Process& process);
  void LoseSight(Process& process);
  void Fault();
  void ChangeDisk();
  void FailDevice(Process& process);
  void ResizeDevice(int device);
  void EndTrouble();
  void PresentGarbage();
  void Start(Process& process);
  void Begin();
  void RestartPlanner();
  StartEvidence Evidence(bool is_anybody_left);
  void Rewatch();
  void Forget();
  // False if the process has ended, so that the planner refuses it.
  bool Watch(int number);
  bool IsWatched(int number) const {
    return is_watched_[static_cast<size_t>(number)];
  }
  bool IsInUse(const Holding& holding) const;
  bool HasSpoken(int process) const;
  void CheckInUse(int device);
  void CheckFreed();
  void Send(const Process& process, Message message);
  void Deliver();
  void Answer(Message message, bool is_ok, Kind kind);
  void Apply(const Message& message);
  void ApplyReserve(const Message& message);
  void ApplyKeep(const Message& message);
  bool Keep(const Message& message);
  bool Present(const Message& message);
  void Count(Holding& holding);
  void ApplyRelease(const Message& message);
  void ApplyRegister(const Message& message);
  void Read(const Message& message, int voucher);
  void Bury(int number);
  void Hear(const Message& message);
  void Tick();
  void Check();
  void CheckLeases();
  void Expect(bool condition, const char* what) {
    if (!condition && failure_.empty()) failure_ = what;
  }

  uint64_t random_;
  const bool has_faults_;
  MemoryJournal journal_;
  std::unique_ptr<LeaseBook> book_;
  NaiveBook naive_;
  std::array<Process, kProcesses> processes_;
  std::vector<int> dead_;  // watched ones that have ended
  std::array<bool, NaiveBook::kProcesses> is_watched_ = {};
  // When a planner last granted, confirmed or renewed something of a process.
  std::array<int64_t, NaiveBook::kProcesses> heard_ = {};
  std::array<Holding, kMaxHoldings> holdings_;
  int n_holdings_ = 0;
  int n_processes_ = 0;
  std::vector<Message> network_;
  std::array<int64_t, kDevices> strangers_ = {};  // bytes
  std::array<int64_t, kDevices> totals_ = {};     // what the devices have
  // The planner was not told yet how large the device has become.
  std::array<bool, kDevices> is_resized_ = {};
  // Who said last that the device failed, until one that holds nothing there
  // has registered it.
  std::array<int, kDevices> failed_under_ = {};
  int unwritten_ = kNobody;  // the last request that a disk refused
  int64_t now_ = 0;
  int64_t max_epoch_ = 0;
  bool has_swap_ = false;       // memory may be swapped out
  bool is_said_first_ = false;  // --first is in the planner's service file
  std::string failure_;
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_TESTS_PLANNER_LEASE_LEASE_SIMULATION_H_
