#include "services/server/tls_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstddef>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/server/access/listen_address.h"
#include "services/server/small_file.h"

namespace plimsoll::services {
namespace {

constexpr size_t kMaxPemBytes = 4 << 20;

using BioPtr = std::unique_ptr<BIO, decltype(&BIO_free_all)>;
using X509Ptr = std::unique_ptr<X509, decltype(&X509_free)>;
using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

BioPtr OpenBytes(const std::string& bytes) {
  return {BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())),
          &BIO_free_all};
}

// Answers OpenSSL's question for a password: there is none.
int NoPassword(char*, int, int, void*) { return -1; }

// Returns the first certificate of a file's text.
absl::StatusOr<X509Ptr> ParseCertificate(const std::string& path,
                                         const std::string& pem) {
  const BioPtr bytes = OpenBytes(pem);
  X509Ptr certificate(
      PEM_read_bio_X509(bytes.get(), nullptr, &NoPassword, nullptr),
      &X509_free);
  ERR_clear_error();
  if (certificate != nullptr) return certificate;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": there is no certificate in it (PEM)"));
}

absl::StatusOr<KeyPtr> ParseKey(const std::string& path,
                                const std::string& pem) {
  const BioPtr bytes = OpenBytes(pem);
  KeyPtr key(
      PEM_read_bio_PrivateKey(bytes.get(), nullptr, &NoPassword, nullptr),
      &EVP_PKEY_free);
  ERR_clear_error();
  if (key != nullptr) return key;
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": there is no private key in it (PEM, without a password)"));
}

// Reads a file that has a certificate.
absl::StatusOr<std::string> ReadCertificates(const std::string& path) {
  ASSIGN_OR_RETURN(std::string pem, ReadSmallFile(path, kMaxPemBytes));
  RETURN_IF_ERROR(ParseCertificate(path, pem).status());
  return pem;
}

// Reads a certificate and its key.
absl::StatusOr<ServerPem> ReadPair(const std::string& cert,
                                   const std::string& key) {
  ServerPem pem;
  ASSIGN_OR_RETURN(pem.cert, ReadSmallFile(cert, kMaxPemBytes));
  ASSIGN_OR_RETURN(const X509Ptr certificate, ParseCertificate(cert, pem.cert));
  ASSIGN_OR_RETURN(pem.key, ReadSmallFile(key, kMaxPemBytes));
  ASSIGN_OR_RETURN(const KeyPtr private_key, ParseKey(key, pem.key));
  const bool is_pair =
      X509_check_private_key(certificate.get(), private_key.get()) == 1;
  ERR_clear_error();
  if (is_pair) return pem;
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": is not the key of ", cert));
}

}  // namespace

absl::StatusOr<ServerPem> ReadServerTls(const ServerTls& tls) {
  if (tls.cert.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError(
        "--tls-cert and --tls-key go together; give both");
  }
  if (!tls.client_ca.empty() && tls.cert.empty()) {
    return absl::InvalidArgumentError(
        "--tls-client-ca needs TLS; give --tls-cert and --tls-key too");
  }
  if (!tls.is_on()) return ServerPem();
  ASSIGN_OR_RETURN(ServerPem pem, ReadPair(tls.cert, tls.key));
  if (tls.client_ca.empty()) return pem;
  ASSIGN_OR_RETURN(pem.client_ca, ReadCertificates(tls.client_ca));
  return pem;
}

absl::Status CheckServerTls(const ServerTls& tls) {
  return ReadServerTls(tls).status();
}

absl::Status CheckClientSecurity(const ClientSecurity& security,
                                 absl::string_view address) {
  if (security.cert.empty() != security.key.empty()) {
    return absl::InvalidArgumentError(
        "--tls-client-cert and --tls-client-key go together; give both");
  }
  if (!security.cert.empty() && !security.is_tls()) {
    return absl::InvalidArgumentError(
        "--tls-client-cert needs TLS; give --tls-ca too");
  }
  if (security.is_tls() && security.ca != ClientSecurity::kSystem) {
    RETURN_IF_ERROR(ReadCertificates(security.ca).status());
  }
  if (!security.cert.empty()) {
    RETURN_IF_ERROR(ReadPair(security.cert, security.key).status());
  }
  const bool is_local = IsUnixAddress(address);
  if (is_local) {
    RETURN_IF_ERROR(ParseUnixAddress(address, "the address").status());
    if (security.is_tls()) {
      return absl::InvalidArgumentError(absl::StrCat(
          address, " is a Unix socket, which has no TLS; leave out --tls-ca"));
    }
  }
  if (!security.has_token()) return absl::OkStatus();
  if (!security.token_file.empty()) {
    RETURN_IF_ERROR(ReadSmallFile(security.token_file, kMaxPemBytes).status());
  }
  if (security.is_tls() || is_local) return absl::OkStatus();
  const auto parsed = ParseListen(address);
  if (parsed.ok() && IsLoopback(parsed->host)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "refusing to send a token to ", address,
      " without TLS, because others could read it; give --tls-ca, or leave out "
      "--token-file and PLIMSOLL_TOKEN"));
}

}  // namespace plimsoll::services
