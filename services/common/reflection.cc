// Reflection where the gRPC library brings v1alpha only: v1 is ours, over the
// descriptors that are linked into the program.
#include "services/common/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/impl/server_initializer.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"

namespace plimsoll::services {
namespace {

namespace reflection = ::grpc::reflection::v1;
using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;

void SetError(grpc::StatusCode code, const char* message,
              reflection::ServerReflectionResponse& response) {
  reflection::ErrorResponse& error = *response.mutable_error_response();
  error.set_error_code(code);
  error.set_error_message(message);
}

// Appends what `file` imports, directly or not, and then itself; those in
// `seen` are left out.
void AppendFiles(const FileDescriptor* file,
                 std::set<const FileDescriptor*>& seen,
                 std::vector<const FileDescriptor*>& files) {
  if (!seen.insert(file).second) return;
  for (int i = 0; i < file->dependency_count(); ++i) {
    AppendFiles(file->dependency(i), seen, files);
  }
  files.push_back(file);
}

// `file`, before what it imports; null means that it was not found.
void SetFile(const FileDescriptor* file,
             reflection::ServerReflectionResponse& response) {
  if (file == nullptr) {
    SetError(grpc::NOT_FOUND, "no such file or symbol", response);
    return;
  }
  reflection::FileDescriptorResponse& answer =
      *response.mutable_file_descriptor_response();
  std::set<const FileDescriptor*> seen;
  std::vector<const FileDescriptor*> files;
  AppendFiles(file, seen, files);
  for (auto it = files.rbegin(); it != files.rend(); ++it) {
    google::protobuf::FileDescriptorProto proto;
    (*it)->CopyTo(&proto);
    answer.add_file_descriptor_proto(proto.SerializeAsString());
  }
}

const FileDescriptor* FileOfExtension(
    const DescriptorPool& pool, const reflection::ExtensionRequest& request) {
  const Descriptor* type =
      pool.FindMessageTypeByName(request.containing_type());
  if (type == nullptr) return nullptr;
  const FieldDescriptor* extension =
      pool.FindExtensionByNumber(type, request.extension_number());
  return extension == nullptr ? nullptr : extension->file();
}

void SetExtensions(const DescriptorPool& pool, const std::string& type_name,
                   reflection::ServerReflectionResponse& response) {
  const Descriptor* type = pool.FindMessageTypeByName(type_name);
  if (type == nullptr) {
    SetError(grpc::NOT_FOUND, "no such message", response);
    return;
  }
  reflection::ExtensionNumberResponse& answer =
      *response.mutable_all_extension_numbers_response();
  answer.set_base_type_name(type_name);
  std::vector<const FieldDescriptor*> extensions;
  pool.FindAllExtensions(type, &extensions);
  for (const FieldDescriptor* extension : extensions) {
    answer.add_extension_number(extension->number());
  }
}

reflection::ServerReflectionResponse Answer(
    const reflection::ServerReflectionRequest& request,
    const std::vector<std::string>& services) {
  using Request = reflection::ServerReflectionRequest;
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  reflection::ServerReflectionResponse response;
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
      SetFile(FileOfExtension(pool, request.file_containing_extension()),
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

// One stream. The next request is read when the last answer was sent, so it
// holds one of each at most. Owned by gRPC until OnDone.
class ReflectionCall final
    : public grpc::ServerBidiReactor<reflection::ServerReflectionRequest,
                                     reflection::ServerReflectionResponse> {
 public:
  explicit ReflectionCall(const std::vector<std::string>& services)
      : services_(services) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(grpc::Status::OK);
    } else if (request_.ByteSizeLong() > kMaxReflectionRequestBytes) {
      Finish({grpc::INVALID_ARGUMENT,
              absl::StrCat("a request may have at most ",
                           kMaxReflectionRequestBytes, " bytes")});
    } else {
      response_ = Answer(request_, services_);
      StartWrite(&response_);
    }
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      StartRead(&request_);
    } else {
      Finish({grpc::CANCELLED, "the client is gone"});
    }
  }

  void OnDone() override { delete this; }

 private:
  const std::vector<std::string>& services_;
  reflection::ServerReflectionRequest request_;
  reflection::ServerReflectionResponse response_;
};

class ReflectionServiceImpl final
    : public reflection::ServerReflection::CallbackService {
 public:
  // `services` is the server's own list, complete before it takes a call.
  explicit ReflectionServiceImpl(const std::vector<std::string>& services)
      : services_(services) {}

  grpc::ServerBidiReactor<reflection::ServerReflectionRequest,
                          reflection::ServerReflectionResponse>*
  ServerReflectionInfo(grpc::CallbackServerContext*) override {
    return new ReflectionCall(services_);
  }

 private:
  const std::vector<std::string>& services_;
};

// Adds the service to a server, which keeps it.
class ReflectionPlugin final : public grpc::ServerBuilderPlugin {
 public:
  std::string name() override { return "plimsoll.reflection.v1"; }
  void InitServer(grpc::ServerInitializer* server) override {
    server->RegisterService(
        std::make_shared<ReflectionServiceImpl>(*server->GetServiceList()));
  }
  void Finish(grpc::ServerInitializer*) override {}
  void ChangeArguments(const std::string&, void*) override {}
};

}  // namespace

void EnableReflection() {
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder::InternalAddPluginFactory(
      []() -> std::unique_ptr<grpc::ServerBuilderPlugin> {
        return std::make_unique<ReflectionPlugin>();
      });
}

}  // namespace plimsoll::services
