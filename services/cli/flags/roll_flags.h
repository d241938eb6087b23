// Flags for a rolling context, and their conversion for a request.
#ifndef PLIMSOLL_SERVICES_CLI_FLAGS_ROLL_FLAGS_H_
#define PLIMSOLL_SERVICES_CLI_FLAGS_ROLL_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "plimsoll/v1/generation.pb.h"
#include "plimsoll/v1/session.pb.h"

namespace plimsoll::cli {

struct RollFlags {
  v1::ContextPolicy policy = v1::CONTEXT_POLICY_STOP;
  std::optional<v1::RollMethod> method;
  std::optional<int64_t> pin_tokens;
  std::optional<int64_t> evict_to;
};

// Adds --context-policy, --roll-method, --pin-tokens and --evict-to.
void AddRollFlags(CLI::App& app, RollFlags* flags);

// Checks the flags. Errors: UsageError for a flag without meaning under the
// policy.
absl::Status CheckRollFlags(const RollFlags& flags);

void SetRoll(const RollFlags& flags, v1::StreamGenerateRequest& request);

// The flags of a chat, which always rolls and pins its system message.
struct SessionRollFlags {
  std::optional<v1::RollMethod> method;
  std::optional<int64_t> evict_to;
};

// Adds --roll-method and --evict-to.
void AddSessionRollFlags(CLI::App& app, SessionRollFlags* flags);

void SetRoll(const SessionRollFlags& flags, v1::OpenSessionRequest& request);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_FLAGS_ROLL_FLAGS_H_
