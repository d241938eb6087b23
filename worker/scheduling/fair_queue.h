// Who of those that wait is next: shares of the slots, by tokens.
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

// Whose a request is. Requests of one tenant and priority keep their order.
struct Claim {
  std::string tenant;  // "" = of nobody in particular, a tenant like another
  Priority priority = Priority::kNormal;
  // Where it comes from; "" = from here. All tenants of a peer share its share.
  std::string peer = {};

  bool operator==(const Claim& other) const = default;
};

// How a request waits.
enum class Waits {
  kNew,       // it may give way to others while it waits
  kToTheEnd,  // it gives way to nobody
  // It is part of a call that was admitted: it is the next one of its tenant
  // and priority, gives way to nobody, and no limit counts it.
  kAdmitted,
};

// Where a request that waits again is among those of its tenant and priority.
enum class Place { kFirst, kLast };

// Divides slots in three levels: between the peers that wait, in the share of a
// peer between its tenants, in that of a tenant between its priorities. Of the
// peers, and of the tenants, that wait the one with fewest slots is next, then
// the one that was served least, in tokens; of a tenant's priorities the one
// that was served least. A priority is a weight, so that nobody starves.
// Service counts only while another party of the level waits: what nobody else
// wants costs nothing, and when nobody waits all are even. Not thread-safe.
class FairQueue {
 public:
  // A high priority gets four times as much as a normal one, and that four
  // times as much as a low one.
  static constexpr int64_t Weight(Priority priority) {
    return int64_t{1} << (2 * static_cast<int>(priority));
  }
  // A request counts as so many tokens at least: it costs a step.
  static constexpr int64_t kLeastTokens = 16;
  // No party that begins to wait is further behind a new one than this.
  static constexpr int64_t kMostDebt = 16'384;

  // A peer, a tenant of it, or a priority of that tenant.
  struct Party {
    Party* parent = nullptr;
    std::map<std::string, std::unique_ptr<Party>> parts = {};
    struct Item {
      int64_t id;
      Waits how;
      bool is_limited;  // it counts where a queue is full
    };
    std::deque<Item> items = {};  // of a priority
    int64_t cost = 1;             // of a token
    int64_t n_members = 0;        // requests that wait or run
    int64_t n_waiting = 0;
    int64_t n_limited = 0;  // of these, that count where a queue is full
    int64_t n_running = 0;
    int64_t n_waiting_parts = 0;
    int64_t served = 0;            // tokens, times their cost
    int64_t level = 0;             // where a part begins that begins to wait
    int64_t turn = 0;              // when it began to wait or was next
    int64_t last_prompt_turn = 0;  // for the scheduler
  };

  // Queues a request. What is returned stays until the request is removed.
  Party* Push(int64_t id, const Claim& claim, Waits how = Waits::kNew);
  // A request runs that never waited.
  Party* Run(int64_t id, const Claim& claim);
  // The next request, which stays; nullopt if none waits.
  std::optional<int64_t> Peek() const;
  // Takes the next request, which runs now and costs `n_tokens`; nullopt if
  // none waits.
  std::optional<int64_t> Pop(int64_t n_tokens);
  // One that runs does not run now.
  void Stop(int64_t id);
  // True of one that neither waits nor runs.
  bool IsStopped(int64_t id) const {
    return members_.at(id).state == State::kStopped;
  }
  // One that was stopped waits.
  void PushAgain(int64_t id, Place place);
  // A request is gone.
  void Remove(int64_t id);
  // So many tokens were computed for a request of this party.
  static void Charge(Party* party, int64_t n_tokens);

  // The newest request that may give way, of the party that has most of a full
  // queue and has such a one, if that is more than a newcomer would have with
  // one more.
  std::optional<int64_t> GivesWay(const Claim& newcomer) const;
  // Tells `visit` of the next request of each peer that waits, until it returns
  // true.
  void ForNextOfPeers(absl::FunctionRef<bool(int64_t id)> visit) const;
  // True if the tenant of `a`, or its peer, has two slots more than that of
  // `b`, or any where that has none. Never of the same tenant.
  static bool HoldsMore(const Party& a, const Party& b);
  // True if it has more slots.
  static bool RunsMore(const Party& a, const Party& b);

  int64_t size() const { return all_.n_waiting; }
  // How many of these count where a queue is full.
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
  static void Charge(Party* party, int64_t n_tokens, bool moves_level);
  // The next one of those of a party that wait; null if there is none.
  static const Party* Next(const Party& party);

  Party all_;
  std::map<int64_t, Member> members_;
  int64_t n_turns_ = 0;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SCHEDULING_FAIR_QUEUE_H_
