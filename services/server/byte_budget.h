// The memory that requests and replies may take, all together: what a call will
// hold is taken before it computes and given back once its reply is sent.
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

// A peer's shares may be kTimesLeft times what they leave to others, so that no
// peer fills it: a lone one has most of it, the next one most of what is left.
// A share of more than kMaxSmallBytes may only be taken up to kLargeTimesLeft,
// so that a few large calls never shut small ones out. Up to kMaxSmallBytes
// every peer gets as long as there are any bytes. Thread-safe; outlives its
// shares.
class ByteBudget {
 public:
  static constexpr int64_t kMaxSmallBytes = 1 << 20;
  static constexpr int64_t kTimesLeft = 7;
  static constexpr int64_t kLargeTimesLeft = 3;
  // When a call that was refused should come back.
  static constexpr absl::Duration kRetryDelay = absl::Seconds(1);

 private:
  struct Peer {
    int64_t held_bytes = 0;
    int64_t n_live = 0;  // shares
  };
  using Peers = std::map<std::string, Peer, std::less<>>;

 public:
  // What one call holds. Given back at the end of its life. One thread at a
  // time may use it.
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
    // Takes what is missing to `bytes`, for work.
    // Errors: as Take; then it keeps what it had.
    absl::Status Grow(int64_t bytes);
    // Gives back what is above `bytes`.
    void Shrink(int64_t bytes);
    // Becomes `bytes`, for messages that wait to be sent: no work, so that it
    // does not count in Traffic::n_shares.
    // Errors: as Take; then it keeps what it had.
    absl::Status Settle(int64_t bytes);

   private:
    friend class ByteBudget;
    ByteBudget* budget_ = nullptr;
    Peers::iterator peer_ = {};  // if there is a budget
    int64_t bytes_ = 0;
    bool is_counted_ = false;
  };

  explicit ByteBudget(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // A share of nothing: `peer`'s call is there until the end of the share.
  Share Enter(absl::string_view peer) ABSL_LOCKS_EXCLUDED(mu_);
  // A share of `bytes`.
  // Errors: kResourceExhausted with the numbers: with a retry delay if others
  // or the peer itself hold the bytes, without one if no call may ever have so
  // many.
  absl::StatusOr<Share> Take(absl::string_view peer, int64_t bytes)
      ABSL_LOCKS_EXCLUDED(mu_);

  int64_t limit_bytes() const { return limit_bytes_; }
  // The most that one call may have.
  int64_t max_share_bytes() const;

  struct Traffic {
    int64_t held_bytes = 0;  // of all shares
    int64_t n_shares = 0;    // that were ever taken for work
    int64_t n_live = 0;      // shares of calls that are not done
  };
  Traffic traffic() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Makes a share one of `bytes`, which is more.
  absl::Status Raise(Share& share, int64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);
  // What `share` may become if it is to be of `bytes`.
  int64_t MostOf(const Share& share, int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Add(Share& share, int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Leave(Share& share) ABSL_LOCKS_EXCLUDED(mu_);

  const int64_t limit_bytes_;
  mutable absl::Mutex mu_;
  Traffic traffic_ ABSL_GUARDED_BY(mu_);
  Peers peers_ ABSL_GUARDED_BY(mu_);  // those with a share
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_BYTE_BUDGET_H_
