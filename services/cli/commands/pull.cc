// `plimsoll pull`: brings a model from a server into the cache.
#include "services/fetch/pull.h"

#include <google/protobuf/struct.pb.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/cli/commands/commands.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/cli/terminal/json.h"
#include "services/cli/terminal/progress.h"
#include "services/cli/terminal/table.h"
#include "services/fetch/session.h"
#include "services/fetch/source.h"
#include "services/host/clock.h"
#include "services/server/small_file.h"

namespace plimsoll::cli {
namespace {

constexpr char kPullDescription[] =
    "Fetch a model into the cache, where every command finds it by name\n"
    "SOURCE is a URL; oci://REGISTRY/REPOSITORY[:TAG|@sha256:DIGEST], whose "
    "manifest has a GGUF file; or "
    "hf:OWNER/REPOSITORY[:QUANT|/FILE.gguf][@REVISION] at the hub that --hub "
    "names. A model in several files comes whole.\n"
    "A file gets its name when it is whole, has the digest that --sha256, the "
    "registry or the hub names, and has a header that can be read. A transfer "
    "that breaks off goes on where it ended, also in a later run, if the "
    "server still has the same file. Two runs for one file do not fetch it "
    "twice.\n"
    "A file that the cache has is not fetched again. If the server of a hub or "
    "registry cannot be reached, a file that came from there before is "
    "enough.\n"
    "Proxies come from https_proxy, http_proxy and no_proxy, or --proxy; "
    "--tls-ca names the CAs to trust. --token-file has a token for the "
    "source's server (for a registry USER:PASSWORD), $PLIMSOLL_HUB_TOKEN one "
    "for the hub; other servers, to which these may lead, never get it.";

constexpr char kPullFooter[] =
    "Examples:\n"
    "  plimsoll pull https://models.example/qwen3-0.6b-q8_0.gguf\n"
    "  plimsoll pull https://models.example/q.gguf --sha256 DIGEST --name "
    "qwen\n"
    "  plimsoll pull oci://registry.example/models/qwen3:0.6b\n"
    "  plimsoll pull hf:OWNER/REPOSITORY:Q4_K_M --hub https://hub.example\n"
    "  plimsoll serve qwen3-0.6b-q8_0   # then, by name";

struct PullFlags {
  fetch::PullOptions options;
  int64_t silence_s = 60;
  std::string output;
};

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What the state is called in JSON.
std::string StateWord(fetch::PullState state) {
  switch (state) {
    case fetch::PullState::kFetched:
      return "fetched";
    case fetch::PullState::kCached:
      return "cached";
    case fetch::PullState::kOffline:
      return "offline";
  }
  return "";
}

// What the state is called in the table.
std::string StateText(fetch::PullState state) {
  switch (state) {
    case fetch::PullState::kFetched:
      return "fetched";
    case fetch::PullState::kCached:
      return "the cache had it already";
    case fetch::PullState::kOffline:
      return "the cache had it; no server answered";
  }
  return "";
}

std::string PullTable(const fetch::PullReport& report, const Style& style) {
  Table table({{"model"}, {Printable(report.files.front().name)}});
  table.AddRow({"state", StateText(report.state)});
  for (const fetch::PulledFile& file : report.files) {
    table.AddRow({"file", Printable(file.path)});
    table.AddRow({"size", FormatBytes(file.bytes)});
    table.AddRow({"sha256", file.sha256});
  }
  if (!report.is_checked) {
    table.AddRow({"digest", "nobody named one; --sha256 would check it"});
  }
  return table.Render(style);
}

google::protobuf::Struct PullObject(const fetch::PullReport& report) {
  google::protobuf::Struct object;
  auto& fields = *object.mutable_fields();
  fields["model"].set_string_value(report.files.front().name);
  fields["state"].set_string_value(StateWord(report.state));
  fields["checked"].set_bool_value(report.is_checked);
  auto& list = *fields["files"].mutable_list_value();
  for (const fetch::PulledFile& file : report.files) {
    auto& entry = *list.add_values()->mutable_struct_value()->mutable_fields();
    entry["name"].set_string_value(file.name);
    entry["path"].set_string_value(file.path);
    entry["bytes"].set_number_value(static_cast<double>(file.bytes));
    entry["sha256"].set_string_value(file.sha256);
  }
  return object;
}

// Shows files one after another.
class PullView {
 public:
  explicit PullView(Streams& streams) : streams_(streams) {}

  void Update(const std::string& name, int64_t done, int64_t total,
              int64_t before) {
    if (!progress_.has_value() || name != name_ || before != before_) {
      progress_.emplace(
          Work{.name = name, .verb = "fetching", .bytes_before = before},
          services::BootTime(), streams_);
      name_ = name;
      before_ = before;
    }
    progress_->Update(done, total, services::BootTime());
  }

