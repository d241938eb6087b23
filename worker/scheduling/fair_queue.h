// Chooses the next waiting request, so that slots are shared fairly, by tokens.
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

// The identity of a request's maker. Requests of one tenant and priority keep
// their order.
struct Claim {
  // An empty name means no known tenant; it counts as one tenant.
  std::string tenant;
  Priority priority = Priority::kNormal;
  // The origin of the request; empty = this process. The tenants of a peer
  // divide the peer's share among them.
  std::string peer = {};

  bool operator==(const Claim& other) const = default;
};

// How a request waits.
enum class Waits {
  kNew,       // may give way to others while it waits
  kToTheEnd,  // never gives way
  // The request belongs to an admitted call. It is the next one of its tenant
  // and priority, never gives way, and no limit counts it.
  kAdmitted,
};

// The place of a request that waits again, among those of its tenant and
// priority.
enum class Place { kFirst, kLast };

// Divides slots on three levels: between the peers that wait, between the
// tenants of a peer, and between the priorities of a tenant. The peer with the
// fewest slots is next; among equals, the peer that was served the fewest
// tokens. Tenants are chosen in the same way, priorities by served tokens only.
// A priority is a weight, so that no priority starves. Service counts only
// while another party of the same level waits. When nobody waits, all parties
// become equal again. Without memory (std::bad_alloc), Push, Run and PushAgain
// change nothing. Not thread-safe.
class FairQueue {
 public:
  // The weight of high priority is four times that of normal priority, which is
  // four times that of low priority.
  static constexpr int64_t Weight(Priority priority) {
    return int64_t{1} << (2 * static_cast<int>(priority));
  }
  // A request counts as at least this many tokens, because it costs a step.
  static constexpr int64_t kLeastTokens = 16;
  // The most tokens that a party which begins to wait can be behind a new
  // party.
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
    int64_t turn = 0;              // turn at which it began to wait or was next
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
  // newest request that may give way, of the party with the most waiting
  // requests, if that party has more than the newcomer's party would have with
  // one more.
  std::optional<int64_t> GivesWay(const Claim& newcomer) const;
  // Calls `visit` with the next request of each waiting peer, until `visit`
  // returns true.
  void ForNextOfPeers(absl::FunctionRef<bool(int64_t id)> visit) const;
  // True if the tenant of `a`, or its peer, has at least two slots more than
  // the tenant, or peer, of `b`, or if the tenant, or peer, of `b` has none.
  // False for two parties of one tenant.
  static bool HoldsMore(const Party& a, const Party& b);
  // True if the tenant of `a`, or its peer, has more slots than the tenant, or
  // peer, of `b`.
  static bool RunsMore(const Party& a, const Party& b);

  // Requests without a slot: requests that wait, for the first time or again,
  // and stopped requests.
  struct WithoutSlot {
    int64_t of_tenant = 0;
    int64_t of_peer = 0;
  };
  WithoutSlot CountWithoutSlot(const Claim& claim) const;
  // True for a known request of this peer.
  bool IsOfPeer(int64_t id, const std::string& peer) const;

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
