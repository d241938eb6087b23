// The flags of `generate`, and its two forms: one prompt, or a batch.
#ifndef PLIMSOLL_SERVICES_CLI_COMMANDS_GENERATE_H_
#define PLIMSOLL_SERVICES_CLI_COMMANDS_GENERATE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plimsoll/v1/generation.pb.h"
#include "services/cli/backends/generator.h"
#include "services/cli/flags/constraint_flags.h"
#include "services/cli/flags/flags.h"
#include "services/cli/flags/roll_flags.h"
#include "services/cli/flags/tool_flags.h"
#include "services/cli/terminal/streams.h"

namespace plimsoll::cli {

struct GenerateFlags {
  std::string model;
  std::optional<std::string> prompt;
  std::string file;
  std::string batch;
  bool raw = false;
  std::string system;
  std::string chat_format;
  ToolFlags tool_flags;
  std::vector<v1::Tool> tools;  // read from the file
  LoadFlags load;
  SamplingFlags sampling;
  RollFlags roll;
  ConstraintFlags constraint;
  // The constraint of the flags; absent without such flags.
  std::optional<v1::OutputConstraint> output_constraint;
  std::string output;
};

// Makes the request for `prompt` from --raw, --system and the other flags.
// Errors: kInvalidArgument if a chat message is not UTF-8.
absl::StatusOr<v1::StreamGenerateRequest> RequestFor(
    std::string prompt, const GenerateFlags& flags);

// Prints one JSON object for every line of the batch, in order. As many lines
// run at once as there are slots.
// Errors: those of a line, naming its number; earlier lines are printed first.
absl::Status RunBatch(Generator& generator, const GenerateFlags& flags,
                      Streams& streams);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_COMMANDS_GENERATE_H_