  void Note(const std::string& text) {
    progress_.reset();  // ends the line of a bar
    streams_.err << Printable(text) << "\n" << std::flush;
  }

 private:
  Streams& streams_;
  std::optional<Progress> progress_;
  std::string name_;
  int64_t before_ = 0;
};

// Refuses what no server needs to be asked for.
absl::Status CheckFlags(const fetch::PullOptions& options) {
  if (options.source.empty()) {
    return UsageError("there is no source; name one: plimsoll pull SOURCE");
  }
  const auto source = fetch::ParseSource(options.source);
  if (!source.ok()) return UsageError(source.status().message());
  if (!options.sha256.empty() && !fetch::IsSha256(options.sha256)) {
    return UsageError("--sha256 takes 64 digits of hex, in lower case");
  }
  if (source->kind == fetch::SourceKind::kHub && options.hub.empty() &&
      !options.is_offline) {
    return UsageError(
        "hf: needs the URL of a hub; name it by --hub or $PLIMSOLL_HUB");
  }
  return absl::OkStatus();
}

// Reads the token of --token-file; PLIMSOLL_TOKEN is for our own servers.
absl::Status ReadToken(const Commands& commands, fetch::PullOptions& options) {
  const std::string& path = commands.globals.address.security.token_file;
  options.hub_token = Variable("PLIMSOLL_HUB_TOKEN");
  if (path.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::string text,
                   services::ReadSmallFile(path, fetch::kMaxTokenBytes));
  absl::StripAsciiWhitespace(&text);
  options.token = std::move(text);
  return absl::OkStatus();
}

absl::Status RunPull(PullFlags flags, const Commands& commands) {
  fetch::PullOptions& options = flags.options;
  const GlobalFlags& globals = commands.globals;
  if (!globals.address.empty() || !globals.planner.empty()) {
    return UsageError(
        "pull works in this process; leave out --address and --planner");
  }
  if (options.cache.empty()) options.cache = CacheDirectory();
  if (options.hub.empty()) options.hub = Variable("PLIMSOLL_HUB");
  RETURN_IF_ERROR(CheckFlags(options));
  options.ca_file = globals.address.security.ca;
  options.silence = absl::Seconds(flags.silence_s);
  RETURN_IF_ERROR(ReadToken(commands, options));
  Streams& streams = commands.streams;
  const InterruptScope interrupts;
  std::optional<PullView> view(std::in_place, streams);
  const fetch::FetchHooks hooks = {
      .check =
          [] { return Interrupted() ? InterruptedError() : absl::OkStatus(); },
      .progress =
          [&view](const std::string& name, int64_t done, int64_t total,
                  int64_t before) { view->Update(name, done, total, before); },
      .note = [&view](const std::string& text) { view->Note(text); },
  };
  const auto report = fetch::Pull(options, hooks);
  view.reset();
  RETURN_IF_ERROR(report.status());
  return Show({.message = PullObject(*report),
               .text = PullTable(*report, streams.out_style)},
              flags.output, streams);
}

}  // namespace

void AddPull(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("pull", kPullDescription);
  command->footer(kPullFooter);
  auto flags = std::make_shared<PullFlags>();
  fetch::PullOptions& options = flags->options;
  command->add_option("SOURCE", options.source, "The source of the model")
      ->type_name("SOURCE");
  command
      ->add_option("--name", options.name,
                   "The file's name in the cache (the server's); for one file")
      ->type_name("NAME");
  command
      ->add_option("--sha256", options.sha256,
                   "The digest that the file must have; for one file")
      ->type_name("HEX");
  command
      ->add_option("--cache", options.cache,
                   "The folder (${XDG_CACHE_HOME:-~/.cache}/plimsoll/models)")
      ->type_name("FOLDER");
  command
      ->add_option(
          "--hub", options.hub,
          "The hub for hf: sources, or a mirror of one ($PLIMSOLL_HUB)")
      ->type_name("URL");
  command
      ->add_option("--proxy", options.proxy,
                   "The proxy to go through ($https_proxy, $http_proxy)")
      ->type_name("URL");
  command->add_flag("--offline", options.is_offline,
                    "Ask no server: succeed if the cache has it");
  command->add_flag("--overwrite", options.overwrites,
                    "Fetch it again, and replace a file of the same name");
  command->add_flag("--insecure-http", options.allows_plain_http,
                    "Allow plain HTTP to servers that are not on loopback");
  AddCount(*command, &flags->silence_s,
           {.name = "--silence",
            .min = 1,
            .max = 3'600,
            .type = "S",
            .help = "Seconds that a server may be silent (60)"});
  AddOutput(*command, &flags->output, {"table", "json"});
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunPull(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
