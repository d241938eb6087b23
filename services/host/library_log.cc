#include "services/host/library_log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <string>

#include "services/host/log.h"

namespace plimsoll::services {
namespace {

void LogProtobuf(google::protobuf::LogLevel level, const char* /*file*/,
                 int /*line*/, const std::string& message) {
  if (level < google::protobuf::LOGLEVEL_WARNING) return;
  Log(LogLevel::kWarning, "Protocol Buffers report an error",
      {{"error", message}});
}

void LogGrpc(gpr_log_func_args* args) {
  if (args->severity != GPR_LOG_SEVERITY_ERROR) return;
  Log(LogLevel::kWarning, "gRPC reports an error",
      {{"error", std::string(args->message)}});
}

}  // namespace

void TakeLibraryLogs() {
  google::protobuf::SetLogHandler(LogProtobuf);
  gpr_set_log_function(LogGrpc);
}

}  // namespace plimsoll::services
