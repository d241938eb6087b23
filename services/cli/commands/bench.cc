// `plimsoll bench`: measures a model on this machine.
#include <google/protobuf/struct.pb.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "planner/fleet/bounds.h"
#include "services/cli/backends/embedded.h"
#include "services/cli/backends/measure.h"
#include "services/cli/commands/commands.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/cli/terminal/json.h"
#include "services/cli/terminal/table.h"
#include "services/host/clock.h"
#include "services/host/process_identity.h"
#include "worker/device/host_resources.h"

namespace plimsoll::cli {
namespace {

constexpr char kBenchDescription[] =
    "Measure how fast a model runs on this machine, in some ten seconds\n"
    "Loads it twice: for one sequence (start, prefill, decode, memory), then "
    "for as many as --batch names; and once more with --at-positions, where "
    "each run fills the cache first. Rates are medians. Decode reads weights "
    "in every step, so the memory's read bandwidth, which is measured as well, "
    "bounds it. A step reads all weights if it computes every logit, as "
    "log-probabilities need. It reads fewer if most tokens of the vocabulary "
    "are known not to be among the likeliest. Shares of the bandwidth are "
    "those of reading all weights.";

constexpr char kBenchFooter[] =
    "Examples:\n"
    "  plimsoll bench --model model.gguf\n"
    "  plimsoll bench --model model.gguf --threads 1 -o json\n"
    "  plimsoll bench --model model.gguf --prompt-tokens 512,4096 --batch "
    "1,64\n"
    "  plimsoll bench --model model.gguf --kv-type q8_0 "
    "--at-positions 100,8000";

// These limit the numbers of sequences and prompts, and their sizes.
constexpr size_t kMaxFigures = 16;
constexpr int64_t kMaxTokens = 1 << 20;
// These limit the size of the buffer whose reading is measured.
constexpr int64_t kMinBuffer = 64 << 20;
constexpr int64_t kMaxBuffer = int64_t{1} << 30;

struct BenchFlags {
  std::string model;
  LoadFlags load;
  std::vector<int64_t> prompts = {512};
  std::vector<int64_t> batches = {1, 4, 16};
  std::vector<int64_t> positions;
  int64_t decode_tokens = 32;
  int64_t runs = 3;
  std::string output;
};

struct BenchResult {
  std::string model;
  std::string device;
  bool on_cpu = true;
  int64_t n_threads = 0;                        // on a CPU
  std::map<int64_t, double> prefill;            // tokens/s by tokens of prompt
  std::map<int64_t, double> decode;             // tokens/s by sequences
  std::map<int64_t, double> decode_all_logits;  // with every logit
  std::map<int64_t, double> decode_at;          // tokens/s of one, by position
  absl::Duration first_token;                   // from the start of the process
  double bandwidth = 0;                         // bytes/s, of a CPU
  int64_t step_bytes = 0;                       // weights that a step reads
  int64_t peak_rss_bytes = 0;                   // with one sequence
};

// Parses a list such as "512,4096", each number in [1, max].
auto ParseCounts(int64_t max) {
  return
      [max](const std::string& text) -> absl::StatusOr<std::vector<int64_t>> {
        std::vector<int64_t> counts;
        for (const absl::string_view part : absl::StrSplit(text, ',')) {
          ASSIGN_OR_RETURN(counts.emplace_back(), ParseCount(part, 1, max));
        }
        if (counts.size() <= kMaxFigures) return counts;
        return absl::InvalidArgumentError(
            absl::StrCat("at most ", kMaxFigures, " numbers are measured"));
      };
}

// Returns the time since this process started, or since `begin` if the system
// does not tell.
absl::Duration SinceStart(absl::Time begin) {
  const std::optional<int64_t> ticks = services::StartTicks(getpid());
  if (!ticks) return services::BootTime() - begin;
  const absl::Duration start = absl::Seconds(1) * *ticks / sysconf(_SC_CLK_TCK);
  return services::BootTime() - absl::UnixEpoch() - start;
}

// Measures one sequence, in the order in which users meet its numbers.
absl::Status MeasureOne(const BenchFlags& flags, absl::Time begin,
                        Streams& streams, BenchResult& result) {
  LoadFlags load = flags.load;
  load.shares_prefixes = false;
  load.slots = 1;
  ASSIGN_OR_RETURN(const LoadedModel model,
                   LoadHere(flags.model, {.flags = load}, streams));
  result.model = model.name;
  std::vector<std::string> devices;
  for (const worker::ComputeDevice* device : model.used) {
    result.on_cpu &= device->is_host();
    devices.push_back(device->Profile().name);
  }
  result.device = absl::StrJoin(devices, " + ");
  RETURN_IF_ERROR(FirstToken(*model.engine).status());
  result.first_token = SinceStart(begin);
  const Repeats repeats = {.n = flags.runs};
  for (const int64_t n : flags.prompts) {
    ASSIGN_OR_RETURN(result.prefill[n], PrefillRate(*model.engine, n, repeats));
  }
  if (std::count(flags.batches.begin(), flags.batches.end(), 1) > 0) {
    ASSIGN_OR_RETURN(
        result.decode[1],
        DecodeRate(*model.engine, {.n_tokens = flags.decode_tokens}, repeats));
    ASSIGN_OR_RETURN(
        result.decode_all_logits[1],
        DecodeRate(*model.engine,
                   {.n_tokens = flags.decode_tokens, .logits = Logits::kAll},
                   repeats));
  }
  result.peak_rss_bytes = model.engine->Memory().peak_rss_bytes;
  return absl::OkStatus();
}

// Measures several sequences, with a model loaded for just that.
absl::Status MeasureBatches(const BenchFlags& flags, Streams& streams,
                            BenchResult& result) {
  const int64_t most =
      *std::max_element(flags.batches.begin(), flags.batches.end());
  if (most == 1) return absl::OkStatus();
  LoadFlags load = flags.load;
  load.shares_prefixes = false;
  load.slots = most;
  load.n_ctx = {ContextFlag::Kind::kTokens, kShortPrompt + flags.decode_tokens};
  ASSIGN_OR_RETURN(const LoadedModel model,
                   LoadHere(flags.model, {.flags = load}, streams));
  const Repeats repeats = {.n = flags.runs};
  for (const int64_t n : flags.batches) {
    if (n == 1) continue;
    ASSIGN_OR_RETURN(
        result.decode[n],
        DecodeRate(*model.engine,
                   {.n_sequences = n, .n_tokens = flags.decode_tokens},
                   repeats));
  }
  return absl::OkStatus();
}

// Measures how decode slows down as the context fills.
absl::Status MeasurePositions(const BenchFlags& flags, Streams& streams,
                              BenchResult& result) {
  if (flags.positions.empty()) return absl::OkStatus();
  const int64_t last =
      *std::max_element(flags.positions.begin(), flags.positions.end());
  LoadFlags load = flags.load;
  load.shares_prefixes = false;
  load.slots = 1;
  load.n_ctx = {ContextFlag::Kind::kTokens, last + flags.decode_tokens};
  ASSIGN_OR_RETURN(const LoadedModel model,
                   LoadHere(flags.model, {.flags = load}, streams));
  ASSIGN_OR_RETURN(result.decode_at,
                   DecodeRatesAt(*model.engine, flags.positions,
                                 flags.decode_tokens, flags.runs));
  return absl::OkStatus();
}

absl::Status MeasureBandwidth(const BenchFlags& flags, BenchResult& result) {
  ASSIGN_OR_RETURN(const auto file, OpenModel(flags.model));
  ASSIGN_OR_RETURN(result.step_bytes,
                   planner::WeightBytesPerStep(file->shape()));
  if (!result.on_cpu) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      result.bandwidth,
      ReadBandwidth(std::clamp(result.step_bytes, kMinBuffer, kMaxBuffer),
                    static_cast<int>(flags.load.threads)));
  return absl::OkStatus();
}

google::protobuf::Value RatesJson(const std::map<int64_t, double>& rates) {
  google::protobuf::Value value;
  auto& fields = *value.mutable_struct_value()->mutable_fields();
  for (const auto& [n, rate] : rates) {
    fields[absl::StrCat(n)].set_number_value(rate);
  }
  return value;
}

google::protobuf::Struct ToStruct(const BenchResult& result) {
  google::protobuf::Struct object;
  auto& fields = *object.mutable_fields();
  const auto number = [&](const char* name, auto value) {
    fields[name].set_number_value(static_cast<double>(value));
  };
  fields["model"].set_string_value(result.model);
  if (result.on_cpu) {
    fields["cpu"].set_string_value(result.device);
    number("threads", result.n_threads);
  } else {
    fields["device"].set_string_value(result.device);
  }
  fields["prefill_tokens_per_s"] = RatesJson(result.prefill);
  fields["decode_tokens_per_s"] = RatesJson(result.decode);
  fields["decode_all_logits_tokens_per_s"] =
      RatesJson(result.decode_all_logits);
  if (!result.decode_at.empty()) {
    fields["decode_tokens_per_s_at_position"] = RatesJson(result.decode_at);
  }
  number("first_token_seconds", absl::ToDoubleSeconds(result.first_token));
  if (result.on_cpu) number("read_bandwidth_bytes_per_s", result.bandwidth);
  number("weight_bytes_per_step", result.step_bytes);
  number("peak_rss_bytes", result.peak_rss_bytes);
  return object;
}

std::string Render(const BenchResult& result, const Style& style) {
  Table table({{"figure"}, {"value", Align::kRight}, {"note"}});
  const auto rate = [](double value) {
    return absl::StrFormat("%.1f tokens/s", value);
  };
  for (const auto& [n, value] : result.prefill) {
    table.AddRow({absl::StrCat("prefill of ", n), rate(value)});
  }
  const auto share = [&result](int64_t n, double value) -> std::string {
    if (!result.on_cpu) return "";
    return absl::StrFormat("weights: %.0f %% of the bandwidth",
                           100 * value / static_cast<double>(n) *
                               static_cast<double>(result.step_bytes) /
                               result.bandwidth);
  };
  for (const auto& [n, value] : result.decode) {
    table.AddRow({absl::StrCat("decode of ", n), rate(value), share(n, value)});
  }
  for (const auto& [n, value] : result.decode_all_logits) {
    table.AddRow({absl::StrCat("decode of ", n, ", every logit"), rate(value),
                  share(n, value)});
  }
  for (const auto& [position, value] : result.decode_at) {
    table.AddRow(
        {absl::StrCat("decode at ", position), rate(value),
         absl::StrFormat("%.0f %% of that at %d",
                         100 * value / result.decode_at.begin()->second,
                         result.decode_at.begin()->first)});
  }
  table.AddRow(
      {"first token",
       absl::StrFormat("%.2f s", absl::ToDoubleSeconds(result.first_token)),
       "from the start of the process"});
  table.AddRow(
      {"read bandwidth",
       result.on_cpu ? absl::StrFormat("%.1f GB/s", result.bandwidth / 1e9)
                     : "not measured",
       absl::StrCat(FormatBytes(result.step_bytes), " of weights a step")});
  table.AddRow({"peak memory", FormatBytes(result.peak_rss_bytes),
                "resident, with one sequence"});
  const std::string threads =
      result.on_cpu
          ? absl::StrCat(", ", result.n_threads,
                         result.n_threads == 1 ? " thread" : " threads")
          : "";
  return absl::StrCat(result.model, " on ", result.device, threads, "\n\n",
                      table.Render(style));
}

absl::Status RunBench(const BenchFlags& flags, const Commands& commands) {
  const absl::Time begin = services::BootTime();
  if (!commands.globals.address.empty()) {
    return UsageError("bench measures this machine; leave out --address");
  }
  if (flags.model.empty()) {
    return UsageError("there is no model; give --model FILE");
  }
  if (flags.load.slots != 1) {
    return UsageError("bench loads a slot for each sequence of --batch");
  }
  const InterruptScope interrupts;
  BenchResult result;
  result.n_threads =
      flags.load.threads > 0 ? flags.load.threads : worker::UsableThreads();
  Streams& streams = commands.streams;
  RETURN_IF_ERROR(MeasureOne(flags, begin, streams, result));
  RETURN_IF_ERROR(MeasureBatches(flags, streams, result));
  RETURN_IF_ERROR(MeasurePositions(flags, streams, result));
  RETURN_IF_ERROR(MeasureBandwidth(flags, result));
  return Show(
      {.message = ToStruct(result), .text = Render(result, streams.out_style)},
      flags.output, streams);
}

}  // namespace

