// Converts flags to a request of plimsoll.v1, for this process or a worker.
#ifndef PLIMSOLL_SERVICES_CLI_FLAGS_REQUEST_H_
#define PLIMSOLL_SERVICES_CLI_FLAGS_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>

#include "plimsoll/v1/generation.pb.h"
#include "services/cli/flags/flags.h"

namespace plimsoll::cli {

// Makes the parts of a request other than its prompt. `draft_tokens` is the
// most tokens that may be guessed in a step; absent: the server's own number.
v1::StreamGenerateRequest ToRequest(const SamplingFlags& flags,
                                    std::optional<int64_t> draft_tokens);

// Sets a prompt of any bytes, without a chat format, with the model's BOS rule
// and special tokens parsed (--raw).
void SetRawPrompt(std::string text, v1::StreamGenerateRequest& request);

void AddMessage(v1::ChatRole role, std::string content,
                v1::ChatPrompt& conversation);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_FLAGS_REQUEST_H_
