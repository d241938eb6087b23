// A planner's lease book and several workers in one thread, on a network that
// drops, repeats and reorders, with crashes, partitions and pauses: a history
// is what a seed makes of them.
#ifndef PLIMSOLL_TESTS_PLANNER_LEASE_SIMULATION_H_
#define PLIMSOLL_TESTS_PLANNER_LEASE_SIMULATION_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "planner/lease_book.h"
#include "tests/planner/naive_lease_book.h"

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

 private:
  LeaseImage image_;
  std::vector<Lease> noted_;
};

class LeaseSimulation {
 public:
  static constexpr int kOperations = 400;

  explicit LeaseSimulation(uint64_t seed);

  // Runs one history. Returns what went wrong, or nothing.
  std::string Run();

  // Of all histories of this object: how often something came about.
  int64_t n_granted = 0, n_adopted = 0, n_proven = 0, n_restarts = 0;

 private:
  static constexpr int kProcesses = 4;  // that live at one time
  static constexpr int kDevices = 2;
  static constexpr int64_t kTotal = 1'000;
  static constexpr int64_t kHeadroom = 50;
  static constexpr int kMaxHoldings = 64;
  static constexpr int kMaxMessages = 16;
  static constexpr int64_t kFenceMargin = 2'000;
  static constexpr int64_t kMaxMessageAge = NaiveBook::kGrace;

  // A process of a worker.
  struct Process {
    int number = 0;  // new with every start
    int device = 0;
    bool is_partitioned = false;
    int64_t stopped_until = 0;
  };
  // What a process knows of one lease of its own.
  struct Holding {
    enum State { kAsked, kLoading, kLoaded, kGone };
    State state = kGone;
    int process = 0;  // number
    int device = 0;
    int64_t bytes = 0, epoch = 0, measured = 0;
    int64_t asked = 0;          // when the first request was sent
    int64_t fence = 0;          // no allocation from here on
    bool is_full = false;       // all is allocated, to be confirmed
    bool is_forgotten = false;  // the planner lost its state since
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
  };

  int64_t Below(int64_t n);
  bool OneIn(int64_t n) { return Below(n) == 0; }
  absl::Time Now() const;
  int64_t FreeBytes(int device) const;  // as the device itself would say

  void Step();
  void Work(Process& process);
  void WorkOn(Process& process, int index);
  void Ask(Process& process);
  void Trouble();
  void Start(Process& process);
  void Begin();
  void RestartPlanner();
  void Send(const Process& process, Message message);
  void Deliver();
  void Answer(Message message, bool is_ok, Kind kind);
  void Apply(const Message& message);
  void ApplyReserve(const Message& message);
  void ApplyKeep(const Message& message);
  bool Keep(const Message& message);
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
  MemoryJournal journal_;
  std::unique_ptr<LeaseBook> book_;
  NaiveBook naive_;
  std::array<Process, kProcesses> processes_;
  std::vector<int> dead_;  // whose end can be proven
  std::array<Holding, kMaxHoldings> holdings_;
  int n_holdings_ = 0;
  int n_processes_ = 0;
  std::vector<Message> network_;
  std::array<int64_t, kDevices> strangers_ = {};  // bytes
  int64_t now_ = 0;
  int64_t max_epoch_ = 0;
  std::string failure_;
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_TESTS_PLANNER_LEASE_SIMULATION_H_
