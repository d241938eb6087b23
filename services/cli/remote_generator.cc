// Text from a worker: one read in flight, so a command that does not read
// costs a bounded amount of memory on both sides.
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "plimsoll/v1/generation.grpc.pb.h"
#include "services/cli/failure.h"
#include "services/cli/interrupt.h"
#include "services/cli/remote.h"

namespace plimsoll::cli {
namespace {

class RemoteStream final
    : public PartStream,
      private grpc::ClientReadReactor<v1::StreamGenerateResponse> {
 public:
  RemoteStream(v1::GenerationService::Stub& stub, std::string address,
               v1::StreamGenerateRequest request)
      : address_(std::move(address)), request_(std::move(request)) {
    stub.async()->StreamGenerate(&context_, &request_, this);
    // Reads start outside of reactions, so OnDone waits for the last of them.
    AddHold();
    StartRead(&message_);
    StartCall();
  }

  // gRPC must be done with this object before it goes.
  ~RemoteStream() override {
    context_.TryCancel();
    while (!DrainOne()) continue;
  }

  absl::StatusOr<std::optional<v1::StreamGenerateResponse>> Next() override {
    v1::StreamGenerateResponse part;
    {
      absl::MutexLock lock(&mu_);
      while (state_ != State::kMessage && !status_.has_value()) {
        if (Interrupted()) return InterruptedError();
        changed_.WaitWithTimeout(&mu_, kInterruptPoll);
      }
      if (status_.has_value()) {
        if (!status_->ok()) return CallStatus(*status_, address_);
        return std::nullopt;
      }
      part = std::exchange(message_, {});
      state_ = State::kReading;
    }
    StartRead(&message_);
    return part;
  }

 private:
  enum class State { kReading, kMessage, kEnd };

  // Drops a message that nobody took. True once gRPC is done.
  bool DrainOne() {
    {
      absl::MutexLock lock(&mu_);
      while (state_ != State::kMessage && !status_.has_value()) {
        changed_.Wait(&mu_);
      }
      if (status_.has_value()) return true;
      state_ = State::kReading;
    }
    StartRead(&message_);
    return false;
  }

  void OnReadDone(bool ok) override {
    {
      absl::MutexLock lock(&mu_);
      state_ = ok ? State::kMessage : State::kEnd;
      changed_.Signal();
    }
    if (!ok) RemoveHold();
  }

  void OnDone(const grpc::Status& status) override {
    absl::MutexLock lock(&mu_);
    status_ = status;
    changed_.Signal();
  }

  const std::string address_;
  const v1::StreamGenerateRequest request_;
  grpc::ClientContext context_;
  absl::Mutex mu_;
  absl::CondVar changed_;
  // Written by gRPC while kReading, ours while kMessage.
  v1::StreamGenerateResponse message_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kReading;
  std::optional<grpc::Status> status_ ABSL_GUARDED_BY(mu_);
};

class RemoteGenerator final : public Generator {
 public:
  explicit RemoteGenerator(const std::string& address)
      : address_(address),
        stub_(v1::GenerationService::NewStub(Connect(address))) {}

  absl::StatusOr<std::unique_ptr<PartStream>> Start(
      const v1::StreamGenerateRequest& request) override {
    return std::make_unique<RemoteStream>(*stub_, address_, request);
  }

 private:
  const std::string address_;
  const std::unique_ptr<v1::GenerationService::Stub> stub_;
};

}  // namespace

std::unique_ptr<Generator> NewRemoteGenerator(const std::string& address) {
  return std::make_unique<RemoteGenerator>(address);
}

}  // namespace plimsoll::cli
