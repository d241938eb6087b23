// Which waiting request is next: slots are shared fairly, by tokens.
#ifndef PLIMSOLL_WORKER_SCHEDULING_FAIR_QUEUE_H_
#define PLIMSOLL_WORKER_SCHEDULING_FAIR_QUEUE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"

namespace plimsoll::worker {

enum class Priority { kLow, kNormal, kHigh };

// Identifies who makes a request. Requests of one tenant and priority keep
// their order.
struct Claim {
  // An empty name means nobody in particular; that is a tenant like any other.
  std::string tenant;
  Priority priority = Priority::kNormal;
  // The origin of the request; empty = this process. The tenants of a peer
  // divide the peer's share among them.
  std::string peer = {};

  bool operator==(const Claim& other) const = default;
};

// How a request waits.
enum class Waits {
  kNew,       // it may give way to others while it waits
  kToTheEnd,  // it gives way to nobody
  // It belongs to a call that was admitted. It is the next one of its tenant
  // and priority, gives way to nobody, and no limit counts it.
  kAdmitted,
};

// The place of a request that waits again, among those of its tenant and
// priority.
enum class Place { kFirst, kLast };

// Divides slots on three levels: between the peers that wait, between the
// tenants of a peer, and between the priorities of a tenant. The peer with the
// fewest slots is next; of equal ones the peer that was served least, in
// tokens. Tenants are chosen in the same way, priorities by service alone. A
// priority is a weight, so that nobody starves. Service counts only while
// another party of the same level waits. When nobody waits, all parties become
// equal again. Not thread-safe.
class FairQueue {
 public:
  // A high priority gets four times as much as a normal one, and a normal one
  // four times as much as a low one.
  static constexpr int64_t Weight(Priority priority) {
    return int64_t{1} << (2 * static_cast<int>(priority));
  }
  // A request counts as at least this many tokens, because it costs a step.
  static constexpr int64_t kLeastTokens = 16;
  // A party that begins to wait is never further behind a new party than this,
  // in tokens.
  static constexpr int64_t kMostDebt = 16'384;

  // A peer, one of its tenants, or one of that tenant's priorities. Numbers of
  // a party include those of its members.
  struct Party {
    Party* parent = nullptr;
    std::map<std::string, std::unique_ptr<Party>> members = {};
    struct Item {
      int64_t id;
      Waits how;
      bool is_limited;  // counts against the limit of a full queue
    };
    std::deque<Item> items = {};  // waiting requests of a priority
    int64_t cost = 1;             // a token's cost
    int64_t n_members = 0;        // requests that wait or run
    int64_t n_waiting = 0;
    int64_t n_limited = 0;  // waiting requests that the limit counts
    int64_t n_running = 0;
    int64_t n_waiting_members = 0;
    int64_t served = 0;            // tokens, times their cost
    int64_t level = 0;             // `served` of a member that begins to wait
    int64_t turn = 0;              // when it began to wait or was next
    int64_t last_prompt_turn = 0;  // for the scheduler
  };

  // Queues a request. The returned party stays until the request is removed.
  Party* Push(int64_t id, const Claim& claim, Waits how = Waits::kNew);
  // Adds a request that runs without having waited.
  Party* Run(int64_t id, const Claim& claim);
  // The next request; nullopt if none waits.
  std::optional<int64_t> Peek() const;
  // Takes the next request, which runs from now on and costs `n_tokens`;
  // nullopt if none waits.
  std::optional<int64_t> Pop(int64_t n_tokens);
  // Notes that a running request stops.
  void Stop(int64_t id);
  // True for a request that neither waits nor runs.
  bool IsStopped(int64_t id) const {
    return members_.at(id).state == State::kStopped;
  }
  // Queues a stopped request again.
  void PushAgain(int64_t id, Place place);
  // Forgets a request.
  void Remove(int64_t id);
  // Notes that tokens were computed for a request of this party.
  static void Charge(Party* party, int64_t n_tokens);

  // The waiting request that gives way to a newcomer in a full queue: the
  // newest one that may, of the party that has most of the queue, if that is
  // more than the newcomer's party would have with one more.
  std::optional<int64_t> GivesWay(const Claim& newcomer) const;
  // Tells `visit` the next request of each peer that waits, until it returns
  // true.
  void ForNextOfPeers(absl::FunctionRef<bool(int64_t id)> visit) const;
  // True if the tenant of `a`, or its peer, has two slots more than that of
  // `b`, or if that of `b` has none. False for two parties of one tenant.
  static bool HoldsMore(const Party& a, const Party& b);
  // True if the tenant of `a`, or its peer, has more slots than that of `b`.
  static bool RunsMore(const Party& a, const Party& b);

  // Requests that have no slot: those that wait, for the first time or again,
  // and those that were stopped.
  struct WithoutSlot {
    int64_t of_tenant = 0;
    int64_t of_peer = 0;
  };
  WithoutSlot CountWithoutSlot(const Claim& claim) const;

  int64_t size() const { return all_.n_waiting; }
  // Waiting requests that count against the limit of a full queue.
  int64_t limited() const { return all_.n_limited; }

 private:
  enum class State { kWaits, kRuns, kStopped };
  struct Member {
    Party* party;
    State state;
  };

  Party* Join(int64_t id, const Claim& claim, State state);
  void AddWaiting(Party* party, Party::Item item, Place place);
  void RemoveWaiting(Party* party, int64_t id);
  static void AddRunning(Party* party, int64_t n);
  // Whether a charge also moves the level at which members begin to wait.
  enum class Level { kStays, kMoves };
  static void Charge(Party* party, int64_t n_tokens, Level level);
  // The priority whose request is next within a party; null if none waits.
  static const Party* Next(const Party& party);

  Party all_;
  std::map<int64_t, Member> members_;
  int64_t n_turns_ = 0;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SCHEDULING_FAIR_QUEUE_H_
