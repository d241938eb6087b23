// The files with which both ends of a connection prove who they are.
#ifndef PLIMSOLL_SERVICES_SERVER_TLS_FILES_H_
#define PLIMSOLL_SERVICES_SERVER_TLS_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::services {

// The files of a server. All are PEM and are read again when they change.
struct ServerTls {
  std::string cert = "";  // its certificate, then those between it and the CA
  std::string key = "";   // the certificate's private key
  std::string client_ca =
      "";  // clients must have a certificate of one of these

  bool is_on() const { return !cert.empty() || !key.empty(); }
};

// What a client speaks with: the files of its TLS, and its token.
struct ClientSecurity {
  // A value of `ca` that means the CAs which the system trusts.
  static constexpr char kSystem[] = "system";

  std::string ca = "";    // whom a server's certificate must come from
  std::string cert = "";  // the client's own certificate, if it has one
  std::string key = "";
  std::string token_file = "";  // a token; read for each call
  std::string token = "";       // the token itself, where there is no file

  bool is_tls() const { return !ca.empty(); }
  bool has_token() const { return !token_file.empty() || !token.empty(); }
};

// What the files of a server have.
struct ServerPem {
  std::string cert = "";
  std::string key = "";
  std::string client_ca = "";

  bool operator==(const ServerPem&) const = default;
};

// Reads the files; without any there is nothing in it.
// Errors: kInvalidArgument if a file lacks another one, cannot be read or is no
// certificate, or if a key is not that of its certificate.
absl::StatusOr<ServerPem> ReadServerTls(const ServerTls& tls);

// Returns the errors of ReadServerTls.
absl::Status CheckServerTls(const ServerTls& tls);

// Checks what a client needs for calls of `address`, HOST:PORT or unix:/PATH.
// Errors: as CheckServerTls; kInvalidArgument also if a token would be sent
// without TLS to an address that is not on this machine, and for TLS with a
// Unix socket.
absl::Status CheckClientSecurity(const ClientSecurity& security,
                                 absl::string_view address);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_TLS_FILES_H_
