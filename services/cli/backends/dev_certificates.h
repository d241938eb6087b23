// Makes certificates for trying TLS on one machine: a CA, and certificates of a
// server and of a client.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_DEV_CERTIFICATES_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_DEV_CERTIFICATES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace plimsoll::cli {

// A certificate and its private key, both PEM.
struct CertificatePair {
  std::string certificate;
  std::string key;
};

// How long the certificates are valid.
inline constexpr absl::Duration kDevCertificateLife = absl::Hours(24 * 365);

// Makes a CA that signs itself.
// Errors: kInternal if OpenSSL fails.
absl::StatusOr<CertificatePair> NewDevCa();

// Makes a server's certificate for `hosts`: names of DNS, and addresses.
// Errors: kInvalidArgument if `ca` is no CA or a host is neither; kInternal if
// OpenSSL fails.
absl::StatusOr<CertificatePair> NewDevServer(
    const CertificatePair& ca, const std::vector<std::string>& hosts);

// Makes a client's certificate with the common name `name`. `others`, if not
// empty, are its alternative names as OpenSSL writes them, such as
// "URI:spiffe://a/b,DNS:c". Errors: as NewDevServer.
absl::StatusOr<CertificatePair> NewDevClient(const CertificatePair& ca,
                                             const std::string& name,
                                             const std::string& others = "");

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_DEV_CERTIFICATES_H_
