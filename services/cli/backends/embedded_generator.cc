#include "services/cli/backends/embedded_generator.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "base/sync/steady_mutex.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/generation/generation.h"
#include "services/generation/generation_call.h"
#include "services/generation/open_session.h"
#include "services/host/clock.h"
#include "services/server/byte_budget.h"
#include "services/wire/model_parts.h"

namespace plimsoll::cli {
namespace {

// The output of a call waits here for the command's reader, as one part. The
// stream and the engine share it: either may end first.
class EmbeddedCall final : public services::GenerationCall {
 public:
  // At most this many tokens wait: those of the prompt if it is scored, and
  // generated ones. Beyond that, only this sequence pauses. It is enough for a
  // whole default context, so that a batch keeps its slots busy while an
  // earlier line is printed.
  static constexpr int kMaxPendingTokens = 4'096;

  explicit EmbeddedCall(absl::Time start) : GenerationCall(start) {}

  // Submits `generation`, whose output comes to `self`, which is this call.
  static absl::Status Start(services::Generation generation,
                            std::shared_ptr<EmbeddedCall> self) {
    EmbeddedCall& call = *self;
    {
      SteadyMutexLock lock(&call.mu_);
      *call.delta_.mutable_prompt() = services::DescribePrompt(generation, "");
      call.has_delta_ = true;
    }
    return call.Submit(std::move(generation), std::move(self));
  }

  // Waits for the next part. Returns nothing after the last one, which has
  // `finish`. Errors: InterruptedError; the error that ended the call.
  absl::StatusOr<std::optional<v1::StreamGenerateResponse>> Next() {
    SteadyMutexLock lock(&mu_);
    while (!HasNews()) {
      if (Interrupted()) return InterruptedError();
      mu_.AwaitFor(absl::Condition(this, &EmbeddedCall::HasNews),
                   kInterruptPoll);
    }
    if (!has_delta_) {
      RETURN_IF_ERROR(*end_);
      return std::nullopt;
    }
    has_delta_ = false;
    if (std::exchange(is_behind_, false) && model_) model_.engine->Wake();
    return std::exchange(delta_, {});
  }

 private:
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return has_delta_ || end_.has_value();
  }

  bool Deliver(worker::StepOutput& output) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (delta_.tokens_size() + delta_.prompt_logprobs_size() >=
        kMaxPendingTokens) {
      is_behind_ = true;
      return false;
    }
    AppendTo(output, delta_);
    has_delta_ = true;
    return true;
  }

  bool Complete(const absl::Status& status,
                const worker::FinishInfo& info) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    end_ = status;
    if (status.ok()) {
      EndReply(info, delta_, *delta_.mutable_finish());
      has_delta_ = true;
    }
    return true;
  }

  v1::StreamGenerateResponse delta_ ABSL_GUARDED_BY(mu_);
  bool has_delta_ ABSL_GUARDED_BY(mu_) = false;
  bool is_behind_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
};

class EmbeddedStream final : public ReplyStream {
 public:
  explicit EmbeddedStream(std::shared_ptr<EmbeddedCall> call)
      : call_(std::move(call)) {}
  ~EmbeddedStream() override { call_->Abandon(); }

  absl::StatusOr<std::optional<v1::StreamGenerateResponse>> Next() override {
    return call_->Next();
  }

 private:
  const std::shared_ptr<EmbeddedCall> call_;
};

class EmbeddedGenerator final : public Generator {
 public:
  explicit EmbeddedGenerator(LoadedModel model) : model_(std::move(model)) {
    served_.name = model_.name;
    served_.engine = model_.engine.get();
    served_.own_template = model_.own_template;
    if (model_.chat.has_value()) {
      served_.chat_format = *model_.chat;
    } else {
      served_.chat_format =
          absl::InternalError("the model was loaded without a chat format");
    }
  }

  absl::StatusOr<std::unique_ptr<ReplyStream>> Start(
      const v1::StreamGenerateRequest& request) override {
    return Begin(request);
  }

  absl::StatusOr<v1::Session> OpenSession(
      const v1::OpenSessionRequest& request) override {
    services::ByteBudget::Share held;
    return services::OpenSession(served_, {{}, "", held}, request);
  }

  absl::StatusOr<v1::Session> GetSession(
      const v1::GetSessionRequest& request) override {
    ASSIGN_OR_RETURN(const worker::SessionInfo info,
                     served_.engine->GetSession(request.session_id(), ""));
    return services::DescribeSession(served_, info);
  }

  absl::StatusOr<std::unique_ptr<ReplyStream>> Chat(
      const v1::ChatRequest& request) override {
    return Begin(request);
  }

  absl::Status CloseSession(const v1::CloseSessionRequest& request) override {
    return served_.engine->CloseSession(request.session_id(), "");
  }

  absl::StatusOr<v1::GetMemoryResponse> GetMemory(
      const v1::GetMemoryRequest& /*request*/) override {
    v1::GetMemoryResponse response =
        services::MemoryToProto(*served_.engine, model_.used_names);
    response.set_model(model_.name);
    return response;
  }

 private:
  // A copy of the request, because its input is freed.
  template <typename Request>
  absl::StatusOr<std::unique_ptr<ReplyStream>> Begin(Request request) {
    auto call = std::make_shared<EmbeddedCall>(services::BootTime());
    services::ByteBudget::Share held;
    ASSIGN_OR_RETURN(services::Generation generation,
                     services::Prepare(served_, {{}, "", held}, request));
    RETURN_IF_ERROR(EmbeddedCall::Start(std::move(generation), call));
    return std::make_unique<EmbeddedStream>(std::move(call));
  }

  LoadedModel model_;
  services::ServedModel served_;  // what model_ serves
};

}  // namespace

std::unique_ptr<Generator> NewEmbeddedGenerator(LoadedModel model) {
  return std::make_unique<EmbeddedGenerator>(std::move(model));
}

}  // namespace plimsoll::cli
