// Reflection over the descriptors that are linked into the program. The gRPC
// library's own plugin knows v1alpha only and keeps a thread for every open
// stream; these are callback services and keep none.
#include "services/server/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/impl/server_initializer.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "services/server/byte_budget.h"
#include "services/server/call.h"
#include "services/server/peer.h"
#include "services/server/reader_alarm.h"
#include "services/server/server.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

namespace reflection_v1 = ::grpc::reflection::v1;
namespace reflection_v1alpha = ::grpc::reflection::v1alpha;
using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;

// The names of both versions, whose messages are equal to the byte.
struct V1 {
  using Service = reflection_v1::ServerReflection::CallbackService;
  using Request = reflection_v1::ServerReflectionRequest;
  using Response = reflection_v1::ServerReflectionResponse;
};
struct V1Alpha {
  using Service = reflection_v1alpha::ServerReflection::CallbackService;
  using Request = reflection_v1alpha::ServerReflectionRequest;
  using Response = reflection_v1alpha::ServerReflectionResponse;
};

template <typename Response>
void SetError(grpc::StatusCode code, const char* message, Response& response) {
  auto& error = *response.mutable_error_response();
  error.set_error_code(code);
  error.set_error_message(message);
}

// Appends the files that `file` imports, directly or not, and then `file`
// itself. Files in `seen` are left out.
void AppendFiles(const FileDescriptor* file,
                 std::set<const FileDescriptor*>& seen,
                 std::vector<const FileDescriptor*>& files) {
  if (!seen.insert(file).second) return;
  for (int i = 0; i < file->dependency_count(); ++i) {
    AppendFiles(file->dependency(i), seen, files);
  }
  files.push_back(file);
}

// Lists `file` before the files that it imports; null means that it was not
// found.
template <typename Response>
void SetFile(const FileDescriptor* file, Response& response) {
  if (file == nullptr) {
    SetError(grpc::NOT_FOUND, "no such file or symbol", response);
    return;
  }
  auto& answer = *response.mutable_file_descriptor_response();
  std::set<const FileDescriptor*> seen;
  std::vector<const FileDescriptor*> files;
  AppendFiles(file, seen, files);
  for (auto it = files.rbegin(); it != files.rend(); ++it) {
    google::protobuf::FileDescriptorProto proto;
    (*it)->CopyTo(&proto);
    answer.add_file_descriptor_proto(proto.SerializeAsString());
  }
}

const FileDescriptor* FileOfExtension(const DescriptorPool& pool,
                                      const std::string& type_name,
                                      int number) {
  const Descriptor* type = pool.FindMessageTypeByName(type_name);
  if (type == nullptr) return nullptr;
  const FieldDescriptor* extension = pool.FindExtensionByNumber(type, number);
  return extension == nullptr ? nullptr : extension->file();
}

template <typename Response>
void SetExtensions(const DescriptorPool& pool, const std::string& type_name,
                   Response& response) {
  const Descriptor* type = pool.FindMessageTypeByName(type_name);
  if (type == nullptr) {
    SetError(grpc::NOT_FOUND, "no such message", response);
    return;
  }
  auto& answer = *response.mutable_all_extension_numbers_response();
  answer.set_base_type_name(type_name);
  std::vector<const FieldDescriptor*> extensions;
  pool.FindAllExtensions(type, &extensions);
  for (const FieldDescriptor* extension : extensions) {
    answer.add_extension_number(extension->number());
  }
}

template <typename Version>
typename Version::Response Answer(const typename Version::Request& request,
                                  const std::vector<std::string>& services) {
  using Request = typename Version::Request;
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  typename Version::Response response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case Request::kFileByFilename:
      SetFile(pool.FindFileByName(request.file_by_filename()), response);
      break;
    case Request::kFileContainingSymbol:
      SetFile(pool.FindFileContainingSymbol(request.file_containing_symbol()),
              response);
      break;
    case Request::kFileContainingExtension:
      SetFile(FileOfExtension(
                  pool, request.file_containing_extension().containing_type(),
                  request.file_containing_extension().extension_number()),
              response);
      break;
    case Request::kAllExtensionNumbersOfType:
      SetExtensions(pool, request.all_extension_numbers_of_type(), response);
      break;
    case Request::kListServices:
      for (const std::string& name : services) {
        response.mutable_list_services_response()->add_service()->set_name(
            name);
      }
      break;
    case Request::MESSAGE_REQUEST_NOT_SET:
      SetError(grpc::INVALID_ARGUMENT, "nothing is asked for", response);
      break;
  }
  return response;
}

