#include "services/cli/flags/flags.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "planner/model/model_shape.h"
#include "services/cli/terminal/bytes.h"
#include "services/host/device_list.h"
#include "services/server/flags.h"

namespace plimsoll::cli {
namespace {

// An option for a number in [min, max].
struct NumberOption {
  std::string name;
  float min;
  float max;
  std::string help;
};

// Adds the option, whose value goes to `*out`.
void AddNumber(CLI::App& app, float* out, const NumberOption& option) {
  const auto parse = [min = option.min,
                      max = option.max](const std::string& text) {
    return ParseNumber(text, min, max);
  };
  AddParsed(app, out, parse,
            {.name = option.name, .type = "X", .help = option.help})
      ->group("Sampling");
}

}  // namespace

absl::StatusOr<float> ParseNumber(absl::string_view text, float min,
                                  float max) {
  float value = 0;
  if (!absl::SimpleAtof(text, &value) || !std::isfinite(value) || value < min ||
      value > max) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text.substr(0, 40), "' is not a number from ", min, " to ", max));
  }
  return value;
}

absl::StatusOr<int64_t> ParseCount(absl::string_view text, int64_t min,
                                   int64_t max) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < min || value > max) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text.substr(0, 40), "' is not a whole number from ", min, " to ",
        max == std::numeric_limits<int64_t>::max() ? "2^63 - 1"
                                                   : absl::StrCat(max)));
  }
  return value;
}

absl::StatusOr<ContextFlag> ParseContext(absl::string_view text) {
  if (text == "auto") return ContextFlag{ContextFlag::Kind::kAuto};
  if (text == "max") return ContextFlag{ContextFlag::Kind::kMax};
  const auto tokens = ParseCount(text, 1, std::numeric_limits<int64_t>::max());
  if (!tokens.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text.substr(0, 40),
                     "' is not a context length; write a number of tokens from "
                     "1 up, 'auto' (the longest that fits) or 'max' (what the "
                     "model was trained for)"));
  }
  return ContextFlag{ContextFlag::Kind::kTokens, *tokens};
}

absl::StatusOr<std::vector<int64_t>> ParseBudgets(absl::string_view text) {
  std::vector<int64_t> budgets;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes(std::string(part)));
    budgets.push_back(bytes);
  }
  return budgets;
}

absl::StatusOr<planner::ReservePolicy> ParsePolicy(absl::string_view text) {
  if (text == "exact") return planner::ReservePolicy::kExact;
  if (text == "windowed") return planner::ReservePolicy::kWindowed;
  if (text == "dense") return planner::ReservePolicy::kDense;
  return absl::InvalidArgumentError(
      absl::StrCat("'", text.substr(0, 40),
                   "' is not a policy; write exact, windowed or dense"));
}

absl::StatusOr<planner::AllocationChoice> ParseAllocation(
    absl::string_view text) {
  using planner::AllocationRule;
  if (text == "exact") return planner::AllocationChoice{AllocationRule::kExact};
  if (text == "pow2") return planner::AllocationChoice{AllocationRule::kPow2};
  if (absl::ConsumePrefix(&text, "granularity:")) {
    ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes(std::string(text)));
    if (bytes > 0) {
      return planner::AllocationChoice{AllocationRule::kGranularity, bytes};
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text.substr(0, 40),
      "' is not a rule; write exact, pow2 or granularity:BYTES (2MiB)"));
}

absl::StatusOr<RingFlag> ParseRing(absl::string_view text) {
  using planner::RingRule;
  if (text == "exact") return RingFlag{RingRule::kExact};
  if (text == "full") return RingFlag{RingRule::kFull};
  if (text == "window+ubatch") return RingFlag{RingRule::kWindowPlusUbatch};
  absl::string_view tokens = text;
  if (absl::ConsumePrefix(&tokens, "window+")) {
    ASSIGN_OR_RETURN(
        const int64_t n,
        ParseCount(tokens, 0, std::numeric_limits<int32_t>::max()));
    return RingFlag{RingRule::kWindowPlusTokens, n};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text.substr(0, 40),
      "' is not a rule; write exact, full, window+ubatch or window+N"));
}