void AddBench(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("bench", kBenchDescription);
  command->footer(kBenchFooter);
  auto flags = std::make_shared<BenchFlags>();
  command
      ->add_option("--model", flags->model,
                   "A GGUF file, or a name in the cache")
      ->type_name("FILE");
  const std::string group = "Figures";
  AddParsed(*command, &flags->prompts, ParseCounts(kMaxTokens),
            {.name = "--prompt-tokens",
             .type = "N,...",
             .help = "Tokens of prefill (512)"})
      ->group(group);
  AddParsed(*command, &flags->batches,
            ParseCounts(worker::EngineOptions::kMaxQueued),
            {.name = "--batch",
             .type = "B,...",
             .help = "Sequences that decode at once (1,4,16)"})
      ->group(group);
  AddParsed(*command, &flags->positions, ParseCounts(kMaxTokens),
            {.name = "--at-positions",
             .type = "P,...",
             .help = "Tokens of context before one sequence decodes (none)"})
      ->group(group);
  AddCount(*command, &flags->decode_tokens,
           {.name = "--decode-tokens",
            .min = 2,
            .max = kMaxTokens,
            .help = "Tokens that each sequence generates (32)"})
      ->group(group);
  AddCount(
      *command, &flags->runs,
      {.name = "--runs",
       .min = 1,
       .max = kMaxTokens,
       .help = "The most runs for a figure; after a second no more begin (3)"})
      ->group(group);
  AddOutput(*command, &flags->output, {"table", "json"});
  AddLoadFlags(*command, &flags->load);
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunBench(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
