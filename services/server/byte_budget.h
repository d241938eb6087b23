// The memory that requests and replies may take, all together: what a call will
// hold is taken before it computes and given back at its end.
#ifndef PLIMSOLL_SERVICES_SERVER_BYTE_BUDGET_H_
#define PLIMSOLL_SERVICES_SERVER_BYTE_BUDGET_H_

#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace plimsoll::services {

// A share of more than kMaxSmallBytes may not use the last quarter, so that a
// few large calls never shut small ones out. Thread-safe; outlives its shares.
class ByteBudget {
 public:
  static constexpr int64_t kMaxSmallBytes = 1 << 20;
  // When a call that was refused should come back.
  static constexpr absl::Duration kRetryDelay = absl::Seconds(1);

  // What one call holds. Given back at the end of its life. One thread at a
  // time may use it.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() { Shrink(0); }

    int64_t bytes() const { return bytes_; }
    // Takes what is missing to `bytes`.
    // Errors: as Take; then it keeps what it had.
    absl::Status Grow(int64_t bytes);
    // Gives back what is above `bytes`.
    void Shrink(int64_t bytes);

   private:
    friend class ByteBudget;
    ByteBudget* budget_ = nullptr;
    int64_t bytes_ = 0;
  };

  explicit ByteBudget(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // Errors: kResourceExhausted with the numbers: with a retry delay if others
  // hold the bytes, without one if no call may ever have so many.
  absl::StatusOr<Share> Take(int64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);

  int64_t limit_bytes() const { return limit_bytes_; }
  // The most that one call may have.
  int64_t max_share_bytes() const;

  struct Traffic {
    int64_t held_bytes;  // of all shares
    int64_t n_shares;    // that were ever taken
  };
  Traffic traffic() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Makes a share of `from` bytes one of `to` bytes, which is more.
  absl::Status Raise(int64_t from, int64_t to) ABSL_LOCKS_EXCLUDED(mu_);

  const int64_t limit_bytes_;
  mutable absl::Mutex mu_;
  Traffic traffic_ ABSL_GUARDED_BY(mu_) = {0, 0};
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_BYTE_BUDGET_H_
