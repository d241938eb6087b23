// `plimsoll cert`: certificates for trying TLS on one machine.
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/cli/backends/dev_certificates.h"
#include "services/cli/commands/commands.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/private_file.h"
#include "services/server/small_file.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kCertDescription[] =
    "Make certificates for TLS\n"
    "'plimsoll cert dev DIR' makes certificates for trying it on one machine.";

constexpr char kDevDescription[] =
    "Make a CA and certificates of a server and of a client, for a year\n"
    "They are for trying TLS, and for tests. DIR then has ca.pem, server.pem "
    "and client.pem, and their keys: ca-key.pem, server-key.pem and "
    "client-key.pem. A CA that is there already is kept and signs new "
    "certificates, which running servers take within two seconds.";

constexpr char kDevFooter[] =
    "Examples:\n"
    "  plimsoll cert dev ~/plimsoll-tls\n"
    "  plimsoll cert dev ~/plimsoll-tls --host gpu1.example.org";

constexpr size_t kMaxPemBytes = 1 << 20;

struct DevFlags {
  std::string folder;
  std::vector<std::string> hosts;
};

// Where a certificate and its key lie.
struct PairFiles {
  std::string certificate;
  std::string key;
};

PairFiles FilesOf(const std::string& folder, const std::string& name) {
  return {absl::StrCat(folder, "/", name, ".pem"),
          absl::StrCat(folder, "/", name, "-key.pem")};
}

// The key comes first: a server that looks in between goes on with the old
// certificate, or refuses new connections until it looks again.
absl::Status Write(const PairFiles& files, const CertificatePair& pair) {
  RETURN_IF_ERROR(WritePrivateFile(files.key, pair.key));
  return WritePrivateFile(files.certificate, pair.certificate);
}

// Returns the CA of the folder, and makes it if there is none.
absl::StatusOr<CertificatePair> TakeCa(const PairFiles& files) {
  std::error_code error;
  CertificatePair ca;
  if (fs::exists(files.certificate, error) || fs::exists(files.key, error)) {
    ASSIGN_OR_RETURN(ca.certificate,
                     services::ReadSmallFile(files.certificate, kMaxPemBytes));
    ASSIGN_OR_RETURN(ca.key, services::ReadSmallFile(files.key, kMaxPemBytes));
    return ca;
  }
  ASSIGN_OR_RETURN(ca, NewDevCa());
  RETURN_IF_ERROR(Write(files, ca));
  return ca;
}

absl::Status RunDev(const DevFlags& flags, Streams& streams) {
  std::error_code error;
  if (fs::create_directories(flags.folder, error)) {
    fs::permissions(flags.folder, fs::perms::owner_all, error);
  }
  if (!fs::is_directory(flags.folder, error)) {
    return absl::UnavailableError(
        absl::StrCat(flags.folder, ": cannot be made a folder"));
  }
  const PairFiles ca_files = FilesOf(flags.folder, "ca");
  const PairFiles server_files = FilesOf(flags.folder, "server");
  const PairFiles client_files = FilesOf(flags.folder, "client");
  std::vector<std::string> hosts = {"localhost", "127.0.0.1", "::1"};
  hosts.insert(hosts.end(), flags.hosts.begin(), flags.hosts.end());
  ASSIGN_OR_RETURN(const CertificatePair ca, TakeCa(ca_files));
  ASSIGN_OR_RETURN(const CertificatePair server, NewDevServer(ca, hosts));
  ASSIGN_OR_RETURN(const CertificatePair client,
                   NewDevClient(ca, "plimsoll-client"));
  RETURN_IF_ERROR(Write(server_files, server));
  RETURN_IF_ERROR(Write(client_files, client));
  streams.out << "a server:  --tls-cert " << server_files.certificate
              << " --tls-key " << server_files.key << "\n"
              << "a client:  --tls-ca " << ca_files.certificate << "\n"
              << "both show who they are:\n"
              << "a server:  --tls-client-ca " << ca_files.certificate << "\n"
              << "a client:  --tls-client-cert " << client_files.certificate
              << " --tls-client-key " << client_files.key << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddCert(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("cert", kCertDescription);
  command->footer(kDevFooter);
  command->require_subcommand(1);
  CLI::App* dev = command->add_subcommand("dev", kDevDescription);
  dev->footer(kDevFooter);
  auto flags = std::make_shared<DevFlags>();
  dev->add_option("folder", flags->folder, "The folder for the files")
      ->type_name("DIR")
      ->required();
  dev->add_option("--host", flags->hosts,
                  "Another name or address of the server, beside localhost; "
                  "repeatable")
      ->type_name("HOST")
      ->expected(1)
      ->take_all();
  dev->callback([flags, &commands] {
    commands.run = [flags, &commands] {
      return RunDev(*flags, commands.streams);
    };
  });
}

}  // namespace plimsoll::cli
