// Text from a model of this process: the engine's step thread on one side, the
// command on the other.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "services/cli/backends/embedded.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/host/clock.h"
#include "services/wire/chat_tools.h"
#include "services/wire/from_proto.h"
#include "services/wire/to_proto.h"

namespace plimsoll::cli {
namespace {

// Output that waits for the command's reader, as one part. Shared by the stream
// and the engine: either may end first.
class PartSink final : public worker::TokenSink {
 public:
  explicit PartSink(services::ReplyTools tools) : tools_(std::move(tools)) {}

  // Tokens, of the prompt where they are scored and generated ones, that wait
  // at most; beyond, only this sequence pauses. Enough for a
  // whole default context, so that a batch keeps its slots busy while an
  // earlier line is printed.
  static constexpr int kMaxPendingTokens = 4'096;

  bool OnOutput(worker::StepOutput& output) override {
    absl::MutexLock lock(&mu_);
    if (abandoned_) return true;
    if (part_.tokens_size() + part_.prompt_logprobs_size() >=
        kMaxPendingTokens) {
      is_behind_ = true;
      return false;
    }
    services::AppendOutput(output, part_);
    tools_.Append(output, part_);
    has_part_ = true;
    changed_.Signal();
    return true;
  }

  void OnEnd(const absl::Status& status,
             const worker::FinishInfo& info) override {
    absl::MutexLock lock(&mu_);
    end_ = status;
    info_ = info;
    if (status.ok()) {
      const int n_calls = part_.tool_calls_size();
      reason_ = tools_.End(info, part_);
      has_part_ |= part_.tool_calls_size() > n_calls;
    }
    changed_.Signal();
  }

  bool Abandoned() const override {
    absl::MutexLock lock(&mu_);
    return abandoned_;
  }

  void Abandon() {
    absl::MutexLock lock(&mu_);
    abandoned_ = true;
  }

  struct Taken {
    std::optional<v1::StreamGenerateResponse> part;
    std::optional<absl::Status> end;  // with `info`; after all parts
    worker::FinishInfo info;
    v1::FinishReason reason = v1::FINISH_REASON_UNSPECIFIED;
    bool was_behind = false;  // the engine waits for a Wake
  };

  // Waits for output or the end. Errors: InterruptedError.
  absl::StatusOr<Taken> Take() {
    absl::MutexLock lock(&mu_);
    while (!has_part_ && !end_.has_value()) {
      if (Interrupted()) return InterruptedError();
      changed_.WaitWithTimeout(&mu_, kInterruptPoll);
    }
    Taken taken;
    if (has_part_) {
      taken.part = std::exchange(part_, {});
      has_part_ = false;
      taken.was_behind = std::exchange(is_behind_, false);
      return taken;
    }
    taken.end = end_;
    taken.info = info_;
    taken.reason = reason_;
    return taken;
  }

 private:
  mutable absl::Mutex mu_;
  absl::CondVar changed_;
  v1::StreamGenerateResponse part_ ABSL_GUARDED_BY(mu_);
  bool has_part_ ABSL_GUARDED_BY(mu_) = false;
  bool is_behind_ ABSL_GUARDED_BY(mu_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  worker::FinishInfo info_ ABSL_GUARDED_BY(mu_);
  services::ReplyTools tools_ ABSL_GUARDED_BY(mu_);
  v1::FinishReason reason_ ABSL_GUARDED_BY(mu_) = v1::FINISH_REASON_UNSPECIFIED;
};

class EmbeddedStream final : public PartStream {
 public:
  EmbeddedStream(worker::Engine& engine, std::shared_ptr<PartSink> sink,
                 v1::StreamGenerateResponse first, absl::Time start)
      : engine_(engine),
        sink_(std::move(sink)),
        first_(std::move(first)),
        start_(start) {}

  ~EmbeddedStream() override {
    if (ended_) return;
    sink_->Abandon();
    engine_.Wake();
  }

  absl::StatusOr<std::optional<v1::StreamGenerateResponse>> Next() override {
    if (first_.has_value()) return std::exchange(first_, std::nullopt);
    if (ended_) return std::nullopt;
    ASSIGN_OR_RETURN(PartSink::Taken taken, sink_->Take());
    if (taken.was_behind) engine_.Wake();
    if (taken.part.has_value()) return std::move(taken.part);
    ended_ = true;
    RETURN_IF_ERROR(*taken.end);
    v1::StreamGenerateResponse last;
    v1::FinishInfo& finish = *last.mutable_finish();
    finish.set_finish_reason(taken.reason);
    if (taken.info.reason == worker::FinishReason::kStopString) {
      finish.set_stop_string(taken.info.stop_string);
    }
    *finish.mutable_timing() =
        services::TimingToProto(taken.info, services::BootTime() - start_);
    *finish.mutable_usage() = services::UsageToProto(taken.info);
    *finish.mutable_memory() = services::ToProto(engine_.Memory());
    return last;
  }