absl::StatusOr<planner::HostWeights> ParseHostWeights(absl::string_view text) {
  planner::HostWeights host;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (part == "experts") {
      host.experts = true;
    } else if (part == "per-layer-embeddings") {
      host.per_layer_embeddings = true;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("'", part.substr(0, 40),
                       "' cannot stay on the host; write experts, "
                       "per-layer-embeddings, or both with a comma"));
    }
  }
  return host;
}

void AddOutput(CLI::App& app, std::string* out,
               const std::vector<std::string>& formats) {
  *out = formats.front();
  const auto parse =
      [formats](const std::string& text) -> absl::StatusOr<std::string> {
    for (const std::string& format : formats) {
      if (text == format) return text;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("'", text.substr(0, 40), "' is not one of ",
                     absl::StrJoin(formats, ", ")));
  };
  AddParsed(
      app, out, parse,
      {.name = "-o,--output",
       .type = absl::StrJoin(formats, "|"),
       .help = absl::StrCat("Form of the result (", formats.front(), ")")});
}

namespace {

// Flags of guesses, in the help's `group`.
void AddDraftFlags(CLI::App& app, LoadFlags* flags, const std::string& group) {
  AddCount(app, &flags->draft_tokens,
           {.name = "--draft-tokens",
            .max = planner::LoadOptions::kMaxDraftTokens,
            .type = "D",
            .help = "Tokens guessed and verified in one step; they change only "
                    "the speed (0, with --draft mtp 1)"})
      ->group(group);
  const auto parse_source =
      [](absl::string_view text) -> absl::StatusOr<planner::DraftSource> {
    if (text == "lookup") return planner::DraftSource::kLookup;
    if (text == "mtp") return planner::DraftSource::kMtp;
    return absl::InvalidArgumentError(
        absl::StrCat("'", text.substr(0, 40), "' is neither lookup nor mtp"));
  };
  AddParsed(
      app, &flags->draft_source, parse_source,
      {.name = "--draft",
       .type = "lookup|mtp",
       .help =
           "What guesses tokens: the text so far, or the model's head for the "
           "token after the next one, which is loaded only then (lookup)"})
      ->group(group);
}

// Flags of the memory for idle sessions.
void AddIdleSessionFlags(CLI::App& app, LoadFlags* flags) {
  AddCount(app, &flags->idle_sessions,
           {.name = "--idle-sessions",
            .max = planner::LoadOptions::kMaxIdleSessions,
            .help = absl::StrCat(services::kIdleSessionsHelp, " (0)")})
      ->group("Memory");
  // A number of 0 may stand beside bytes: --print-config writes it.
  const auto parse = [flags](absl::string_view text) {
    if (flags->idle_sessions == 0) return ParseBytes(text);
    return absl::StatusOr<int64_t>(
        absl::InvalidArgumentError(services::kIdleSessionsTwice));
  };
  AddParsed(app, &flags->idle_session_bytes, parse,
            {.name = "--idle-session-bytes",
             .type = "BYTES",
             .help = services::kIdleSessionBytesHelp})
      ->group("Memory");
}

// Flags about where weights lie, in the help's `group`.
void AddWeightFlags(CLI::App& app, LoadFlags* flags, const std::string& group) {
  app.add_flag("--mmap", flags->mmap_weights, services::kMmapHelp)
      ->group(group);
  const auto parse_tables = [](absl::string_view text) -> absl::StatusOr<bool> {
    if (text == "host" || text == "device") return text == "host";
    return absl::InvalidArgumentError(
        absl::StrCat("'", text.substr(0, 40), "' is neither device nor host"));
  };
  AddParsed(
      app, &flags->host_tables, parse_tables,
      {.name = "--tables",
       .type = "device|host",
       .help = "Where to keep tables of which steps read single rows, such as "
               "per-layer embeddings; host: in the mapped file (device)"})
      ->group(group);
  AddParsed(app, &flags->cpu_experts, services::ParseCpuExperts,
            {.name = "--cpu-experts",
             .type = "all|auto|N",
             .help = services::kCpuExpertsHelp})
      ->group(group);
}

// Flags about the contexts, in the help's `group`.
void AddContextFlags(CLI::App& app, LoadFlags* flags,
                     const std::string& group) {
  AddParsed(
      app, &flags->n_ctx, ParseContext,
      {.name = "--n-ctx",
       .type = "N|auto|max",
       .help = "Tokens of context per slot; auto: the longest that fits; max: "
               "what the model was trained for"})
      ->group(group);
  AddCount(app, &flags->slots,
           {.name = "--slots",
            .min = 1,
            .max = planner::LoadOptions::kMaxSlots,
            .type = "S",
            .help = "Sequences served at once (1)"})
      ->group(group);
  AddParsed(
      app, &flags->kv, ParseKvTypes,
      {.name = "--kv-type",
       .type = "T[,V]",
       .help =
           "Element type of keys, and of values: f32, f16, bf16, q8_0, q5_1, "
           "q4_0 (f16)"})
      ->group(group);
  AddCount(
      app, &flags->max_inference_len,
      {.name = "--max-inference-len",
       .min = 1,
       .help =
           "Upper limit on context, KV and every buffer that grows with it"})
      ->group(group);
}

}  // namespace

