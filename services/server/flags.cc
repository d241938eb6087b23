#include "services/server/flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "planner/layout/memory_plan.h"
#include "services/host/timed_writer.h"
#include "services/server/access/grants.h"
#include "services/server/access/listen_address.h"

namespace plimsoll::services {
namespace {

bool IsGoodName(absl::string_view name) {
  return !name.empty() && name.size() <= ModelFlag::kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  c == '-' || c == '_' || c == '.' || c == ':';
         });
}

constexpr char kDigestMark[] = "@sha256:";
constexpr size_t kDigestDigits = 64;

// Moves the digest at the end of `flag.path`, if there is one, to its place.
// Returns what is wrong with it, or nothing.
std::string TakeDigest(ModelFlag& flag) {
  const size_t mark = flag.path.rfind(kDigestMark);
  if (mark == std::string::npos) return "";
  flag.sha256 = flag.path.substr(mark + sizeof(kDigestMark) - 1);
  flag.path.resize(mark);
  const bool is_digest =
      flag.sha256.size() == kDigestDigits &&
      flag.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_digest) return "@sha256: takes 64 digits of hex, in lower case";
  return flag.path.empty() ? "takes NAME=FILE" : "";
}

// Returns what is wrong with one --model, or nothing.
std::string AddModel(const std::string& text, std::vector<ModelFlag>& models,
                     ModelDigests digests) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals + 1 == text.size()) {
    return "takes NAME=FILE";
  }
  ModelFlag flag{text.substr(0, equals), text.substr(equals + 1)};
  if (std::string wrong = TakeDigest(flag); !wrong.empty()) return wrong;
  if (!flag.sha256.empty() && digests == ModelDigests::kRefused) {
    return "a planner reads headers only and cannot check a digest; leave out "
           "@sha256:, which is for plimsoll-worker";
  }
  if (!IsGoodName(flag.name)) {
    return "a name has letters, digits, '-', '_', '.' and ':' only, and at "
           "most 128 of them";
  }
  if (HasModel(models, flag.name)) return "two models have one name";
  models.push_back(std::move(flag));
  return "";
}

int64_t Checked(uint64_t bytes, const std::string& name) {
  if (bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    throw CLI::ValidationError(name, "is too large");
  }
  return static_cast<int64_t>(bytes);
}

// Returns what is wrong with an address to listen on, or nothing.
std::string CheckAddress(const std::string& address) {
  if (IsUnixAddress(address)) {
    return std::string(ParseUnixAddress(address, "it").status().message());
  }
  return CheckHostPort(address);
}

// Adds --socket-mode, in octal digits.
void AddSocketModeFlag(CLI::App& app, mode_t& mode) {
  app.add_option_function<std::string>(
         "--socket-mode",
         [&mode](const std::string& digits) {
           mode = static_cast<mode_t>(std::stoul(digits, nullptr, 8));
         },
         "Mode of the files of Unix sockets: who may write to it may connect")
      ->type_name("OCTAL")
      ->default_str("0660")
      ->check([](const std::string& digits) {
        const bool is_mode =
            !digits.empty() && digits.size() <= 4 &&
            digits.find_first_not_of("01234567") == digits.npos &&
            std::stoul(digits, nullptr, 8) <= 0777;
        return is_mode ? std::string()
                       : "takes octal digits, 0 to 777, such as 0660";
      });
}

// Adds an option for a Duration, or for one that may be absent.
template <typename Time>
CLI::Option* AddTime(CLI::App& app, const FlagText& text, Time& time,
                     const TimeBounds& bounds) {
  return app
      .add_option_function<double>(
          text.name,
          [&time](const double& seconds) { time = absl::Seconds(seconds); },
          text.help)
      ->check(CLI::Range(absl::ToDoubleSeconds(bounds.least),
                         absl::ToDoubleSeconds(bounds.most)));
}

}  // namespace

std::string CheckHostPort(const std::string& address) {
  return std::string(ParseListen(address, "it").status().message());
}

void AddSecurityFlags(CLI::App& app, ServerTls& tls, std::string& tokens) {
  app.add_option("--tls-cert", tls.cert,
                 "Speak TLS: the server's certificate and those up to the CA "
                 "(PEM); it is read again when it changes")
      ->type_name("FILE");
  app.add_option("--tls-key", tls.key,
                 "The private key of --tls-cert (PEM, without a password)")
      ->type_name("FILE");
  app.add_option("--tls-client-ca", tls.client_ca,
                 "Take only clients with a certificate of a CA in this file")
      ->type_name("FILE");
  app.add_option("--tokens", tokens,
                 "Take only calls with a token of this file, which plimsoll "
                 "token new writes; it is read again when it changes")
      ->type_name("FILE");
}