// The state that the calls of one server share; all of it outlives them.
struct Shared {
  // The names of the server's services, complete before it takes a call.
  const std::vector<std::string>& services;
  ByteBudget& answers;
};

// One stream. The next request is read when the last answer was sent, so a
// stream holds at most one of each. It holds the memory of an answer until the
// client has read it. A client that reads nothing is cancelled. gRPC owns the
// stream until OnDone.
template <typename Version>
class ReflectionCall final
    : public grpc::ServerBidiReactor<typename Version::Request,
                                     typename Version::Response> {
 public:
  ReflectionCall(grpc::CallbackServerContext& context, const Shared& shared)
      : services_(shared.services),
        held_(shared.answers.Enter(PeerOf(context.peer()))),
        slow_reader_(context, kReaderTimeout) {
    this->StartRead(&request_);
  }

  void OnReadDone(bool ok) noexcept override {
    if (!ok) return this->Finish(grpc::Status::OK);
    if (request_.ByteSizeLong() > kMaxReflectionRequestBytes) {
      return this->Finish({grpc::INVALID_ARGUMENT,
                           absl::StrCat("a request may have at most ",
                                        kMaxReflectionRequestBytes, " bytes")});
    }
    response_ = Answer<Version>(request_, services_);
    const absl::Status has_room = held_.Resize(MemoryOfReply(response_));
    if (!has_room.ok()) {
      Free(response_);
      return this->Finish(ToGrpc(has_room, ""));
    }
    {
      absl::MutexLock lock(&mu_);
      slow_reader_.Start();
    }
    this->StartWrite(&response_);
  }

  void OnWriteDone(bool ok) noexcept override {
    {
      absl::MutexLock lock(&mu_);
      slow_reader_.Stop();
    }
    Free(response_);
    held_.Shrink(0);
    if (!ok) return this->Finish({grpc::CANCELLED, "the client is gone"});
    this->StartRead(&request_);
  }

  void OnDone() noexcept override { delete this; }

 private:
  const std::vector<std::string>& services_;
  typename Version::Request request_;
  typename Version::Response response_;
  ByteBudget::Share held_;
  absl::Mutex mu_;
  ReaderAlarm slow_reader_ ABSL_GUARDED_BY(mu_);
};

template <typename Version>
class ReflectionService final : public Version::Service {
 public:
  // `answers` is shared by both versions.
  ReflectionService(const std::vector<std::string>& services,
                    std::shared_ptr<ByteBudget> answers)
      : answers_(std::move(answers)), shared_{services, *answers_} {}

  grpc::ServerBidiReactor<typename Version::Request,
                          typename Version::Response>*
  ServerReflectionInfo(grpc::CallbackServerContext* context) noexcept override {
    return new ReflectionCall<Version>(*context, shared_);
  }

 private:
  const std::shared_ptr<ByteBudget> answers_;
  const Shared shared_;
};

// Adds both services to a server, which keeps them.
class ReflectionPlugin final : public grpc::ServerBuilderPlugin {
 public:
  std::string name() override { return "plimsoll.reflection"; }
  void InitServer(grpc::ServerInitializer* server) override {
    const std::vector<std::string>& services = *server->GetServiceList();
    const auto answers = std::make_shared<ByteBudget>(kReflectionBytes);
    server->RegisterService(
        std::make_shared<ReflectionService<V1>>(services, answers));
    server->RegisterService(
        std::make_shared<ReflectionService<V1Alpha>>(services, answers));
  }
  void Finish(grpc::ServerInitializer*) override {}
  void ChangeArguments(const std::string&, void*) override {}
};

}  // namespace

void EnableReflection() {
  grpc::ServerBuilder::InternalAddPluginFactory(
      []() -> std::unique_ptr<grpc::ServerBuilderPlugin> {
        return std::make_unique<ReflectionPlugin>();
      });
}

}  // namespace plimsoll::services
