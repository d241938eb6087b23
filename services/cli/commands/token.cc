// `plimsoll token`: makes tokens for the callers of a server, lists them and
// takes them back.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/cli/commands/commands.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/private_file.h"
#include "services/cli/terminal/table.h"
#include "services/cli/terminal/terminal.h"
#include "services/server/access/token_list.h"
#include "services/server/token_file.h"

namespace plimsoll::cli {
namespace {

using services::TokenEntry;

constexpr char kTokenDescription[] =
    "Make and revoke the tokens that servers with --tokens want\n"
    "A file of tokens has their hashes only. Running servers read it again "
    "within a second or two.";

constexpr char kNewDescription[] =
    "Make a token and print it, once\n"
    "Its hash goes into the file, which is made if there is none; the token "
    "itself is kept nowhere. Roles: viewer reads the state of servers; user "
    "asks for text and plans; worker holds leases of a planner; admin loads, "
    "unloads, drains, aborts and releases leases by force. Each may also do "
    "what the roles before it may.";

constexpr char kNewFooter[] =
    "Examples:\n"
    "  plimsoll token new --name ada --tenant team-a --role user\n"
    "  plimsoll token new --name w1 --role worker --expires 90d > w1.token";

constexpr char kDefaultFile[] = "tokens.json";
constexpr int64_t kMaxLifeDays = 36'500;

struct TokenFlags {
  std::string file = kDefaultFile;
  std::string name;
  std::string tenant;
  std::string role;
  std::optional<absl::Duration> life;
};

// Parses "90d", "12h" or "30m".
absl::StatusOr<std::optional<absl::Duration>> ParseLife(
    absl::string_view text) {
  absl::Duration unit;
  if (!text.empty()) {
    if (text.back() == 'd') unit = absl::Hours(24);
    if (text.back() == 'h') unit = absl::Hours(1);
    if (text.back() == 'm') unit = absl::Minutes(1);
  }
  int64_t count = 0;
  const bool is_good =
      unit > absl::ZeroDuration() &&
      absl::SimpleAtoi(text.substr(0, text.size() - 1), &count) && count > 0 &&
      count <= kMaxLifeDays && count * unit <= absl::Hours(24 * kMaxLifeDays);
  if (is_good) return count * unit;
  return absl::InvalidArgumentError(
      "takes days, hours or minutes, such as 90d, 12h or 30m");
}

// Reads the tokens of a file; none if it is not there.
absl::StatusOr<std::vector<TokenEntry>> ReadTokensIfAny(
    const std::string& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return std::vector<TokenEntry>();
  return services::ReadTokens(file);
}

auto FindName(std::vector<TokenEntry>& tokens, const std::string& name) {
  return std::find_if(
      tokens.begin(), tokens.end(),
      [&name](const TokenEntry& token) { return token.name == name; });
}

absl::Status RunNew(const TokenFlags& flags, Streams& streams) {
  ASSIGN_OR_RETURN(std::vector<TokenEntry> tokens, ReadTokensIfAny(flags.file));
  if (FindName(tokens, flags.name) != tokens.end()) {
    return UsageError(
        absl::StrCat("there is a token of this name already; "
                     "revoke it, or choose another name"));
  }
  if (tokens.size() >= services::kMaxTokens) {
    return absl::ResourceExhaustedError(
        absl::StrCat(flags.file, ": has ", services::kMaxTokens,
                     " tokens already, which is the most"));
  }
  TokenEntry entry;
  entry.name = flags.name;
  entry.tenant = flags.tenant;
  entry.role = *services::FindRole(flags.role);
  if (flags.life.has_value()) entry.expires = absl::Now() + *flags.life;
  if (const absl::Status status = services::CheckTokenEntry(entry);
      !status.ok()) {
    return UsageError(absl::StrCat("--", status.message()));
  }
  ASSIGN_OR_RETURN(const std::string token, services::NewToken());
  entry.hash = services::HashToken(token);
  tokens.push_back(std::move(entry));
  RETURN_IF_ERROR(
      WritePrivateFile(flags.file, services::FormatTokenList(tokens)));
  streams.out << token << "\n";
  streams.err << "  this is the only time that the token is shown; its hash is "
                 "in "
              << flags.file << "\n";
  return absl::OkStatus();
}

absl::Status RunRevoke(const TokenFlags& flags, Streams& streams) {
  ASSIGN_OR_RETURN(std::vector<TokenEntry> tokens,
                   services::ReadTokens(flags.file));
  const auto found = FindName(tokens, flags.name);
  if (found == tokens.end()) {
    return absl::NotFoundError(
        absl::StrCat(flags.file, ": has no token of this name"));
  }
  tokens.erase(found);
  RETURN_IF_ERROR(
      WritePrivateFile(flags.file, services::FormatTokenList(tokens)));
  streams.out << "  revoked; servers refuse it within two seconds\n";
  return absl::OkStatus();
}

absl::Status RunList(const TokenFlags& flags, Streams& streams) {
  ASSIGN_OR_RETURN(const std::vector<TokenEntry> tokens,
                   services::ReadTokens(flags.file));
  Table table({{"name"}, {"role"}, {"tenant"}, {"expires"}});
  for (const TokenEntry& token : tokens) {
    const bool is_forever = token.expires == absl::InfiniteFuture();
    table.AddRow({Printable(token.name), services::RoleName(token.role),
                  token.tenant.empty() ? "-" : Printable(token.tenant),
                  is_forever
                      ? "never"
                      : absl::FormatTime("%Y-%m-%d %H:%M UTC", token.expires,
                                         absl::UTCTimeZone())});
  }
  if (tokens.empty()) {
    streams.out << "  there are no tokens\n";
  } else {
    streams.out << table.Render(streams.out_style);
  }
  return absl::OkStatus();
}

// One of the commands below `token`.
struct Action {
  std::string name;
  std::string description;
  absl::Status (*run)(const TokenFlags&, Streams&);
};

CLI::App* AddAction(CLI::App& token, const Action& action,
                    const std::shared_ptr<TokenFlags>& flags,
                    Commands& commands) {
  CLI::App* command = token.add_subcommand(action.name, action.description);
  command
      ->add_option("--tokens", flags->file,
                   absl::StrCat("The file of tokens (", kDefaultFile, ")"))
      ->type_name("FILE");
  command->callback([run = action.run, flags, &commands] {
    commands.run = [run, flags, &commands] {
      return run(*flags, commands.streams);
    };
  });
  return command;
}

}  // namespace

void AddToken(CLI::App& app, Commands& commands) {
  CLI::App* token = app.add_subcommand("token", kTokenDescription);
  token->footer(kNewFooter);
  token->require_subcommand(1);
  auto flags = std::make_shared<TokenFlags>();
  CLI::App* made =
      AddAction(*token, {"new", kNewDescription, &RunNew}, flags, commands);
  made->footer(kNewFooter);
  made->add_option("--name", flags->name, "The token's name; unique")
      ->type_name("NAME")
      ->required();
  made->add_option("--tenant", flags->tenant,
                   "The tenant of its calls and sessions; a user has one")
      ->type_name("TENANT");
  made->add_option("--role", flags->role, "viewer, user, worker or admin")
      ->type_name("ROLE")
      ->required()
      ->check(CLI::IsMember({"viewer", "user", "worker", "admin"}));
  AddParsed(*made, &flags->life, ParseLife,
            {.name = "--expires",
             .type = "TIME",
             .help = "How long it is valid, such as 90d (for ever)"});
  AddAction(
      *token,
      {"list", "Show the tokens of a file, without their hashes", &RunList},
      flags, commands);
  CLI::App* revoke = AddAction(
      *token, {"revoke", "Take a token back", &RunRevoke}, flags, commands);
  revoke->add_option("name", flags->name, "The token's name")
      ->type_name("NAME")
      ->required();
}

}  // namespace plimsoll::cli
