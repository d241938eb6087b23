#include "services/server/credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/grpc_security_constants.h>
#include <grpc/slice.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "services/server/access/keep_grpc.h"
#include "services/server/access/listen_address.h"
#include "services/server/access/token_list.h"
#include "services/server/request_id.h"
#include "services/server/small_file.h"

namespace plimsoll::services {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;

// Seconds between two looks at the files of certificates.
constexpr unsigned int kRefreshSeconds = 1;

absl::string_view TextOf(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)),
          GRPC_SLICE_LENGTH(slice)};
}

// Only MarkLocalClass writes it: gRPC has no property of this name, and peers
// cannot set any.
constexpr char kLocalClass[] = "plimsoll_local_class";

// The class that stands in these values of kLocalClass.
std::optional<size_t> ClassIn(const std::vector<std::string>& marks) {
  size_t local_class = 0;
  if (marks.empty() || !absl::SimpleAtoi(marks.front(), &local_class)) {
    return std::nullopt;
  }
  return local_class;
}

// What a connection proves. `values_of` gives all values of a property.
template <typename ValuesOf>
std::optional<Identity> Known(const ValuesOf& values_of,
                              const CallGuard& guard) {
  const std::vector<std::string> marks = values_of(kLocalClass);
  if (!marks.empty()) {
    const std::optional<size_t> local_class = ClassIn(marks);
    return local_class.has_value() ? guard.LocalIdentity(*local_class)
                                   : std::nullopt;
  }
  CertificateNames names{.uris = values_of(GRPC_PEER_URI_PROPERTY_NAME),
                         .dns = values_of(GRPC_PEER_DNS_PROPERTY_NAME)};
  const std::vector<std::string> common = values_of(GRPC_X509_CN_PROPERTY_NAME);
  if (common.size() == 1) names.common_name = common.front();
  return guard.IdentityOf(names);
}

std::vector<std::string> ValuesIn(const grpc_auth_context* context,
                                  const char* name) {
  std::vector<std::string> values;
  grpc_auth_property_iterator properties =
      grpc_auth_context_find_properties_by_name(context, name);
  while (const grpc_auth_property* property =
             grpc_auth_property_iterator_next(&properties)) {
    values.emplace_back(property->value, property->value_length);
  }
  return values;
}

std::vector<std::string> ValuesIn(const grpc::CallbackServerContext& context,
                                  const char* name) {
  std::vector<std::string> values;
  const auto connection = context.auth_context();
  if (connection == nullptr) return values;
  for (const grpc::string_ref& value : connection->FindPropertyValues(name)) {
    values.emplace_back(value.data(), value.size());
  }
  return values;
}

// What the connection of `context` proves. Only gRPC's question may ask, before
// the call's method runs.
std::optional<Identity> KnownBy(const grpc_auth_context* context,
                                const CallGuard& guard) {
  return Known([context](const char* name) { return ValuesIn(context, name); },
               guard);
}

// Writes on a connection through a Unix socket that its processes are in
// `local_class` of the guard. All calls of the connection do it before their
// methods run, and only the first one changes anything, so that methods read
// what nobody writes any more. Thread-safe.
void MarkLocalClass(grpc_auth_context* context, size_t local_class) {
  static absl::Mutex mu(absl::kConstInit);
  absl::MutexLock lock(&mu);
  if (!ValuesIn(context, kLocalClass).empty()) return;
  grpc_auth_context_add_cstring_property(context, kLocalClass,
                                         absl::StrCat(local_class).c_str());
}

// Whom gRPC asks about the calls of one port.
struct Asked {
  std::shared_ptr<CallGuard> guard;  // null: it takes all calls of `served`
  // Where processes of this machine call: the class that all of them are in.
  std::optional<size_t> local_class;
  ServedMethods served = {};
};

