// Counts the tokens of a sequence for its tenant's quota and its receipt.
#ifndef PLIMSOLL_SERVICES_GENERATION_METERED_SINK_H_
#define PLIMSOLL_SERVICES_GENERATION_METERED_SINK_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "services/generation/quota_book.h"
#include "services/generation/usage_file.h"
#include "services/generation/usage_receipt.h"
#include "worker/engine/token_sink.h"

namespace plimsoll::services {

// The receipt of a sequence before its end, and the file for it.
struct ReceiptDraft {
  UsageFile* file = nullptr;  // null: no receipts
  UsageReceipt receipt = {};
};

// Passes a sequence's output on to another sink. The sequence holds its part of
// the quota until it ends. A sequence that the engine never took counts as
// refused.
class MeteredSink final : public worker::TokenSink {
 public:
  MeteredSink(std::unique_ptr<QuotaBook::Hold> hold, ReceiptDraft draft,
              std::shared_ptr<worker::TokenSink> sink)
      : hold_(std::move(hold)),
        draft_(std::move(draft)),
        sink_(std::move(sink)) {}
  ~MeteredSink() override {
    if (draft_.file != nullptr && hold_ != nullptr) {
      draft_.file->AddRefused(draft_.receipt.tenant);
    }
  }

  bool OnOutput(worker::StepOutput& output) override {
    const auto n_tokens = static_cast<int64_t>(output.tokens.size());
    if (!sink_->OnOutput(output)) return false;
    hold_->AddGenerated(n_tokens);
    draft_.receipt.generated_tokens += n_tokens;
    return true;
  }

  void OnEnd(const absl::Status& status,
             const worker::FinishInfo& info) override {
    // A prompt that was never begun costs nothing.
    if (info.prefill > absl::ZeroDuration()) {
      hold_->SetPrompt(info.n_prompt - info.n_cached, info.n_cached);
      draft_.receipt.prompt_tokens = info.n_prompt - info.n_cached;
      draft_.receipt.cached_tokens = info.n_cached;
    }
    if (draft_.file != nullptr) {
      UsageReceipt& receipt = draft_.receipt;
      receipt.time = absl::Now();
      receipt.status = absl::StatusCodeToString(status.code());
      receipt.seconds = absl::ToDoubleSeconds(info.prefill + info.decode);
      draft_.file->Add(std::move(receipt));
    }
    // The caller may send another request as soon as this one has ended.
    hold_.reset();
    sink_->OnEnd(status, info);
  }

  bool Abandoned() const override { return sink_->Abandoned(); }

 private:
  std::unique_ptr<QuotaBook::Hold> hold_;  // until the end
  ReceiptDraft draft_;
  const std::shared_ptr<worker::TokenSink> sink_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_METERED_SINK_H_
