// The files by which both ends of a connection prove their identity.
#ifndef PLIMSOLL_SERVICES_SERVER_TLS_FILES_H_
#define PLIMSOLL_SERVICES_SERVER_TLS_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::services {

// The files of a server. All are PEM and are read again when they change.
struct ServerTls {
  std::string cert = "";  // the certificate, then intermediate certificates
  std::string key = "";   // the certificate's private key
  std::string client_ca = "";  // CAs of which clients must have a certificate

  bool is_on() const { return !cert.empty() || !key.empty(); }
};

// The TLS files and the token of a client.
struct ClientSecurity {
  // A value of `ca` that means the CAs which the system trusts.
  static constexpr char kSystem[] = "system";

  std::string ca = "";    // CAs for the server's certificate
  std::string cert = "";  // the client's own certificate, if it has one
  std::string key = "";
  std::string token_file = "";  // a token; read for each call
  std::string token = "";       // the token itself, if there is no file

  bool is_tls() const { return !ca.empty(); }
  bool has_token() const { return !token_file.empty() || !token.empty(); }
};

// The contents of a server's files.
struct ServerPem {
  std::string cert = "";
  std::string key = "";
  std::string client_ca = "";

  bool operator==(const ServerPem&) const = default;
};

// Reads the files; the result is empty if no file is set.
// Errors: kInvalidArgument if a needed file is not set, if a file cannot be
// read or is no certificate, or if the key does not belong to the certificate.
absl::StatusOr<ServerPem> ReadServerTls(const ServerTls& tls);

// Returns the errors of ReadServerTls.
absl::Status CheckServerTls(const ServerTls& tls);

// Checks the client's files and token for calls of `address`, HOST:PORT or
// unix:/PATH.
// Errors: as CheckServerTls; kInvalidArgument also if a token would be sent
// without TLS to an address that is not on this machine, and for TLS with a
// Unix socket.
absl::Status CheckClientSecurity(const ClientSecurity& security,
                                 absl::string_view address);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_TLS_FILES_H_