// Errors: kPermissionDenied or kUnimplemented if the address does not serve it.
absl::Status CheckServed(const ServedMethods& served, absl::string_view path) {
  if (IsServed(served.methods, path)) {
    return served.has_reflection || !IsReflection(path)
               ? absl::OkStatus()
               : absl::UnimplementedError(
                     "this address is not loopback, where reflection is off: "
                     "start the server with --reflection");
  }
  return absl::PermissionDeniedError(
      served.methods == MethodSet::kAdmin
          ? "the address of --admin-listen serves what changes this server and "
            "health; call the one of --listen for everything else"
          : "this server serves what changes it at the address of "
            "--admin-listen only");
}

// What stands in a call's metadata.
struct Asking {
  absl::string_view path;
  absl::string_view authorization;
  absl::string_view request_id;
};

Asking ReadAsking(const grpc_metadata* metadata, size_t n_metadata) {
  Asking asking;
  int n_tokens = 0;
  for (size_t i = 0; i < n_metadata; ++i) {
    const absl::string_view key = TextOf(metadata[i].key);
    const absl::string_view value = TextOf(metadata[i].value);
    if (key == ":path") asking.path = value;
    if (key == kRequestIdKey && IsGoodRequestId(value)) {
      asking.request_id = value;
    }
    if (key != "authorization") continue;
    // Two of them are none: nobody knows which one counts elsewhere.
    asking.authorization = n_tokens++ == 0 ? value : "";
  }
  return asking;
}

// Whether a call may go on, by what its connection and its metadata say.
absl::Status JudgeCall(const Asked& asked, grpc_auth_context* context,
                       const Asking& asking) {
  RETURN_IF_ERROR(CheckServed(asked.served, asking.path));
  if (asked.guard == nullptr) return absl::OkStatus();
  CallGuard& guard = *asked.guard;
  if (asked.local_class.has_value()) {
    MarkLocalClass(context, *asked.local_class);
  }
  return guard.Check(asking.path, asking.authorization, KnownBy(context, guard),
                     asking.request_id);
}

// gRPC's question about one call, whose metadata has its path too.
void AskGuard(void* state, grpc_auth_context* context,
              const grpc_metadata* metadata, size_t n_metadata,
              grpc_process_auth_metadata_done_cb done, void* user_data) {
  const Asking asking = ReadAsking(metadata, n_metadata);
  const Asked& asked = *static_cast<const Asked*>(state);
  const absl::Status status = JudgeCall(asked, context, asking);
  const auto answer = [done, user_data, status] {
    // The codes of both libraries have the same numbers.
    done(user_data, nullptr, 0, nullptr, 0,
         static_cast<grpc_status_code>(status.code()),
         std::string(status.message()).c_str());
  };
  if (asked.guard == nullptr) return answer();
  asked.guard->Answer(status, asking.authorization, answer);
}

void DropAsked(void* state) { delete static_cast<Asked*>(state); }

// Credentials that ask a guard. gRPC's C++ class for it would do so with TLS
// only; a token may also come over loopback.
class GuardedCredentials final : public grpc::ServerCredentials {
 public:
  // Takes `credentials` over.
  GuardedCredentials(grpc_server_credentials* credentials, Asked asked)
      : credentials_(credentials) {
    if (asked.guard == nullptr && asked.served.is_all()) return;
    grpc_server_credentials_set_auth_metadata_processor(
        credentials_, {&AskGuard, &DropAsked, new Asked(std::move(asked))});
  }
  ~GuardedCredentials() override {
    grpc_server_credentials_release(credentials_);
  }

