// Converts the flags of `plimsoll what-if` to a request.
#include "services/cli/commands/what_if_request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "planner/layout/memory_plan.h"
#include "services/cli/terminal/bytes.h"
#include "services/wire/to_proto.h"
#include "worker/device/host_resources.h"

namespace plimsoll::cli {
namespace {

// Parses a list such as "a,b,c"; `parse` converts each part.
template <typename Parse>
auto ListOf(const Parse& parse) {
  return
      [parse](const std::string& text)
          -> absl::StatusOr<std::vector<std::decay_t<decltype(*parse(text))>>> {
        std::vector<std::decay_t<decltype(*parse(text))>> values;
        for (absl::string_view part : absl::StrSplit(text, ',')) {
          ASSIGN_OR_RETURN(auto value, parse(std::string(part)));
          values.push_back(std::move(value));
        }
        return values;
      };
}

auto CountList(int64_t max) {
  return ListOf(
      [max](const std::string& text) { return ParseCount(text, 1, max); });
}

// Parses "q8_0" for both, or "q8_0/q4_0"; commas separate the list's entries.
absl::StatusOr<KvTypes> ParseKvPair(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '/');
  if (parts.size() > 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text.substr(0, 40), "' is not a type or KEYS/VALUES"));
  }
  KvTypes types;
  ASSIGN_OR_RETURN(const KvTypes keys, ParseKvTypes(parts.front()));
  ASSIGN_OR_RETURN(const KvTypes values, ParseKvTypes(parts.back()));
  types.k = keys.k;
  types.v = values.v;
  return types;
}

uint32_t WireContext(const ContextFlag& flag, int64_t n_ctx_train) {
  switch (flag.kind) {
    case ContextFlag::Kind::kTokens:
      return services::ToUint32(flag.tokens);
    case ContextFlag::Kind::kMax:
      return services::ToUint32(n_ctx_train);
    default:
      return 0;
  }
}

std::string ContextLabel(uint32_t n_ctx) {
  if (n_ctx == 0) return "auto";
  return n_ctx == kMostContext ? "max" : FormatCount(n_ctx);
}

// Returns the contexts if the user names none: powers of four below the trained
// context, and the longest that fits.
std::vector<ContextFlag> DefaultContexts(int64_t n_ctx_train) {
  std::vector<ContextFlag> contexts;
  for (int64_t n = 2'048; n < n_ctx_train && contexts.size() < 4; n *= 4) {
    contexts.push_back({ContextFlag::Kind::kTokens, n});
  }
  contexts.push_back({ContextFlag::Kind::kAuto});
  return contexts;
}

std::string KvLabel(const KvTypes& kv) {
  const absl::string_view k = DTypeName(kv.k);
  return kv.k == kv.v ? std::string(k) : absl::StrCat(k, "/", DTypeName(kv.v));
}

void AddDevices(const WhatIfFlags& flags, v1::WhatIfRequest& request,
                GridAnswer& answer) {
  auto& labels = answer.labels[static_cast<size_t>(GridAxis::kDevice)];
  const auto add = [&](const std::string& id, std::optional<int64_t> budget) {
    v1::WhatIfDevice& device = *request.add_devices();
    std::string label = id;
    if (id.empty()) {
      *device.mutable_profile() = services::ToProto(worker::LocalCpuProfile());
      label = FormatBytes(
          budget.value_or(static_cast<int64_t>(device.profile().free_bytes())));
    } else {
      device.set_device_id(id);
      if (budget) absl::StrAppend(&label, " ", FormatBytes(*budget));
    }
    if (budget) device.set_budget_bytes(services::ToUint64(*budget));
    labels.push_back(std::move(label));
  };
  const std::vector<std::string> ids =
      flags.devices.empty() ? std::vector<std::string>{""} : flags.devices;
  for (const std::string& id : ids) {
    if (flags.device_memory.empty()) add(id, std::nullopt);
    for (int64_t budget : flags.device_memory) add(id, budget);
  }
}

}  // namespace

