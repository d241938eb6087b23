// Flags that worker and planner share.
#ifndef PLIMSOLL_SERVICES_SERVER_FLAGS_H_
#define PLIMSOLL_SERVICES_SERVER_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/server/server.h"
#include "services/server/tls_files.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace plimsoll::services {

// One --model NAME=FILE. Clients know only the name.
struct ModelFlag {
  static constexpr size_t kMaxNameBytes = 128;

  std::string name;  // letters, digits, '-', '_', '.', ':'; unique
  std::string path;
  // The SHA-256 digest of all bytes of the model's files, one file after the
  // other, as 64 hex digits. Empty: any bytes are accepted.
  std::string sha256 = {};
};

// Whether one of `models` has this name.
bool HasModel(const std::vector<ModelFlag>& models, const std::string& name);

// The allowed range of a time; both ends are included.
struct TimeBounds {
  absl::Duration least;
  absl::Duration most;
};
// The name of an option, and what --help says of it.
struct FlagText {
  std::string name;
  std::string help;
};
// Adds an option for a time in seconds. Its default is the value of `time`.
void AddSecondsFlag(CLI::App& app, const FlagText& text, absl::Duration& time,
                    const TimeBounds& bounds);
void AddSecondsFlag(CLI::App& app, const FlagText& text,
                    std::optional<absl::Duration>& time,
                    const TimeBounds& bounds);

// Returns the error of a HOST:PORT, or "" if it is valid.
std::string CheckHostPort(const std::string& address);

// Adds --core-dumps.
void AddCoreDumpsFlag(CLI::App& app, bool& allows_core_dumps);

// Adds --log-level and --log-format.
void AddLogFlags(CLI::App& app, LogSettings& log);

// Adds --listen, --admin-listen, --metrics-listen, --drain-timeout, --version,
// --core-dumps, the flags for callers' rights, and the flags of AddLogFlags.
void AddServerFlags(CLI::App& app, ServerOptions& options);
// Adds the server flags except those for the address, and for callers by a Unix
// socket or by a certificate.
void AddNetworkFlags(CLI::App& app, ServerOptions& options);

// Adds the flags for callers' rights: --tls-cert, --tls-key, --tls-client-ca
// and --tokens.
void AddSecurityFlags(CLI::App& app, ServerTls& tls, std::string& tokens);

// Adds the flags for calls of a server: --tls-ca, --tls-client-cert,
// --tls-client-key and --token-file. Without --token-file, the environment
// variable PLIMSOLL_TOKEN is the token.
void AddClientFlags(CLI::App& app, ClientSecurity& security);

// Adds --quotas.
void AddQuotaFlag(CLI::App& app, std::string& file);

// Adds --usage-file.
void AddUsageFlag(CLI::App& app, std::string& file);

// Errors: kInvalidArgument for the value of --quotas or of --usage-file if the
// server does not identify its callers.
absl::Status CheckTenantFlags(const std::string& quotas,
                              const std::string& usage_file,
                              bool knows_callers);

// Whether the values of --model may have a digest. Only a process that reads
// whole files can check it.
enum class ModelDigests { kChecked, kRefused };
// Adds --model, which may be repeated.
void AddModelFlag(CLI::App& app, std::vector<ModelFlag>& models,
                  ModelDigests digests);

// Adds an option for a size in bytes: a plain number, or one with KiB...TiB or
// B.
CLI::Option* AddBytesFlag(CLI::App& app, const std::string& name,
                          std::optional<int64_t>& bytes,
                          const std::string& help);

// Adds an option for several sizes, separated by commas.
void AddBytesListFlag(CLI::App& app, const std::string& name,
                      std::vector<int64_t>& bytes, const std::string& help);

inline constexpr char kIdleSessionsHelp[] =
    "Snapshots that are kept of beginnings of prompts, so that models with "
    "sliding windows or states can share them; each takes what a slot keeps "
    "beside pages";
inline constexpr char kIdleSessionBytesHelp[] =
    "Bytes, such as 512MiB, for such snapshots, of which there are then as "
    "many as have room";
inline constexpr char kIdleSessionsTwice[] =
    "stands beside --idle-sessions; leave one of them out";
inline constexpr char kMmapHelp[] =
    "Weights stay in the mapped file: nothing is copied, and processes share "
    "the page cache; decoding takes up to twice as long; only on a CPU";

// The value of --cpu-experts: "all", "auto", which gives nothing, or a number
// of layers. Errors: kInvalidArgument saying what is allowed.
absl::StatusOr<std::optional<int64_t>> ParseCpuExperts(const std::string& text);
inline constexpr char kCpuExpertsHelp[] =
    "Layers, from the first one on, whose experts lie in host memory, where "
    "the CPU computes them, while all else is on a GPU; auto: as few as make "
    "room for the context, or for 4096 tokens where that is solved too (0)";

// Parses the flags. Returns the exit code if the process must end now: 0 after
// --help, 2 for a mistake, which was printed.
std::optional<int> ParseFlags(CLI::App& app, int argc, char** argv);

// Parses the flags of a process that runs already. Prints nothing.
// Errors: kInvalidArgument with the mistake.
absl::Status ReadFlagsAgain(CLI::App& app, int argc, char** argv);

// Prints "listening on ADDRESS" on standard output at once, and, if there is
// one, "administration on ADDRESS" in a line of its own.
void AnnounceAddress(const std::string& address,
                     const std::string& admin_address = "");

// Prints the error, if any. Returns 0 or 1, or 2 for a flag that makes no
// sense.
int ExitCode(const absl::Status& status);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_FLAGS_H_
