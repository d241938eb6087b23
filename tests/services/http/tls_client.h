// A client of HTTP that speaks TLS.
#ifndef PLIMSOLL_TESTS_SERVICES_HTTP_TLS_CLIENT_H_
#define PLIMSOLL_TESTS_SERVICES_HTTP_TLS_CLIENT_H_

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <csignal>
#include <memory>
#include <string>

#include "services/server/tls_files.h"
#include "tests/services/http/http_client.h"

namespace plimsoll::services {

// What a test has its client do beside the rules.
struct TlsClientOptions {
  int newest = 0;             // the newest version that it speaks; 0: any
  std::string protocol = "";  // what it asks for by ALPN
};

// One connection. It trusts the CA of `security` and shows its certificate, if
// there is one.
class TlsClient final : public HttpClient {
 public:
  TlsClient(const std::string& address, const ClientSecurity& security,
            const TlsClientOptions& options)
      : HttpClient(address),
        context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free),
        ssl_(nullptr, &SSL_free) {
    // OpenSSL writes to sockets that the server has closed, too.
    std::signal(SIGPIPE, SIG_IGN);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_load_verify_locations(context_.get(), security.ca.c_str(), nullptr);
    if (options.newest != 0) {
      SSL_CTX_set_max_proto_version(context_.get(), options.newest);
      SSL_CTX_set_security_level(context_.get(), 0);  // allows old versions
    }
    if (!security.cert.empty()) {
      SSL_CTX_use_certificate_chain_file(context_.get(), security.cert.c_str());
      SSL_CTX_use_PrivateKey_file(context_.get(), security.key.c_str(),
                                  SSL_FILETYPE_PEM);
    }
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), socket());
    if (!options.protocol.empty()) {
      const std::string list =
          static_cast<char>(options.protocol.size()) + options.protocol;
      SSL_set_alpn_protos(ssl_.get(),
                          reinterpret_cast<const unsigned char*>(list.data()),
                          static_cast<unsigned int>(list.size()));
    }
    is_connected_ = SSL_connect(ssl_.get()) == 1;
    ERR_clear_error();
  }

  // Whether the client's side of the handshake went well.
  bool is_connected() const { return is_connected_; }
  std::string version() const { return SSL_get_version(ssl_.get()); }
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned int n = 0;
    SSL_get0_alpn_selected(ssl_.get(), &name, &n);
    return {reinterpret_cast<const char*>(name), n};
  }
  // The serial number of the server's certificate.
  std::string serial() const {
    const std::unique_ptr<X509, decltype(&X509_free)> shown(
        SSL_get1_peer_certificate(ssl_.get()), &X509_free);
    if (shown == nullptr) return "";
    const ASN1_INTEGER* number = X509_get0_serialNumber(shown.get());
    return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(number)),
            static_cast<size_t>(ASN1_STRING_length(number))};
  }
  // Says that nothing follows, as careful clients do.
  void EndTls() { SSL_shutdown(ssl_.get()); }

 protected:
  ssize_t Transmit(const char* bytes, size_t n) override {
    return SSL_write(ssl_.get(), bytes, static_cast<int>(n));
  }
  ssize_t Receive(char* bytes, size_t n) override {
    return SSL_read(ssl_.get(), bytes, static_cast<int>(n));
  }

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  bool is_connected_ = false;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_TESTS_SERVICES_HTTP_TLS_CLIENT_H_
