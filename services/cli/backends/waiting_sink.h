// A stream of an engine in this process that the command line waits for.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_WAITING_SINK_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_WAITING_SINK_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/steady_notification.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "worker/engine/token_sink.h"

namespace plimsoll::cli {

// Drops the output; a derived class can keep output by overriding OnOutput. The
// step thread writes until OnEnd; then Wait returns.
class WaitingSink : public worker::TokenSink {
 public:
  bool OnOutput(worker::StepOutput& /*output*/) override { return true; }
  void OnEnd(const absl::Status& status, const worker::FinishInfo& info) final {
    status_ = status;
    info_ = info;
    done_.Notify();
  }
  bool Abandoned() const final { return false; }

  // Waits for the end. Errors: that of the stream; an interruption.
  absl::StatusOr<worker::FinishInfo> Wait() {
    while (!done_.WaitFor(kInterruptPoll)) {
      if (Interrupted()) return InterruptedError();
    }
    if (!status_.ok()) return status_;
    return info_;
  }

 private:
  absl::Status status_;
  worker::FinishInfo info_;
  SteadyNotification done_;
};

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_WAITING_SINK_H_
