// Flags that several commands share, and the checks of their values.
#ifndef PLIMSOLL_SERVICES_CLI_FLAGS_FLAGS_H_
#define PLIMSOLL_SERVICES_CLI_FLAGS_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "planner/layout/memory_plan.h"
#include "services/cli/flags/element_types.h"
#include "services/server/tls_files.h"
#include "worker/engine/engine.h"

namespace plimsoll::cli {

// A server's address, and the credentials of its client.
struct Endpoint {
  std::string address;  // empty = this process
  services::ClientSecurity security = {};

  bool empty() const { return address.empty(); }
};

// Flags that may come before or after any command.
struct GlobalFlags {
  Endpoint address;  // a worker
  Endpoint planner;
};

// --n-ctx N|auto|max.
struct ContextFlag {
  enum class Kind { kDefault, kTokens, kAuto, kMax };
  Kind kind = Kind::kDefault;
  int64_t tokens = 0;  // for kTokens
};

// --ring exact|full|window+ubatch|window+N.
struct RingFlag {
  planner::RingRule rule = planner::RingRule::kExact;
  int64_t tokens = 0;  // for window+N
};

// The flags for planning and loading a model.
struct LoadFlags {
  ContextFlag n_ctx;
  int64_t slots = 1;
  int64_t n_ubatch = 512;
  KvTypes kv;
  std::optional<int64_t> max_inference_len;
  int64_t idle_sessions = 0;
  std::optional<int64_t> idle_session_bytes;  // in place of idle_sessions
  int64_t parked_slots = 0;
  std::optional<int64_t> draft_tokens;
  planner::DraftSource draft_source = planner::DraftSource::kLookup;
  std::optional<int64_t> kv_tokens;
  bool mmap_weights = false;
  bool host_tables = false;
  std::optional<int64_t> cpu_experts = 0;  // absent = auto
  std::vector<int64_t> device_memory;      // none, one, or one for each device
  // AddEngineFlags adds the flags from here on.
  planner::ReservePolicy policy = planner::ReservePolicy::kExact;
  std::optional<planner::AllocationChoice> allocation;
  RingFlag ring;
  bool no_flash_attention = false;
  std::optional<int64_t> weight_bytes;
  std::optional<DType> weight_type;  // absent = the file's
  planner::HostWeights host_weights;
  std::optional<int64_t> host_memory;
  std::optional<planner::ProjectorBytes> projector;
  // Commands that load have the flags from here on.
  std::vector<std::string> devices = {"cpu"};  // in a token's order
  int64_t threads = 0;
  worker::Precision precision = worker::Precision::kDefault;
  bool shares_prefixes = true;  // not a flag; benchmarks clear it
};

// The flags for drawing tokens and for ending a reply.
struct SamplingFlags {
  worker::SamplingOptions sampling;
  worker::LogitBiasOptions logit_bias;
  std::optional<int64_t> max_tokens;
  std::optional<int64_t> max_reasoning_tokens;
  std::vector<std::string> stop;
  std::vector<int64_t> stop_tokens;
  bool ignore_eos = false;
  int64_t top_logprobs = -1;
};

// Parses a whole decimal number in [min, max].
// Errors: kInvalidArgument saying what is allowed.
absl::StatusOr<int64_t> ParseCount(absl::string_view text, int64_t min,
                                   int64_t max);
// Parses a finite number in [min, max].
// Errors: kInvalidArgument saying what is allowed.
absl::StatusOr<float> ParseNumber(absl::string_view text, float min, float max);
absl::StatusOr<ContextFlag> ParseContext(absl::string_view text);
absl::StatusOr<planner::ReservePolicy> ParsePolicy(absl::string_view text);
// Parses "exact", "pow2" or "granularity:BYTES".
absl::StatusOr<planner::AllocationChoice> ParseAllocation(
    absl::string_view text);
absl::StatusOr<RingFlag> ParseRing(absl::string_view text);
// Parses "experts", "per-layer-embeddings", or both with a comma.
absl::StatusOr<planner::HostWeights> ParseHostWeights(absl::string_view text);
// Parses a list of sizes, such as "24GiB,24GiB,64GiB".
absl::StatusOr<std::vector<int64_t>> ParseBudgets(absl::string_view text);
// Parses "ID:BIAS".
absl::StatusOr<worker::LogitBias> ParseLogitBias(absl::string_view text);

// An option whose text is parsed.
struct ParsedOption {
  std::string name;
  std::string type;  // the help's name for the value
  std::string help;
};

// Adds an option whose value `parse` converts to `*out`. An error of `parse`
// becomes a usage error. `T` may be wrapped in std::optional.
template <typename Out, typename Parse>
CLI::Option* AddParsed(CLI::App& app, Out* out, const Parse& parse,
                       const ParsedOption& option) {
  const auto store = [out, parse](const std::string& text) {
    auto value = parse(text);
    if (value.ok()) *out = *value;
  };
  return app.add_option_function<std::string>(option.name, store, option.help)
      ->type_name(option.type)
      ->check(
          [parse](const std::string& text) {
            return std::string(parse(text).status().message());
          },
          "");
}

// An option for a count in [min, max].
struct CountOption {
  std::string name;
  int64_t min = 0;
  int64_t max = std::numeric_limits<int64_t>::max();
  std::string type = "N";  // the help's name for the value
  std::string help;
};

// Adds the option, whose value goes to `*out`.
template <typename Out>
CLI::Option* AddCount(CLI::App& app, Out* out, const CountOption& option) {
  const auto parse = [min = option.min,
                      max = option.max](const std::string& text) {
    return ParseCount(text, min, max);
  };
  return AddParsed(
      app, out, parse,
      {.name = option.name, .type = option.type, .help = option.help});
}

// Adds -o, --output with the formats that a command knows. The first format is
// the default.
void AddOutput(CLI::App& app, std::string* out,
               const std::vector<std::string>& formats);
// Adds the flags of planning: --n-ctx, --slots, --kv-type, ...
void AddPlanFlags(CLI::App& app, LoadFlags* flags);
// Adds the flags that plan for other engines and devices: --policy, --alloc,
// --ring, ...
void AddEngineFlags(CLI::App& app, LoadFlags* flags);
void AddThreads(CLI::App& app, LoadFlags* flags);
// Adds the flags of AddPlanFlags, and --device, --threads and --precision.
void AddLoadFlags(CLI::App& app, LoadFlags* flags);
void AddSamplingFlags(CLI::App& app, SamplingFlags* flags);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_FLAGS_FLAGS_H_
