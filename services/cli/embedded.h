// The embedded default: plan, load and generate in this process.
#ifndef PLIMSOLL_SERVICES_CLI_EMBEDDED_H_
#define PLIMSOLL_SERVICES_CLI_EMBEDDED_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/memory_plan.h"
#include "services/cli/cli.h"
#include "services/cli/flags.h"
#include "services/cli/generator.h"
#include "worker/chat_template.h"
#include "worker/compute_device.h"
#include "worker/engine.h"
#include "worker/model_file.h"

namespace plimsoll::cli {

// Context that one-shot commands take if nobody asks for more.
inline constexpr int64_t kDefaultContext = 4'096;

// What an omitted --n-ctx means.
enum class ContextDefault { kShort, kLongestThatFits };

planner::LoadOptions ToLoadOptions(const LoadFlags& flags, int64_t n_ctx_train,
                                   ContextDefault context_default);

// The plan on a device of this machine, within --device-memory or what is
// available there.
absl::StatusOr<planner::MemoryPlan> PlanHere(
    const planner::ModelShape& shape, const LoadFlags& flags,
    ContextDefault context_default, const worker::ComputeDevice& device);

// A model loaded in this process.
struct LoadedModel {
  std::string name;  // the file's, without folders
  // Where the engine runs, which it outlives.
  std::unique_ptr<worker::ComputeDevice> device;
  std::unique_ptr<worker::Engine> engine;
  // Absent if no chat format was asked for.
  std::optional<worker::ChatFormatChoice> chat;
};

// Which chat format a load is to settle before it reads the weights.
struct ChatWish {
  bool wanted = false;
  std::string name;  // --chat-format; empty: the model's own
};

// --device, opened. Errors: a usage error that says what is there instead.
absl::StatusOr<std::unique_ptr<worker::ComputeDevice>> OpenDevice(
    const std::string& name);

// Plans and loads `model`, with progress and notes on `streams.err`.
// Errors: DoesNotFit; what the device, the file or the load report.
absl::StatusOr<LoadedModel> LoadHere(const std::string& model,
                                     const LoadFlags& flags,
                                     const ChatWish& chat, Streams& streams);

// Text from `model`, which it owns.
std::unique_ptr<Generator> NewEmbeddedGenerator(LoadedModel model);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_EMBEDDED_H_