void AddPlanFlags(CLI::App& app, LoadFlags* flags) {
  const std::string group = "Memory";
  AddContextFlags(app, flags, group);
  AddCount(app, &flags->n_ubatch,
           {.name = "--n-ubatch",
            .min = 1,
            .max = planner::LoadOptions::kMaxUbatch,
            .type = "U",
            .help = "Rows of one step; smaller needs less memory, prefills "
                    "slower (512)"})
      ->group(group);
  AddCount(app, &flags->kv_tokens,
           {.name = "--kv-tokens",
            .min = 1,
            .help = "Tokens of KV cache that all slots share (slots x n_ctx)"})
      ->group(group);
  AddCount(app, &flags->parked_slots,
           {.name = "--parked-slots",
            .max = planner::LoadOptions::kMaxParked,
            .type = "P",
            .help = "Contexts that may wait in host memory for a slot; a "
                    "worker's default is 1 (0)"})
      ->group(group);
  AddIdleSessionFlags(app, flags);
  AddDraftFlags(app, flags, group);
  AddWeightFlags(app, flags, group);
  AddParsed(
      app, &flags->device_memory, ParseBudgets,
      {.name = "--device-memory",
       .type = "BYTES[,...]",
       .help = "The budget, as bytes or 12GiB, of each device; with commas one "
               "after the other; default: what this machine has available now"})
      ->group(group);
}

void AddEngineFlags(CLI::App& app, LoadFlags* flags) {
  const std::string group = "Other engines and devices";
  AddParsed(
      app, &flags->policy, ParsePolicy,
      {.name = "--policy",
       .type = "exact|windowed|dense",
       .help =
           "The memory beside weights and KV: exact buffers, or what engines "
           "that reserve memory first keep free (exact)"})
      ->group(group);
  AddParsed(
      app, &flags->allocation, ParseAllocation,
      {.name = "--alloc",
       .type = "exact|pow2|granularity:BYTES",
       .help =
           "How the engine's allocator rounds; default: the device's own rule"})
      ->group(group);
  AddParsed(app, &flags->ring, ParseRing,
            {.name = "--ring",
             .type = "exact|full|window+ubatch|window+N",
             .help = "Cells of a sliding-window layer (exact)"})
      ->group(group);
  app.add_flag("--no-flash-attention", flags->no_flash_attention,
               "Values of every layer as wide as those of the widest")
      ->group(group);
  AddParsed(app, &flags->weight_bytes, ParseBytes,
            {.name = "--weight-bytes",
             .type = "BYTES",
             .help = "Bytes of all weights; default: from the file's tensors"})
      ->group(group);
  AddParsed(
      app, &flags->weight_type, ParseWeights,
      {.name = "--weights",
       .type = "file|TYPE",
       .help =
           "Plan as if the file's matrices were in this type, as quantising it "
           "again makes them (file)"})
      ->group(group);
  AddParsed(
      app, &flags->host_weights, ParseHostWeights,
      {.name = "--host-weights",
       .type = "experts|per-layer-embeddings",
       .help =
           "Weights that stay in host memory, on a device with its own memory"})
      ->group(group);
  AddParsed(app, &flags->host_memory, ParseBytes,
            {.name = "--host-memory",
             .type = "BYTES",
             .help = "The host's budget, on a device with its own memory"})
      ->group(group);
}