 private:
  worker::Engine& engine_;
  // Shared with the engine, whose step thread may outlive this stream.
  std::shared_ptr<PartSink> sink_;
  std::optional<v1::StreamGenerateResponse> first_;
  const absl::Time start_;
  bool ended_ = false;
};

class EmbeddedGenerator final : public Generator {
 public:
  explicit EmbeddedGenerator(LoadedModel model) : model_(std::move(model)) {}

  absl::StatusOr<std::unique_ptr<PartStream>> Start(
      const v1::StreamGenerateRequest& request) override {
    const absl::Time start = services::BootTime();
    ASSIGN_OR_RETURN(
        worker::GenerateOptions options,
        services::FromProto(request.sampling(), request.stopping(),
                            request.response(), request.context_policy()));
    RETURN_IF_ERROR(services::FillRoll(request.roll(), options));
    RETURN_IF_ERROR(services::FillConstraint(request, options));
    RETURN_IF_ERROR(Encode(request, options));
    return Submit(std::move(options), request.has_chat(), start);
  }

  absl::StatusOr<v1::Session> OpenSession(
      const v1::OpenSessionRequest& request) override {
    ASSIGN_OR_RETURN(const worker::ChatFormat format, Format());
    ASSIGN_OR_RETURN(
        const worker::SessionOptions options,
        services::FromProto(request, format, model_.engine->tokenizer()));
    ASSIGN_OR_RETURN(const worker::SessionInfo info,
                     model_.engine->OpenSession(options));
    return services::ToProto(info);
  }

  absl::StatusOr<v1::Session> GetSession(
      const v1::GetSessionRequest& request) override {
    ASSIGN_OR_RETURN(const worker::SessionInfo info,
                     model_.engine->GetSession(request.session_id(), ""));
    return services::ToProto(info);
  }

  absl::StatusOr<std::unique_ptr<PartStream>> Chat(
      const v1::ChatRequest& request) override {
    const absl::Time start = services::BootTime();
    ASSIGN_OR_RETURN(
        worker::GenerateOptions options,
        services::FromProto(request.sampling(), request.stopping(),
                            request.response(), v1::CONTEXT_POLICY_ROLL));
    RETURN_IF_ERROR(services::FillConstraint(request, options));
    options.session_id = request.session_id();
    ASSIGN_OR_RETURN(const worker::ChatFormat format, Format());
    ASSIGN_OR_RETURN(options.prompt_ids,
                     worker::EncodeContent(model_.engine->tokenizer(), format,
                                           request.message()));
    return Submit(std::move(options), /*is_chat=*/true, start);
  }

  absl::Status CloseSession(const v1::CloseSessionRequest& request) override {
    return model_.engine->CloseSession(request.session_id(), "");
  }

 private:
  absl::StatusOr<std::unique_ptr<PartStream>> Submit(
      worker::GenerateOptions options, bool is_chat, absl::Time start) {
    v1::StreamGenerateResponse first;
    v1::PromptInfo& prompt = *first.mutable_prompt();
    for (int32_t id : options.prompt_ids) {
      prompt.add_prompt_ids(services::ToUint32(id));
    }
    prompt.set_model(model_.name);
    prompt.set_n_ctx(services::ToUint32(model_.engine->n_ctx()));
    if (is_chat && model_.chat.has_value()) {
      prompt.set_chat_format(
          std::string(worker::ChatFormatName(model_.chat->format)));
    }
    auto sink = std::make_shared<PartSink>(
        services::ReplyTools(model_.engine->tokenizer(), options.tool_markers));
    RETURN_IF_ERROR(model_.engine->Submit(std::move(options), sink));
    return std::make_unique<EmbeddedStream>(*model_.engine, std::move(sink),
                                            std::move(first), start);
  }

  absl::StatusOr<worker::ChatFormat> Format() const {
    if (!model_.chat.has_value()) {
      return absl::InternalError("the model was loaded without a chat format");
    }
    return model_.chat->format;
  }

  absl::Status Encode(const v1::StreamGenerateRequest& request,
                      worker::GenerateOptions& options) const {
    const worker::Tokenizer& tokenizer = model_.engine->tokenizer();
    if (!request.has_chat()) {
      ASSIGN_OR_RETURN(options.prompt_ids,
                       tokenizer.EncodeWithBos(request.text().raw_text(),
                                               request.text().parse_special()));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const worker::ChatFormat format, Format());
    ASSIGN_OR_RETURN(
        services::EncodedChat chat,
        services::EncodeChatPrompt(tokenizer, format, request.chat()));
    options.prompt_ids = std::move(chat.ids);
    options.tool_markers = chat.tool_markers;
    return absl::OkStatus();
  }

  LoadedModel model_;
};

}  // namespace

std::unique_ptr<Generator> NewEmbeddedGenerator(LoadedModel model) {
  return std::make_unique<EmbeddedGenerator>(std::move(model));
}

}  // namespace plimsoll::cli
