#include "services/generation/generation_call.h"

#include <utility>

#include "services/generation/call_errors.h"
#include "services/generation/message_bytes.h"

namespace plimsoll::services {

absl::Status GenerationCall::Submit(Generation generation,
                                    std::shared_ptr<GenerationCall> self) {
  {
    SteadyMutexLock lock(&mu_);
    model_ = generation.model;
    has_token_bytes_ = generation.has_token_bytes;
    tools_ = ReplyTools(std::move(generation.prompt.reading),
                        model_.engine->tokenizer());
  }
  return services::Submit(generation.model, std::move(generation.options),
                          std::move(self));
}

int64_t GenerationCall::SizeOf(const worker::StepOutput& output) const {
  int64_t bytes = WireBytes(output);
  if (has_token_bytes_) {
    bytes += TokenWireBytes(model_.engine->tokenizer(), output);
  }
  return bytes;
}

bool GenerationCall::OnOutput(worker::StepOutput& output) {
  SteadyMutexLock lock(&mu_);
  return is_abandoned_ || Deliver(output);
}

void GenerationCall::OnEnd(const absl::Status& status,
                           const worker::FinishInfo& info) {
  ServedModel model;  // Released after the lock: that may end an unload.
  SteadyMutexLock lock(&mu_);
  if (trace_ != nullptr) {
    if (model_) trace_->SetModel(model_.name);
    trace_->AddReply(info, status);
  }
  if (Complete(EndStatus(status), info)) std::swap(model, model_);
}

bool GenerationCall::Abandoned() const {
  SteadyMutexLock lock(&mu_);
  return is_abandoned_;
}

void GenerationCall::Abandon() {
  SteadyMutexLock lock(&mu_);
  is_abandoned_ = true;
  if (model_) model_.engine->Wake();
}

}  // namespace plimsoll::services
