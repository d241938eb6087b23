// Delays the answers to wrong tokens, so that guessing tokens takes long.
#ifndef PLIMSOLL_SERVICES_SERVER_ACCESS_REFUSAL_DELAY_H_
#define PLIMSOLL_SERVICES_SERVER_ACCESS_REFUSAL_DELAY_H_

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/time/time.h"

namespace plimsoll::services {

// Answers wait here without a thread. A waiting call is one of the
// kMaxStreamsPerConnection calls of its connection, so a connection tries at
// most that many tokens within kTime. Thread-safe.
class RefusalDelay {
 public:
  static constexpr absl::Duration kTime = absl::Seconds(1);
  // The most answers that wait.
  static constexpr size_t kMaxWaiting = 1'024;

  explicit RefusalDelay(absl::Duration time = kTime);
  // Gives all waiting answers.
  ~RefusalDelay();
  RefusalDelay(const RefusalDelay&) = delete;
  RefusalDelay& operator=(const RefusalDelay&) = delete;

  // Calls `answer` once, after the time, on a thread of gRPC. It must not
  // block. If kMaxWaiting answers wait already, the oldest one is called now.
  void Later(std::function<void()> answer);
  // The number of answers that wait.
  size_t n_waiting() const;

 private:
  struct Waiting;

  const absl::Duration time_;
  // Shared with gRPC's timer threads, which may be late.
  const std::shared_ptr<Waiting> waiting_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_ACCESS_REFUSAL_DELAY_H_
