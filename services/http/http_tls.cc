#include "services/http/http_tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/system/system_error.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/host/log.h"

namespace plimsoll::services {
namespace {

namespace asio = boost::asio;
using asio::ssl::context;
using boost::system::error_code;

// ALPN's list of what the server speaks: lengths and names.
constexpr unsigned char kProtocols[] = "\x08http/1.1";

// OpenSSL's question which of the client's protocols is spoken. Clients that
// have another one only, such as those of gRPC, are refused.
int ChooseProtocol(SSL*, const unsigned char** chosen, unsigned char* n_chosen,
                   const unsigned char* offered, unsigned int n_offered,
                   void*) {
  unsigned char* found = nullptr;
  const int result = SSL_select_next_proto(
      &found, n_chosen, kProtocols, sizeof(kProtocols) - 1, offered, n_offered);
  *chosen = found;
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK
                                          : SSL_TLSEXT_ERR_ALERT_FATAL;
}

absl::Status SetLimits(SSL_CTX* handle) {
  SSL_CTX_set_options(handle, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
  SSL_CTX_set_mode(handle, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_max_cert_list(handle, kMaxClientChainBytes);
  SSL_CTX_set_alpn_select_cb(handle, &ChooseProtocol, nullptr);
  // Each connection has a whole handshake: its certificates are checked then,
  // and no sessions are kept.
  SSL_CTX_set_session_cache_mode(handle, SSL_SESS_CACHE_OFF);
  if (SSL_CTX_set_num_tickets(handle, 0) == 1 &&
      SSL_CTX_set_min_proto_version(handle, TLS1_2_VERSION) == 1) {
    return absl::OkStatus();
  }
  return absl::InternalError("OpenSSL does not take the limits of TLS");
}

absl::Status Complaint(const std::string& path, const error_code& error) {
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.message()));
}

absl::StatusOr<std::unique_ptr<context>> NewContext(const ServerTls& files,
                                                    const ServerPem& pem) {
  std::unique_ptr<context> made;
  try {
    made = std::make_unique<context>(context::tls_server);
  } catch (const boost::system::system_error& error) {
    return absl::InternalError(
        absl::StrCat("OpenSSL makes no TLS: ", error.what()));
  }
  RETURN_IF_ERROR(SetLimits(made->native_handle()));
  error_code error;
  made->use_certificate_chain(asio::buffer(pem.cert), error);
  RETURN_IF_ERROR(Complaint(files.cert, error));
  made->use_private_key(asio::buffer(pem.key), context::pem, error);
  RETURN_IF_ERROR(Complaint(files.key, error));
  if (pem.client_ca.empty()) return made;
  made->add_certificate_authority(asio::buffer(pem.client_ca), error);
  RETURN_IF_ERROR(Complaint(files.client_ca, error));
  made->set_verify_mode(
      asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert, error);
  RETURN_IF_ERROR(Complaint(files.client_ca, error));
  return made;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpTls>> HttpTls::Open(
    ServerTls files, std::function<absl::Time()> clock) {
  std::unique_ptr<HttpTls> tls(new HttpTls(std::move(files), std::move(clock)));
  RETURN_IF_ERROR(tls->Read());
  return tls;
}

absl::Status HttpTls::Read() {
  ASSIGN_OR_RETURN(ServerPem pem, ReadServerTls(files_));
  if (pem == pem_) return absl::OkStatus();
  ASSIGN_OR_RETURN(context_, NewContext(files_, pem));
  pem_ = std::move(pem);
  return absl::OkStatus();
}

context& HttpTls::Current() {
  if (!timer_.IsDue(clock_())) return *context_;
  const context* before = context_.get();
  const absl::Status status = Read();
  if (!status.ok() && status != last_) {
    Log(LogLevel::kError,
        "the files of certificates are bad; those that were read last are used",
        {{"error", std::string(status.message())}});
  }
  if (context_.get() != before) {
    Log(LogLevel::kInfo, "the files of certificates were read again", {});
  }
  last_ = status;
  return *context_;
}

bool IsPlainHttp(const error_code& error) {
  return error.category() == asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(error.value())) ==
             SSL_R_HTTP_REQUEST;
}

}  // namespace plimsoll::services