void AddThreads(CLI::App& app, LoadFlags* flags) {
  AddCount(
      app, &flags->threads,
      {.name = "--threads",
       .max = worker::EngineOptions::kMaxThreads,
       .type = "T",
       .help = "Threads that compute; 0: as many as this process may use (0)"})
      ->group("Memory");
}

void AddLoadFlags(CLI::App& app, LoadFlags* flags) {
  AddPlanFlags(app, flags);
  AddParsed(
      app, &flags->devices, services::ParseDevices,
      {.name = "--device",
       .type = "cpu|cuda:N[,...]",
       .help =
           "Where the model runs: cpu, or the N-th CUDA device; several share "
           "its layers, in this order, such as cuda:0,cuda:1,cpu (cpu)"})
      ->group("Memory");
  AddThreads(app, flags);
  const auto parse =
      [](const std::string& text) -> absl::StatusOr<worker::Precision> {
    if (text == "default") return worker::Precision::kDefault;
    if (text == "invariant") return worker::Precision::kInvariant;
    if (text == "exact") return worker::Precision::kExact;
    return absl::InvalidArgumentError(
        absl::StrCat("'", text.substr(0, 40),
                     "' is not a precision; write exact (float32 activations), "
                     "invariant (the same bits in any batch on a GPU too) or "
                     "default (faster)"));
  };
  AddParsed(
      app, &flags->precision, parse,
      {.name = "--precision",
       .type = "exact|invariant|default",
       .help =
           "exact: float32 activations; invariant: a GPU, like a CPU, gives a "
           "token the same bits in any batch; default: faster"})
      ->group("Memory");
}

absl::StatusOr<worker::LogitBias> ParseLogitBias(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  ASSIGN_OR_RETURN(
      const int64_t id,
      ParseCount(parts.first, 0, std::numeric_limits<int32_t>::max()));
  constexpr float kMax = worker::LogitBiasOptions::kMaxBias;
  ASSIGN_OR_RETURN(const float bias, ParseNumber(parts.second, -kMax, kMax));
  return worker::LogitBias{static_cast<int32_t>(id), bias};
}

namespace {

void AddLogitBiasFlags(CLI::App& app, worker::LogitBiasOptions* bias) {
  using Limits = worker::LogitBiasOptions;
  AddNumber(
      app, &bias->repetition_penalty,
      {.name = "--repetition-penalty",
       .min = Limits::kMinRepetition,
       .max = Limits::kMaxRepetition,
       .help = "Divide the logits of tokens that came before; 1: off (1)"});
  AddNumber(
      app, &bias->presence_penalty,
      {.name = "--presence-penalty",
       .min = -Limits::kMaxPenalty,
       .max = Limits::kMaxPenalty,
       .help = "Subtract X from the logits of tokens that came before (0)"});
  AddNumber(app, &bias->frequency_penalty,
            {.name = "--frequency-penalty",
             .min = -Limits::kMaxPenalty,
             .max = Limits::kMaxPenalty,
             .help = "Subtract X for each time that a token came before (0)"});
  AddCount(app, &bias->penalty_last_tokens,
           {.name = "--penalty-last-tokens",
            .max = Limits::kMaxLastTokens,
            .help = absl::StrCat(
                "How many of the newest tokens the penalties look at (",
                bias->penalty_last_tokens, ")")})
      ->group("Sampling");
  const auto store = [bias](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const auto one = ParseLogitBias(text);
      if (one.ok()) bias->biases.push_back(*one);
    }
  };
  app.add_option_function<std::vector<std::string>>(
         "--logit-bias", store,
         "Add BIAS to a token's logit; -1000: never; may be given several "
         "times")
      ->type_name("ID:BIAS")
      ->allow_extra_args(false)
      ->check(
          [](const std::string& text) {
            return std::string(ParseLogitBias(text).status().message());
          },
          "")
      ->group("Sampling");
}

