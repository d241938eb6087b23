#include "services/cli/backends/remote_generator.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "base/sync/steady_mutex.h"
#include "plimsoll/v1/generation.grpc.pb.h"
#include "plimsoll/v1/model.grpc.pb.h"
#include "plimsoll/v1/session.grpc.pb.h"
#include "services/cli/backends/remote.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/wire/broken_connection.h"

namespace plimsoll::cli {
namespace {

v1::StreamGenerateResponse ToDelta(v1::StreamGenerateResponse&& message) {
  return std::move(message);
}

v1::StreamGenerateResponse ToDelta(v1::ChatResponse&& message) {
  v1::StreamGenerateResponse delta;
  if (message.has_prompt()) {
    delta.mutable_prompt()->Swap(message.mutable_prompt());
  }
  delta.mutable_text()->swap(*message.mutable_text());
  delta.mutable_tokens()->Swap(message.mutable_tokens());
  delta.mutable_evictions()->Swap(message.mutable_evictions());
  delta.mutable_reasoning()->swap(*message.mutable_reasoning());
  delta.mutable_tool_calls()->Swap(message.mutable_tool_calls());
  delta.mutable_tool_call_deltas()->Swap(message.mutable_tool_call_deltas());
  if (message.has_finish()) {
    delta.mutable_finish()->Swap(message.mutable_finish());
  }
  return delta;
}

template <typename Request, typename Response>
class RemoteStream final : public ReplyStream,
                           private grpc::ClientReadReactor<Response> {
 public:
  // `start(context, request, reactor)` makes the call.
  template <typename Start>
  RemoteStream(const Start& start, Endpoint address, Request request)
      : address_(std::move(address)), request_(std::move(request)) {
    start(&context_, &request_,
          static_cast<grpc::ClientReadReactor<Response>*>(this));
    // Reads start outside of reactions, so OnDone waits for the last of them.
    this->AddHold();
    this->StartRead(&message_);
    this->StartCall();
  }

  // gRPC must be done with this object before the object is destroyed.
  ~RemoteStream() override {
    context_.TryCancel();
    while (!DrainOne()) continue;
  }

  absl::StatusOr<std::optional<v1::StreamGenerateResponse>> Next() override {
    Response message;
    {
      SteadyMutexLock lock(&mu_);
      while (!HasNews()) {
        if (Interrupted()) return InterruptedError();
        mu_.AwaitFor(absl::Condition(this, &RemoteStream::HasNews),
                     kInterruptPoll);
      }
      if (status_.has_value()) {
        if (status_->ok()) return std::nullopt;
        return has_begun_ ? StreamStatus(*status_, address_)
                          : CallStatus(*status_, address_);
      }
      message = std::exchange(message_, {});
      state_ = State::kReading;
      has_begun_ = true;
    }
    this->StartRead(&message_);
    return ToDelta(std::move(message));
  }

 private:
  enum class State { kReading, kMessage, kEnd };

  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return state_ == State::kMessage || status_.has_value();
  }

  // Drops a message that nobody took. Returns true once gRPC is done.
  bool DrainOne() {
    {
      SteadyMutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &RemoteStream::HasNews));
      if (status_.has_value()) return true;
      state_ = State::kReading;
    }
    this->StartRead(&message_);
    return false;
  }

  void OnReadDone(bool ok) noexcept override {
    if (ok && PLIMSOLL_FAULT("cli.read")) {
      break_.Break(context_);
      ok = false;
    }
    {
      SteadyMutexLock lock(&mu_);
      state_ = ok ? State::kMessage : State::kEnd;
    }
    if (!ok) this->RemoveHold();
  }

  void OnDone(const grpc::Status& status) noexcept override {
    SteadyMutexLock lock(&mu_);
    status_ = break_.EndOf(status);
  }

  const Endpoint address_;
  const Request request_;
  grpc::ClientContext context_;
  SteadyMutex mu_;
  // gRPC writes it while kReading; this object reads it while kMessage.
  Response message_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kReading;
  bool has_begun_ ABSL_GUARDED_BY(mu_) = false;  // Next() gave a message
  services::CallBreak break_;                    // gRPC's
  std::optional<grpc::Status> status_ ABSL_GUARDED_BY(mu_);
};