void AddClientFlags(CLI::App& app, ClientSecurity& security) {
  if (const char* token = std::getenv("PLIMSOLL_TOKEN")) {
    security.token = token;
  }
  app.add_option("--tls-ca", security.ca,
                 "Speak TLS with a server whose certificate comes from a CA in "
                 "this file, or from one that the system trusts: \"system\"")
      ->type_name("FILE");
  app.add_option("--tls-client-cert", security.cert,
                 "The certificate that a server which wants one gets")
      ->type_name("FILE");
  app.add_option("--tls-client-key", security.key,
                 "The private key of --tls-client-cert")
      ->type_name("FILE");
  app.add_option("--token-file", security.token_file,
                 "A file with the token for a server that wants one "
                 "($PLIMSOLL_TOKEN)")
      ->type_name("FILE");
}

void AddSecondsFlag(CLI::App& app, const FlagText& text, absl::Duration& time,
                    const TimeBounds& bounds) {
  AddTime(app, text, time, bounds)
      ->default_str(absl::StrCat(absl::ToDoubleSeconds(time)));
}

void AddSecondsFlag(CLI::App& app, const FlagText& text,
                    std::optional<absl::Duration>& time,
                    const TimeBounds& bounds) {
  AddTime(app, text, time, bounds);
}

void AddCoreDumpsFlag(CLI::App& app, bool& allows_core_dumps) {
  app.add_flag("--core-dumps", allows_core_dumps,
               "Leave core dumps as the system has them, to debug a crash; a "
               "dump holds prompts and keys. Without it a crash dumps nothing");
}

void AddLogFlags(CLI::App& app, LogSettings& log) {
  static const std::map<std::string, LogLevel> levels = {
      {"info", LogLevel::kInfo},
      {"warning", LogLevel::kWarning},
      {"error", LogLevel::kError}};
  app.add_option("--log-level", log.least,
                 "The least important lines that are written on stderr")
      ->transform(CLI::CheckedTransformer(levels))
      ->default_str("info");
  static const std::map<std::string, LogFormat> formats = {
      {"text", LogFormat::kText}, {"json", LogFormat::kJson}};
  app.add_option("--log-format", log.format,
                 "How a line is written: text, or json, an object a line")
      ->transform(CLI::CheckedTransformer(formats))
      ->default_str("text");
}

void AddServerFlags(CLI::App& app, ServerOptions& options) {
  app.add_option("--listen", options.listen,
                 "HOST:PORT to listen on, port 0 takes any; or unix:/PATH, "
                 "where the user of a calling process says what it may do: the "
                 "server's own user and root everything, others what --grant "
                 "gives them")
      ->capture_default_str()
      ->check(CheckAddress);
  app.add_option("--admin-listen", options.admin_listen,
                 "HOST:PORT or unix:/PATH, as --listen takes them: where "
                 "methods are served that change this server, and only there. "
                 "At a worker these load and unload models, drain and abort; "
                 "at a planner they register devices and hold leases, so "
                 "workers call it there (--listen)")
      ->check([](const std::string& address) {
        return address.empty() ? std::string() : CheckAddress(address);
      });
  AddSocketModeFlag(app, options.socket_mode);
  app.add_option("--grant", options.grants,
                 "WHO=ROLE[:TENANT]: what callers without a token may do. WHO "
                 "is uid:N, user:NAME, gid:N or group:NAME on a Unix socket, "
                 "and uri:URI, dns:NAME or cn:NAME of a client's certificate; "
                 "repeatable")
      ->type_name("GRANT")
      ->expected(1)
      ->take_all()
      ->check([](const std::string& grant) {
        return std::string(ParseGrant(grant).status().message());
      });
  app.add_flag("--reflection", options.has_reflection,
               "Serve reflection, which lists all methods, also at addresses "
               "that are not loopback");
  AddNetworkFlags(app, options);
}

void AddNetworkFlags(CLI::App& app, ServerOptions& options) {
  app.add_flag("--insecure,--i-understand-this-is-insecure",
               options.allow_insecure,
               "Listen on an address that is not loopback without TLS, or "
               "without asking who calls");
  app.add_option("--metrics-listen", options.metrics_listen,
                 "HOST:PORT on which Prometheus gets /metrics, and a probe "
                 "/health and /livez, over HTTP without TLS and without "
                 "authentication; "
                 "port 0 takes any (none: there are no metrics)")
      ->check([](const std::string& address) {
        return address.empty() ? std::string() : CheckHostPort(address);
      });
  AddSecurityFlags(app, options.tls, options.tokens);
  AddSecondsFlag(
      app, {"--drain-timeout", "Seconds that running calls get after SIGTERM"},
      options.drain_timeout, {absl::ZeroDuration(), absl::Hours(1)});
  AddSecondsFlag(
      app,
      {"--reader-timeout",
       "Seconds after which a call whose client reads nothing is cancelled"},
      options.reader_timeout, {absl::Milliseconds(100), absl::Hours(1)});
  AddLogFlags(app, options.log);
  AddCoreDumpsFlag(app, options.allows_core_dumps);
  app.set_version_flag("--version", PLIMSOLL_VERSION);
}

