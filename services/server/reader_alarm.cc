#include "services/server/reader_alarm.h"

#include <chrono>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace plimsoll::services {

// The call that an alarm cancels, or nothing once it was stopped.
struct ReaderAlarm::Target {
  absl::Mutex mu;
  grpc::CallbackServerContext* context ABSL_GUARDED_BY(mu);
};

void ReaderAlarm::Start() {
  if (alarm_ != nullptr) return;
  target_ = std::make_shared<Target>();
  {
    absl::MutexLock lock(&target_->mu);
    target_->context = &context_;
  }
  alarm_ = std::make_unique<grpc::Alarm>();
  alarm_->Set(
      std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout_),
      [target = target_](bool expired) {
        absl::MutexLock lock(&target->mu);
        // The lock is held, so that the context outlives the call of it.
        if (expired && target->context != nullptr) {
          target->context->TryCancel();
        }
      });
}

void ReaderAlarm::Stop() {
  if (alarm_ == nullptr) return;
  {
    absl::MutexLock lock(&target_->mu);
    target_->context = nullptr;
  }
  alarm_.reset();
}

}  // namespace plimsoll::services