v1::WhatIfRequest ToRequest(const WhatIfFlags& flags, int64_t n_ctx_train,
                            GridAnswer& answer) {
  v1::WhatIfRequest request;
  const auto label = [&answer](GridAxis axis, const std::string& text) {
    answer.labels[static_cast<size_t>(axis)].push_back(text);
  };
  if (flags.max_inference_len) {
    request.mutable_options()->set_max_inference_len(
        services::ToUint32(*flags.max_inference_len));
  }
  AddDevices(flags, request, answer);
  for (const std::optional<DType>& type : flags.weights) {
    request.add_weight_types(type ? services::ToProto(*type)
                                  : v1::ELEMENT_TYPE_UNSPECIFIED);
    label(GridAxis::kWeights, type ? std::string(DTypeName(*type)) : "file");
  }
  for (const KvTypes& kv : flags.kv) {
    v1::KvTypes& types = *request.add_kv_types();
    types.set_k_type(services::ToProto(kv.k));
    types.set_v_type(services::ToProto(kv.v));
    label(GridAxis::kKvType, KvLabel(kv));
  }
  for (int64_t n : flags.n_ubatch) {
    request.add_n_ubatch(services::ToUint32(n));
    label(GridAxis::kUbatch, absl::StrCat(n));
  }
  for (int64_t n : flags.slots) {
    request.add_n_slots(services::ToUint32(n));
    label(GridAxis::kSlots, absl::StrCat(n));
  }
  for (const ContextFlag& flag :
       flags.n_ctx.empty() ? DefaultContexts(n_ctx_train) : flags.n_ctx) {
    const uint32_t n_ctx = WireContext(flag, n_ctx_train);
    request.add_n_ctx(n_ctx);
    label(GridAxis::kContext, ContextLabel(n_ctx));
  }
  return request;
}

void AddAxisFlags(CLI::App& app, WhatIfFlags* flags) {
  const std::string group = "Axes (lists)";
  AddParsed(app, &flags->n_ctx, ListOf(ParseContext),
            {.name = "--n-ctx",
             .type = "N|auto|max,...",
             .help = "Tokens of context per slot; auto: the longest that fits"})
      ->group(group);
  AddParsed(app, &flags->slots, CountList(planner::LoadOptions::kMaxSlots),
            {.name = "--slots",
             .type = "S,...",
             .help = "Sequences served at once (1,2,4,8)"})
      ->group(group);
  AddParsed(app, &flags->kv, ListOf(ParseKvPair),
            {.name = "--kv-type",
             .type = "TYPE[/TYPE],...",
             .help = "Element type of keys, and of values (f16)"})
      ->group(group);
  AddParsed(
      app, &flags->n_ubatch, CountList(planner::LoadOptions::kMaxUbatch),
      {.name = "--n-ubatch", .type = "U,...", .help = "Rows of one step (512)"})
      ->group(group);
  AddParsed(
      app, &flags->weights, ListOf(ParseWeights),
      {.name = "--weights",
       .type = "file|TYPE,...",
       .help = "All matrices in this type; rows that are no whole blocks of it "
               "in q8_0 or f16 (file)"})
      ->group(group);
  AddParsed(
      app, &flags->device_memory, ListOf(ParseBytes),
      {.name = "--device-memory",
       .type = "BYTES,...",
       .help = "Budgets, as bytes or 12GiB; default: what this machine has "
               "available now"})
      ->group(group);
  AddParsed(app, &flags->devices,
            ListOf([](const std::string& id) -> absl::StatusOr<std::string> {
              if (!id.empty()) return id;
              return absl::InvalidArgumentError("an id is empty");
            }),
            {.name = "--device",
             .type = "ID,...",
             .help = "With --planner: registered devices, such as cpu"})
      ->group(group);
}

}  // namespace plimsoll::cli