bool HasModel(const std::vector<ModelFlag>& models, const std::string& name) {
  return std::any_of(
      models.begin(), models.end(),
      [&name](const ModelFlag& model) { return model.name == name; });
}

void AddQuotaFlag(CLI::App& app, std::string& file) {
  app.add_option("--quotas", file,
                 "A file of what each tenant may take; needs --tokens or "
                 "--grant, and is read again when it changes (no quotas)")
      ->type_name("FILE");
}

void AddUsageFlag(CLI::App& app, std::string& file) {
  app.add_option("--usage-file", file,
                 "Append a line of JSON to this file for each request that has "
                 "ended: whose it was and what it took; needs --tokens or "
                 "--grant (none)")
      ->type_name("FILE");
}

absl::Status CheckTenantFlags(const std::string& quotas,
                              const std::string& usage_file,
                              bool knows_callers) {
  if (knows_callers || (quotas.empty() && usage_file.empty())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(quotas.empty() ? "--usage-file" : "--quotas",
                   " needs --tokens or --grant: otherwise a caller chooses "
                   "its tenant"));
}

void AddModelFlag(CLI::App& app, std::vector<ModelFlag>& models,
                  ModelDigests digests) {
  const std::string form = digests == ModelDigests::kChecked
                               ? "NAME=FILE[@sha256:HEX]: a model and its name "
                                 "for clients, and the digest that all its "
                                 "bytes must have when it is loaded; repeatable"
                               : "NAME=FILE: a model and its name for clients; "
                                 "repeatable";
  app.add_option_function<std::vector<std::string>>(
         "--model",
         [&models, digests](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const std::string complaint = AddModel(text, models, digests);
             if (!complaint.empty()) {
               throw CLI::ValidationError("--model " + text, complaint);
             }
           }
         },
         form)
      ->expected(1)
      ->take_all();
}

void AddBytesListFlag(CLI::App& app, const std::string& name,
                      std::vector<int64_t>& bytes, const std::string& help) {
  app.add_option_function<std::vector<uint64_t>>(
         name,
         [&bytes, name](const std::vector<uint64_t>& values) {
           bytes.clear();
           for (const uint64_t value : values) {
             bytes.push_back(Checked(value, name));
           }
         },
         help)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false));
}

CLI::Option* AddBytesFlag(CLI::App& app, const std::string& name,
                          std::optional<int64_t>& bytes,
                          const std::string& help) {
  return app
      .add_option_function<uint64_t>(
          name,
          [&bytes, name](const uint64_t& value) {
            bytes = Checked(value, name);
          },
          help)
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false));
}

absl::StatusOr<std::optional<int64_t>> ParseCpuExperts(
    const std::string& text) {
  constexpr int64_t kMost = planner::LoadOptions::kMaxCpuExperts;
  if (text == "auto") return std::optional<int64_t>();
  if (text == "all") return std::optional<int64_t>(kMost);
  int64_t n = 0;
  if (absl::SimpleAtoi(text, &n) && n >= 0 && n <= kMost) {
    return std::optional<int64_t>(n);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text.substr(0, 40),
      "' is not a number of layers; write all, auto, or 0 to ", kMost));
}

std::optional<int> ParseFlags(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  return std::nullopt;
}

absl::Status ReadFlagsAgain(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return absl::OkStatus();
}

void AnnounceAddress(const std::string& address,
                     const std::string& admin_address) {
  std::string text = absl::StrCat("listening on ", address);
  if (!admin_address.empty()) {
    absl::StrAppend(&text, "\nadministration on ", admin_address);
  }
  TimedWriter(STDOUT_FILENO).Write(text, LogThread::kPatience);
}

int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  TimedWriter(STDERR_FILENO)
      .Write(absl::StrCat("error: ", status.message()), LogThread::kPatience);
  const bool is_usage = status.code() == absl::StatusCode::kInvalidArgument ||
                        status.code() == absl::StatusCode::kFailedPrecondition;
  return is_usage ? 2 : 1;
}

}  // namespace plimsoll::services
