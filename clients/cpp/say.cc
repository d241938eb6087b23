// Streams a worker's reply to a message: say ADDRESS MESSAGE [MAX_TOKENS].
#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "plimsoll/v1/generation.grpc.pb.h"

namespace v1 = plimsoll::v1;

namespace {

// A channel that repeats the calls that may be repeated, if
// PLIMSOLL_SERVICE_CONFIG names proto/plimsoll/v1/service_config.json.
std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  if (const char* path = std::getenv("PLIMSOLL_SERVICE_CONFIG")) {
    std::ifstream file(path);
    arguments.SetServiceConfigJSON({std::istreambuf_iterator<char>(file), {}});
  }
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

// The reason that the server gives for a failure, a name of v1.ErrorReason.
std::string ReasonOf(const grpc::Status& status) {
  google::rpc::Status details;
  details.ParseFromString(status.error_details());
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info)) return info.reason();
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::cerr << "usage: say ADDRESS MESSAGE [MAX_TOKENS]\n";
    return 2;
  }
  v1::StreamGenerateRequest request;
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role(v1::CHAT_ROLE_USER);
  message.set_content(argv[2]);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(
      argc > 3 ? static_cast<uint32_t>(std::atoi(argv[3])) : 64);

  const auto stub = v1::GenerationService::NewStub(Connect(argv[1]));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::minutes(1));
  const auto stream = stub->StreamGenerate(&context, request);
  v1::StreamGenerateResponse part;
  while (stream->Read(&part)) std::cout << part.text() << std::flush;
  std::cout << "\n";

  const grpc::Status status = stream->Finish();
  if (status.ok()) return 0;
  std::cerr << "error: " << ReasonOf(status) << ": " << status.error_message()
            << "\n";
  return 1;
}