class RemoteGenerator final : public Generator {
 public:
  explicit RemoteGenerator(const Endpoint& address)
      : address_(address),
        stub_(v1::GenerationService::NewStub(Connect(address))),
        sessions_(v1::SessionService::NewStub(Connect(address))),
        models_(v1::ModelService::NewStub(Connect(address))) {}

  absl::StatusOr<std::unique_ptr<ReplyStream>> Start(
      const v1::StreamGenerateRequest& request) override {
    return Stream<v1::StreamGenerateResponse>(
        request, [this](auto* context, auto* sent, auto* reactor) {
          stub_->async()->StreamGenerate(context, sent, reactor);
        });
  }

  absl::StatusOr<v1::Session> OpenSession(
      const v1::OpenSessionRequest& request) override {
    ASSIGN_OR_RETURN(
        const v1::OpenSessionResponse response,
        Ask<v1::OpenSessionResponse>([&](auto* context, auto* into, auto done) {
          sessions_->async()->OpenSession(context, &request, into,
                                          std::move(done));
        }));
    return response.session();
  }

  absl::StatusOr<v1::Session> GetSession(
      const v1::GetSessionRequest& request) override {
    ASSIGN_OR_RETURN(
        const v1::GetSessionResponse response,
        Ask<v1::GetSessionResponse>([&](auto* context, auto* into, auto done) {
          sessions_->async()->GetSession(context, &request, into,
                                         std::move(done));
        }));
    return response.session();
  }

  absl::StatusOr<std::unique_ptr<ReplyStream>> Chat(
      const v1::ChatRequest& request) override {
    return Stream<v1::ChatResponse>(
        request, [this](auto* context, auto* sent, auto* reactor) {
          sessions_->async()->Chat(context, sent, reactor);
        });
  }

  absl::Status CloseSession(const v1::CloseSessionRequest& request) override {
    // An interruption does not stop this call: an interrupted chat ends with
    // it.
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCloseTimeout);
    v1::CloseSessionResponse response;
    return CallStatus(sessions_->CloseSession(&context, request, &response),
                      address_);
  }

  absl::StatusOr<v1::GetMemoryResponse> GetMemory(
      const v1::GetMemoryRequest& request) override {
    return Ask<v1::GetMemoryResponse>([&](auto* context, auto* response,
                                          auto done) {
      models_->async()->GetMemory(context, &request, response, std::move(done));
    });
  }

 private:
  static constexpr std::chrono::seconds kCloseTimeout{2};

  // Makes a call that has one reply. `start` begins it.
  template <typename Response, typename Start>
  absl::StatusOr<Response> Ask(Start start) {
    Response response;
    RETURN_IF_ERROR(Call(
        [&](grpc::ClientContext* context,
            std::function<void(grpc::Status)> done) {
          start(context, &response, std::move(done));
        },
        address_));
    return response;
  }

  template <typename Response, typename Request, typename Start>
  std::unique_ptr<ReplyStream> Stream(const Request& request,
                                      const Start& start) {
    return std::make_unique<RemoteStream<Request, Response>>(start, address_,
                                                             request);
  }

  const Endpoint address_;
  const std::unique_ptr<v1::GenerationService::Stub> stub_;
  const std::unique_ptr<v1::SessionService::Stub> sessions_;
  const std::unique_ptr<v1::ModelService::Stub> models_;
};

}  // namespace

std::unique_ptr<Generator> NewRemoteGenerator(const Endpoint& address) {
  return std::make_unique<RemoteGenerator>(address);
}

}  // namespace plimsoll::cli