void AddStoppingFlags(CLI::App& app, SamplingFlags* flags,
                      const std::string& group) {
  app.add_option("--stop", flags->stop,
                 "End before this text; may be given several times")
      ->type_name("STR")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--stop-token", flags->stop_tokens,
                 "End at this token id; may be given several times")
      ->type_name("ID")
      ->allow_extra_args(false)
      ->check(
          [](const std::string& text) {
            return std::string(
                ParseCount(text, 0, std::numeric_limits<int32_t>::max())
                    .status()
                    .message());
          },
          "")
      ->group(group);
  app.add_flag("--ignore-eos", flags->ignore_eos,
               "Go on after an end token (it is not masked)")
      ->group(group);
}

// Flags of the distribution that a token is drawn from.
void AddDrawFlags(CLI::App& app, worker::SamplingOptions& s) {
  AddNumber(app, &s.temperature,
            {.name = "--temperature",
             .min = 0,
             .max = worker::SamplingOptions::kMaxTemperature,
             .help = absl::StrCat("0: always the likeliest token (",
                                  s.temperature, ")")});
  AddParsed(app, &s.top_k,
            [](const std::string& text) -> absl::StatusOr<int32_t> {
              ASSIGN_OR_RETURN(
                  const int64_t k,
                  ParseCount(text, 0, std::numeric_limits<int32_t>::max()));
              return static_cast<int32_t>(k);
            },
            {.name = "--top-k",
             .type = "K",
             .help = absl::StrCat("Draw from the K likeliest; 0: off (",
                                  s.top_k, ")")})
      ->group("Sampling");
  AddNumber(
      app, &s.top_p,
      {.name = "--top-p",
       .min = 0,
       .max = 1,
       .help = absl::StrCat("Draw from the likeliest that sum to X; 1: off (",
                            s.top_p, ")")});
  AddNumber(app, &s.typical_p,
            {.name = "--typical-p",
             .min = 0,
             .max = 1,
             .help = absl::StrCat(
                 "Draw from the most typical that sum to X; 1: off (",
                 s.typical_p, ")")});
  AddNumber(
      app, &s.min_p,
      {.name = "--min-p",
       .min = 0,
       .max = 1,
       .help = absl::StrCat("Drop tokens below X times the likeliest; 0: off (",
                            s.min_p, ")")});
}

}  // namespace

void AddSamplingFlags(CLI::App& app, SamplingFlags* flags) {
  using worker::GenerateOptions;
  const std::string group = "Sampling";
  worker::SamplingOptions& s = flags->sampling;
  AddCount(
      app, &flags->max_tokens,
      {.name = "--max-tokens",
       .min = 1,
       .help =
           "Tokens to generate; default: until the model ends or the context "
           "is full"})
      ->group(group);
  AddDrawFlags(app, s);
  AddLogitBiasFlags(app, &flags->logit_bias);
  AddParsed(app, &s.seed,
            [](const std::string& text) -> absl::StatusOr<uint64_t> {
              uint64_t seed = 0;
              if (absl::SimpleAtoi(text, &seed)) return seed;
              return absl::InvalidArgumentError(
                  absl::StrCat("'", text.substr(0, 40),
                               "' is not a whole number from 0 to 2^64 - 1"));
            },
            {.name = "--seed", .type = "N", .help = "Same seed, same text (0)"})
      ->group(group);
  AddStoppingFlags(app, flags, group);
  AddCount(
      app, &flags->top_logprobs,
      {.name = "--top-logprobs",
       .max = GenerateOptions::kMaxTopLogprobs,
       .type = "K",
       .help =
           "With -o json: log-probability of each token and of its K likeliest "
           "candidates"})
      ->group(group);
}

}  // namespace plimsoll::cli
