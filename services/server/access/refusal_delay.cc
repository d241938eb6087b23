#include "services/server/access/refusal_delay.h"

#include <grpcpp/alarm.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "services/server/access/keep_grpc.h"

namespace plimsoll::services {

struct RefusalDelay::Waiting {
  struct Answer {
    std::function<void()> give;
    std::unique_ptr<grpc::Alarm> alarm;
  };

  // Takes the answer out; empty if it was given already.
  Answer Take(uint64_t id) ABSL_LOCKS_EXCLUDED(mu) {
    absl::MutexLock lock(&mu);
    auto found = answers.extract(id);
    return found.empty() ? Answer() : std::move(found.mapped());
  }

  absl::Mutex mu;
  uint64_t next_id ABSL_GUARDED_BY(mu) = 0;
  std::map<uint64_t, Answer> answers ABSL_GUARDED_BY(mu);  // oldest first
};

RefusalDelay::RefusalDelay(absl::Duration time)
    : time_(time), waiting_(std::make_shared<Waiting>()) {}

RefusalDelay::~RefusalDelay() {
  std::map<uint64_t, Waiting::Answer> left;
  {
    absl::MutexLock lock(&waiting_->mu);
    left.swap(waiting_->answers);
  }
  for (auto& [id, answer] : left) answer.give();
}

void RefusalDelay::Later(std::function<void()> answer) {
  KeepGrpc();
  auto alarm = std::make_unique<grpc::Alarm>();
  grpc::Alarm& timer = *alarm;
  Waiting::Answer early;
  {
    absl::MutexLock lock(&waiting_->mu);
    auto& answers = waiting_->answers;
    if (answers.size() == kMaxWaiting) {
      early = std::move(answers.extract(answers.begin()).mapped());
    }
    const uint64_t id = waiting_->next_id++;
    answers.emplace(id, Waiting::Answer{std::move(answer), std::move(alarm)});
    // The lock is held, so that nobody takes the alarm out before it is set.
    timer.Set(
        std::chrono::system_clock::now() + absl::ToChronoMilliseconds(time_),
        [waiting = waiting_, id](bool) {
          const Waiting::Answer due = waiting->Take(id);
          if (due.give != nullptr) due.give();
        });
  }
  if (early.give != nullptr) early.give();
}

size_t RefusalDelay::n_waiting() const {
  absl::MutexLock lock(&waiting_->mu);
  return waiting_->answers.size();
}

}  // namespace plimsoll::services
