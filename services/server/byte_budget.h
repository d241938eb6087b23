// Limits the memory of all requests and replies together. A call takes what it
// will hold before it computes, and gives it back once its reply is sent.
#ifndef PLIMSOLL_SERVICES_SERVER_BYTE_BUDGET_H_
#define PLIMSOLL_SERVICES_SERVER_BYTE_BUDGET_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace plimsoll::services {

// The shares of a peer may together have kTimesLeft times as many bytes as
// remain for others. So no peer takes everything: a single peer gets most of
// the budget, and the next one most of the rest. Shares of more than
// kMaxSmallBytes are limited by kLargeTimesLeft instead, so that a few large
// calls never shut small ones out. A peer gets shares of up to kMaxSmallBytes
// as long as bytes are left. Thread-safe; it outlives its shares.
class ByteBudget {
 public:
  static constexpr int64_t kMaxSmallBytes = 1 << 20;
  static constexpr int64_t kTimesLeft = 7;
  static constexpr int64_t kLargeTimesLeft = 3;
  // A refused call should come back after this time.
  static constexpr absl::Duration kRetryDelay = absl::Seconds(1);

 private:
  struct Peer {
    int64_t held_bytes = 0;
    int64_t n_live = 0;  // shares
  };
  using Peers = std::map<std::string, Peer, std::less<>>;

 public:
  // The bytes that one call holds. The destructor gives them back. One thread
  // at a time may use it.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(peer_, other.peer_);
      std::swap(bytes_, other.bytes_);
      std::swap(is_counted_, other.is_counted_);
      return *this;
    }
    ~Share();

    int64_t bytes() const { return bytes_; }
    // Grows to `bytes`, for work. Errors: those of Take; the share is then
    // unchanged.
    absl::Status Grow(int64_t bytes);
    // Gives back the bytes above `bytes`.
    void Shrink(int64_t bytes);
    // Sets the share to `bytes`, for messages that wait to be sent. This is no
    // work, so it does not count in Traffic::n_shares.
    // Errors: those of Take; the share is then unchanged.
    absl::Status Resize(int64_t bytes);

   private:
    friend class ByteBudget;
    ByteBudget* budget_ = nullptr;
    Peers::iterator peer_ = {};  // meaningful if there is a budget
    int64_t bytes_ = 0;
    bool is_counted_ = false;
  };

  explicit ByteBudget(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // Makes an empty share: `peer`'s call counts until the share ends. Without
  // memory (std::bad_alloc), nothing changes.
  Share Enter(absl::string_view peer) ABSL_LOCKS_EXCLUDED(mu_);
  // Takes a share of `bytes`.
  // Errors: kResourceExhausted with the numbers; it has a retry delay if others
  // or the peer itself hold the bytes, and none if no call may ever have that
  // many bytes.
  absl::StatusOr<Share> Take(absl::string_view peer, int64_t bytes)
      ABSL_LOCKS_EXCLUDED(mu_);

  int64_t limit_bytes() const { return limit_bytes_; }
  // The largest share that one call may have.
  int64_t max_share_bytes() const;

  struct Traffic {
    int64_t held_bytes = 0;  // bytes of all shares
    int64_t n_shares = 0;    // shares that were ever taken for work
    int64_t n_live = 0;      // shares of calls that are not done
  };
  Traffic traffic() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Raises a share to `bytes`, which is more than it has.
  absl::Status Raise(Share& share, int64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);
  // The most bytes that `share` may have if it asks for `bytes`.
  int64_t MostOf(const Share& share, int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Add(Share& share, int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Release(Share& share) ABSL_LOCKS_EXCLUDED(mu_);

  const int64_t limit_bytes_;
  mutable absl::Mutex mu_;
  Traffic traffic_ ABSL_GUARDED_BY(mu_);
  Peers peers_ ABSL_GUARDED_BY(mu_);  // peers with a share
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_BYTE_BUDGET_H_
