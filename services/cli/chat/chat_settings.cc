#include "services/cli/chat/chat_settings.h"

#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/nearest.h"
#include "base/status_macros.h"
#include "services/cli/terminal/terminal.h"
#include "worker/sampling/sampler.h"

namespace plimsoll::cli {
namespace {

using Penalties = worker::LogitBiasOptions;

struct Entry {
  absl::string_view name;
  std::string (*get)(const SamplingFlags& flags);
  absl::Status (*set)(absl::string_view value, SamplingFlags& flags);
};

absl::Status SetNumber(absl::string_view value, float min, float max,
                       float& out) {
  ASSIGN_OR_RETURN(out, ParseNumber(value, min, max));
  return absl::OkStatus();
}

absl::Status SetTopK(absl::string_view value, SamplingFlags& flags) {
  ASSIGN_OR_RETURN(const int64_t k,
                   ParseCount(value, 0, std::numeric_limits<int32_t>::max()));
  flags.sampling.top_k = static_cast<int32_t>(k);
  return absl::OkStatus();
}

absl::Status SetSeed(absl::string_view value, SamplingFlags& flags) {
  if (absl::SimpleAtoi(value, &flags.sampling.seed)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", value.substr(0, 40), "' is not a whole number from 0 to 2^64 - 1"));
}

absl::Status SetLastTokens(absl::string_view value, SamplingFlags& flags) {
  ASSIGN_OR_RETURN(flags.logit_bias.penalty_last_tokens,
                   ParseCount(value, 0, Penalties::kMaxLastTokens));
  return absl::OkStatus();
}

absl::Status SetMaxTokens(absl::string_view value, SamplingFlags& flags) {
  ASSIGN_OR_RETURN(const int64_t n,
                   ParseCount(value, 0, std::numeric_limits<uint32_t>::max()));
  flags.max_tokens.reset();
  if (n > 0) flags.max_tokens = n;
  return absl::OkStatus();
}

constexpr Entry kChatSettings[] = {
    {"temperature",
     [](const SamplingFlags& f) {
       return absl::StrCat(f.sampling.temperature);
     },
     [](absl::string_view value, SamplingFlags& f) {
       return SetNumber(value, 0, worker::SamplingOptions::kMaxTemperature,
                        f.sampling.temperature);
     }},
    {"top_k",
     [](const SamplingFlags& f) { return absl::StrCat(f.sampling.top_k); },
     SetTopK},
    {"top_p",
     [](const SamplingFlags& f) { return absl::StrCat(f.sampling.top_p); },
     [](absl::string_view value, SamplingFlags& f) {
       return SetNumber(value, 0, 1, f.sampling.top_p);
     }},
    {"typical_p",
     [](const SamplingFlags& f) { return absl::StrCat(f.sampling.typical_p); },
     [](absl::string_view value, SamplingFlags& f) {
       return SetNumber(value, 0, 1, f.sampling.typical_p);
     }},
    {"min_p",
     [](const SamplingFlags& f) { return absl::StrCat(f.sampling.min_p); },
     [](absl::string_view value, SamplingFlags& f) {
       return SetNumber(value, 0, 1, f.sampling.min_p);
     }},
    {"repetition_penalty",
     [](const SamplingFlags& f) {
       return absl::StrCat(f.logit_bias.repetition_penalty);
     },
     [](absl::string_view value, SamplingFlags& f) {
       return SetNumber(value, Penalties::kMinRepetition,
                        Penalties::kMaxRepetition,
                        f.logit_bias.repetition_penalty);
     }},
    {"presence_penalty",
     [](const SamplingFlags& f) {
       return absl::StrCat(f.logit_bias.presence_penalty);
     },
     [](absl::string_view value, SamplingFlags& f) {
       return SetNumber(value, -Penalties::kMaxPenalty, Penalties::kMaxPenalty,
                        f.logit_bias.presence_penalty);
     }},
    {"frequency_penalty",
     [](const SamplingFlags& f) {
       return absl::StrCat(f.logit_bias.frequency_penalty);
     },
     [](absl::string_view value, SamplingFlags& f) {
       return SetNumber(value, -Penalties::kMaxPenalty, Penalties::kMaxPenalty,
                        f.logit_bias.frequency_penalty);
     }},
    {"penalty_last_tokens",
     [](const SamplingFlags& f) {
       return absl::StrCat(f.logit_bias.penalty_last_tokens);
     },
     SetLastTokens},
    {"seed",
     [](const SamplingFlags& f) { return absl::StrCat(f.sampling.seed); },
     SetSeed},
    {"max_tokens",
     [](const SamplingFlags& f) {
       return absl::StrCat(f.max_tokens.value_or(0));
     },
     SetMaxTokens},
};

absl::StatusOr<const Entry*> FindSetting(absl::string_view name) {
  const std::string wanted = absl::StrReplaceAll(name, {{"-", "_"}});
  std::vector<absl::string_view> names;
  for (const Entry& entry : kChatSettings) {
    if (entry.name == wanted) return &entry;
    names.push_back(entry.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no setting ", Printable(wanted.substr(0, 40)),
                   "; the nearest is ", Nearest(wanted, names)));
}

}  // namespace

std::vector<ChatSetting> ChatSettings(const SamplingFlags& flags) {
  std::vector<ChatSetting> settings;
  for (const Entry& entry : kChatSettings) {
    settings.push_back({std::string(entry.name), entry.get(flags)});
  }
  return settings;
}

absl::StatusOr<ChatSetting> ChatSettingOf(absl::string_view name,
                                          const SamplingFlags& flags) {
  ASSIGN_OR_RETURN(const Entry* entry, FindSetting(name));
  return ChatSetting{std::string(entry->name), entry->get(flags)};
}

absl::Status ChangeChatSetting(absl::string_view name, absl::string_view value,
                               SamplingFlags& flags) {
  ASSIGN_OR_RETURN(const Entry* entry, FindSetting(name));
  SamplingFlags changed = flags;
  absl::Status status = entry->set(value, changed);
  if (status.ok()) status = worker::ValidateSampling(changed.sampling);
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(entry->name, ": ", Printable(status.message())));
  }
  flags = std::move(changed);
  return absl::OkStatus();
}

}  // namespace plimsoll::cli