  // Does nothing: the guard is the only one that is asked.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

grpc_server_credentials* NewTlsServerCredentials(const ServerTls& tls) {
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(
          tls.key, tls.cert, tls.client_ca, kRefreshSeconds));
  options.watch_identity_key_cert_pairs();
  if (tls.client_ca.empty()) {
    options.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  } else {
    options.watch_root_certs();
    options.set_cert_request_type(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc_tls_server_credentials_create(options.c_credentials_options());
}

std::shared_ptr<grpc::ChannelCredentials> NewTlsChannelCredentials(
    const ClientSecurity& security) {
  const std::string ca =
      security.ca == ClientSecurity::kSystem ? "" : security.ca;
  grpc::experimental::TlsChannelCredentialsOptions options;
  if (!ca.empty() || !security.cert.empty()) {
    options.set_certificate_provider(
        std::make_shared<FileWatcherCertificateProvider>(
            security.key, security.cert, ca, kRefreshSeconds));
  }
  if (!ca.empty()) options.watch_root_certs();
  if (!security.cert.empty()) options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

// Gives each call the token. A file is read each time, so that a new token is
// used without a restart.
class TokenSender final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit TokenSender(const ClientSecurity& security)
      : file_(security.token_file), token_(security.token) {}

  bool IsBlocking() const override { return false; }  // the file is small
  const char* GetType() const override { return "plimsoll token"; }
  grpc::string DebugString() override { return GetType(); }

  grpc::Status GetMetadata(
      grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
      std::multimap<grpc::string, grpc::string>* metadata) override {
    std::string token = token_;
    if (!file_.empty()) {
      auto text = ReadSmallFile(file_, kMaxTokenBytes);
      if (!text.ok()) {
        return {grpc::StatusCode::UNAUTHENTICATED,
                std::string(text.status().message())};
      }
      token = *std::move(text);
    }
    metadata->emplace(
        "authorization",
        absl::StrCat("Bearer ", absl::StripAsciiWhitespace(token)));
    return grpc::Status::OK;
  }

 private:
  const std::string file_;
  const std::string token_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> NewServerCredentials(
    const ServerTls& tls, std::shared_ptr<CallGuard> guard,
    ServedMethods served) {
  KeepGrpc();
  if (!tls.is_on() && guard == nullptr && served.is_all()) {
    return grpc::InsecureServerCredentials();
  }
  return std::make_shared<GuardedCredentials>(
      tls.is_on() ? NewTlsServerCredentials(tls)
                  : grpc_insecure_server_credentials_create(),
      Asked{std::move(guard), std::nullopt, served});
}

std::shared_ptr<grpc::ServerCredentials> NewLocalCredentials(
    std::shared_ptr<CallGuard> guard, size_t local_class,
    ServedMethods served) {
  KeepGrpc();
  return std::make_shared<GuardedCredentials>(
      grpc_insecure_server_credentials_create(),
      Asked{std::move(guard), local_class, served});
}

std::shared_ptr<grpc::ChannelCredentials> NewChannelCredentials(
    const ClientSecurity& security, absl::string_view address) {
  KeepGrpc();
  if (!security.has_token()) {
    return security.is_tls() ? NewTlsChannelCredentials(security)
                             : grpc::InsecureChannelCredentials();
  }
  auto sender = std::make_unique<TokenSender>(security);
  if (security.is_tls()) {
    return grpc::CompositeChannelCredentials(
        NewTlsChannelCredentials(security),
        grpc::MetadataCredentialsFromPlugin(std::move(sender)));
  }
  // Plain text on the wire, which gRPC refuses to speak beyond this machine.
  return grpc::CompositeChannelCredentials(
      grpc::experimental::LocalCredentials(IsUnixAddress(address) ? UDS
                                                                  : LOCAL_TCP),
      grpc::experimental::MetadataCredentialsFromPlugin(std::move(sender),
                                                        GRPC_SECURITY_NONE));
}

std::optional<size_t> LocalClassOf(const grpc::CallbackServerContext& context) {
  return ClassIn(ValuesIn(context, kLocalClass));
}

std::optional<Identity> CallerOf(const grpc::CallbackServerContext& context,
                                 const CallGuard& guard) {
  // Two tokens are none: nobody knows which one counts elsewhere.
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  absl::string_view authorization;
  if (metadata.count("authorization") == 1) {
    authorization = {found->second.data(), found->second.size()};
  }
  return guard.Identify(
      authorization,
      Known([&context](const char* name) { return ValuesIn(context, name); },
            guard));
}

}  // namespace plimsoll::services
