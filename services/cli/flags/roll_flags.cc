// Parses the flags that say how a context rolls.
#include "services/cli/flags/roll_flags.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/cli/flags/flags.h"
#include "services/cli/terminal/failure.h"
#include "services/wire/to_proto.h"

namespace plimsoll::cli {
namespace {

absl::StatusOr<v1::ContextPolicy> ParsePolicyName(absl::string_view text) {
  if (text == "stop") return v1::CONTEXT_POLICY_STOP;
  if (text == "roll") return v1::CONTEXT_POLICY_ROLL;
  if (text == "error") return v1::CONTEXT_POLICY_ERROR;
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text.substr(0, 40), "' is not a policy; write stop, roll or error"));
}

absl::StatusOr<v1::RollMethod> ParseMethod(absl::string_view text) {
  if (text == "shift") return v1::ROLL_METHOD_SHIFT;
  if (text == "recompute") return v1::ROLL_METHOD_RECOMPUTE;
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text.substr(0, 40), "' is not a method; write shift or recompute"));
}

constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
constexpr char kGroup[] = "Full context";

void AddMethod(CLI::App& app, std::optional<v1::RollMethod>* method) {
  AddParsed(
      app, method, ParseMethod,
      {.name = "--roll-method",
       .type = "shift|recompute",
       .help =
           "After tokens left: keep the rest as it is, or compute it again, "
           "exact and slower (shift)"})
      ->group(kGroup);
}

void AddEvictTo(CLI::App& app, std::optional<int64_t>* evict_to) {
  AddCount(
      app, evict_to,
      {.name = "--evict-to",
       .min = 1,
       .max = kMost,
       .help = "Tokens that stay at most when some leave; default: 75 % of the "
               "context"})
      ->group(kGroup);
}

}  // namespace

void AddRollFlags(CLI::App& app, RollFlags* flags) {
  AddParsed(
      app, &flags->policy, ParsePolicyName,
      {.name = "--context-policy",
       .type = "stop|roll|error",
       .help =
           "When the context is full: end, drop the oldest tokens and go on, "
           "or fail (stop)"})
      ->group(kGroup);
  AddMethod(app, &flags->method);
  AddCount(app, &flags->pin_tokens,
           {.name = "--pin-tokens",
            .max = kMost,
            .type = "P",
            .help = absl::StrCat(
                "Leading tokens that never leave, BOS included; 0 pins "
                "nothing (",
                worker::RollOptions::kDefaultPinTokens, ")")})
      ->group(kGroup);
  AddEvictTo(app, &flags->evict_to);
}

void AddSessionRollFlags(CLI::App& app, SessionRollFlags* flags) {
  AddMethod(app, &flags->method);
  AddEvictTo(app, &flags->evict_to);
}

void SetRoll(const SessionRollFlags& flags, v1::OpenSessionRequest& request) {
  if (flags.method.has_value()) request.set_roll_method(*flags.method);
  if (flags.evict_to.has_value()) {
    request.set_evict_to(services::ToUint32(*flags.evict_to));
  }
}

absl::Status CheckRollFlags(const RollFlags& flags) {
  const bool is_set = flags.method.has_value() ||
                      flags.pin_tokens.has_value() ||
                      flags.evict_to.has_value();
  if (!is_set || flags.policy == v1::CONTEXT_POLICY_ROLL) {
    return absl::OkStatus();
  }
  return UsageError(
      "--roll-method, --pin-tokens and --evict-to say how a context rolls; "
      "add --context-policy roll");
}

void SetRoll(const RollFlags& flags, v1::StreamGenerateRequest& request) {
  request.set_context_policy(flags.policy);
  v1::RollOptions& roll = *request.mutable_roll();
  if (flags.method.has_value()) roll.set_method(*flags.method);
  if (flags.pin_tokens.has_value()) {
    roll.set_pin_tokens(services::ToUint32(*flags.pin_tokens));
  }
  if (flags.evict_to.has_value()) {
    roll.set_evict_to(services::ToUint32(*flags.evict_to));
  }
}

}  // namespace plimsoll::cli
