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
#include "services/server/listen_address.h"
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

// Reads the first certificate of a file.
absl::StatusOr<X509Ptr> ReadCertificate(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string pem, ReadSmallFile(path, kMaxPemBytes));
  const BioPtr bytes = OpenBytes(pem);
  X509Ptr certificate(
      PEM_read_bio_X509(bytes.get(), nullptr, &NoPassword, nullptr),
      &X509_free);
  ERR_clear_error();
  if (certificate != nullptr) return certificate;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": there is no certificate in it (PEM)"));
}

absl::StatusOr<KeyPtr> ReadKey(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string pem, ReadSmallFile(path, kMaxPemBytes));
  const BioPtr bytes = OpenBytes(pem);
  KeyPtr key(
      PEM_read_bio_PrivateKey(bytes.get(), nullptr, &NoPassword, nullptr),
      &EVP_PKEY_free);
  ERR_clear_error();
  if (key != nullptr) return key;
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": there is no private key in it (PEM, without a password)"));
}

// Checks a certificate and its key.
absl::Status CheckPair(const std::string& cert, const std::string& key) {
  ASSIGN_OR_RETURN(const X509Ptr certificate, ReadCertificate(cert));
  ASSIGN_OR_RETURN(const KeyPtr private_key, ReadKey(key));
  const bool is_pair =
      X509_check_private_key(certificate.get(), private_key.get()) == 1;
  ERR_clear_error();
  if (is_pair) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": is not the key of ", cert));
}

}  // namespace

absl::Status CheckServerTls(const ServerTls& tls) {
  if (tls.cert.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError(
        "--tls-cert and --tls-key go together; give both");
  }
  if (!tls.client_ca.empty() && tls.cert.empty()) {
    return absl::InvalidArgumentError(
        "--tls-client-ca needs TLS; give --tls-cert and --tls-key too");
  }
  if (!tls.is_on()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckPair(tls.cert, tls.key));
  if (tls.client_ca.empty()) return absl::OkStatus();
  return ReadCertificate(tls.client_ca).status();
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
    RETURN_IF_ERROR(ReadCertificate(security.ca).status());
  }
  if (!security.cert.empty()) {
    RETURN_IF_ERROR(CheckPair(security.cert, security.key));
  }
  if (!security.has_token()) return absl::OkStatus();
  if (!security.token_file.empty()) {
    RETURN_IF_ERROR(ReadSmallFile(security.token_file, kMaxPemBytes).status());
  }
  if (security.is_tls()) return absl::OkStatus();
  const auto parsed = ParseListen(address);
  if (parsed.ok() && IsLoopback(parsed->host)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "refusing to send a token to ", address,
      " without TLS, because others could read it; give --tls-ca, or leave out "
      "--token-file and PLIMSOLL_TOKEN"));
}

}  // namespace plimsoll::services
