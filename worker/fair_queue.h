// Who of those that wait is next: tenants take turns, by tokens.
#ifndef PLIMSOLL_WORKER_FAIR_QUEUE_H_
#define PLIMSOLL_WORKER_FAIR_QUEUE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace plimsoll::worker {

enum class Priority { kLow, kNormal, kHigh };

// Whose a request is. Requests of one tenant and priority keep their order.
struct Claim {
  std::string tenant;  // "" = of nobody in particular, a tenant like another
  Priority priority = Priority::kNormal;

  bool operator==(const Claim& other) const = default;
};

// Deficit round robin: each turn gives a flow (a tenant's requests of one
// priority) some tokens, and its requests leave while these pay for them. A
// priority is a weight, so that nobody starves. Source: Shreedhar and Varghese,
// "Efficient fair queuing using deficit round robin" (1996). Not thread-safe.
class FairQueue {
 public:
  // Tokens of one turn; four and sixteen times as many from kLow to kHigh.
  static constexpr int64_t kTurnTokens = 256;
  static constexpr int64_t TokensOfTurn(Priority priority) {
    return kTurnTokens << (2 * static_cast<int>(priority));
  }

  // Queues a request of `n_tokens` > 0.
  void Push(int64_t id, int64_t n_tokens, const Claim& claim);
  // The next request, which stays; nullopt if none waits.
  std::optional<int64_t> Peek();
  // Takes the next request; nullopt if none waits.
  std::optional<int64_t> Pop();
  // Takes a request out, if it waits.
  void Remove(int64_t id);
  int64_t size() const { return size_; }

 private:
  struct Item {
    int64_t id;
    int64_t n_tokens;
  };
  struct Flow {
    Claim claim;
    std::deque<Item> items;  // never empty
    int64_t deficit = 0;     // tokens that are left to it
    bool has_turn = false;   // and were given for this turn already
  };

  std::deque<Flow> flows_;  // the first one's turn
  int64_t size_ = 0;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_FAIR_QUEUE_H_
