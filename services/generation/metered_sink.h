// Counts what a sequence generates for its tenant's quota.
#ifndef PLIMSOLL_SERVICES_GENERATION_METERED_SINK_H_
#define PLIMSOLL_SERVICES_GENERATION_METERED_SINK_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "services/generation/quota_book.h"
#include "worker/engine/token_sink.h"

namespace plimsoll::services {

// Passes a sequence's output on to another sink. The sequence holds its part of
// the quota until it ends.
class MeteredSink final : public worker::TokenSink {
 public:
  MeteredSink(std::unique_ptr<QuotaBook::Hold> hold,
              std::shared_ptr<worker::TokenSink> sink)
      : hold_(std::move(hold)), sink_(std::move(sink)) {}

  bool OnOutput(worker::StepOutput& output) override {
    const auto n_tokens = static_cast<int64_t>(output.tokens.size());
    if (!sink_->OnOutput(output)) return false;
    hold_->AddGenerated(n_tokens);
    return true;
  }

  void OnEnd(const absl::Status& status,
             const worker::FinishInfo& info) override {
    // A prompt that was never begun costs nothing.
    if (info.prefill > absl::ZeroDuration()) {
      hold_->SetPrompt(info.n_prompt - info.n_cached, info.n_cached);
    }
    // The caller may ask again as soon as it hears of the end.
    hold_.reset();
    sink_->OnEnd(status, info);
  }

  bool Abandoned() const override { return sink_->Abandoned(); }

 private:
  std::unique_ptr<QuotaBook::Hold> hold_;
  const std::shared_ptr<worker::TokenSink> sink_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_METERED_SINK_H_
