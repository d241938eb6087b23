#include "services/worker/calls/generation_service.h"

#include "plimsoll/v1/generation.grpc.pb.h"
#include "services/worker/calls/score_call.h"
#include "services/worker/calls/stream_call.h"
#include "services/worker/calls/unary_call.h"

namespace plimsoll::services {
namespace {

using grpc::CallbackServerContext;

class GenerationServiceImpl final
    : public v1::GenerationService::CallbackService {
 public:
  GenerationServiceImpl(ModelRegistry& registry, CallGate& gate, WorkPool& pool,
                        absl::Duration reader_timeout)
      : room_{registry, {gate, registry.messages(), reader_timeout}, pool} {}

  grpc::ServerUnaryReactor* Generate(
      CallbackServerContext* context, const v1::GenerateRequest* request,
      v1::GenerateResponse* response) noexcept override {
    return UnaryCall::Start(*context, room_, *request, *response);
  }

  grpc::ServerUnaryReactor* Score(
      CallbackServerContext* context, const v1::ScoreRequest* request,
      v1::ScoreResponse* response) noexcept override {
    return ScoreCall::Start(*context, room_, *request, *response);
  }

  grpc::ServerWriteReactor<v1::StreamGenerateResponse>* StreamGenerate(
      CallbackServerContext* context,
      const v1::StreamGenerateRequest* request) noexcept override {
    return GenerateStream::Start(*context, room_, *request);
  }

 private:
  const CallRoom room_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewGenerationService(
    ModelRegistry& registry, CallGate& gate, WorkPool& pool,
    absl::Duration reader_timeout) {
  return std::make_unique<GenerationServiceImpl>(registry, gate, pool,
                                                 reader_timeout);
}

}  // namespace plimsoll::services
