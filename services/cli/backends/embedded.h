// The embedded default: plan, load and generate in this process.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_EMBEDDED_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_EMBEDDED_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/layout/layer_split.h"
#include "planner/layout/memory_plan.h"
#include "services/cli/backends/generator.h"
#include "services/cli/flags/flags.h"
#include "services/cli/terminal/streams.h"
#include "services/host/device_list.h"
#include "worker/device/compute_device.h"
#include "worker/device/model_file.h"
#include "worker/engine/engine.h"
#include "worker/text/chat/chat_template.h"

namespace plimsoll::cli {

// Context that one-shot commands take if nobody asks for more.
inline constexpr int64_t kDefaultContext = 4'096;

// What an omitted --n-ctx means.
enum class ContextDefault { kShort, kLongestThatFits };

planner::LoadOptions ToLoadOptions(const LoadFlags& flags, int64_t n_ctx_train,
                                   ContextDefault context_default);

// A device of this machine, with `budget_bytes` or what is available there.
planner::SplitDevice BudgetHere(const planner::ModelShape& shape,
                                const LoadFlags& flags,
                                const worker::ComputeDevice& device,
                                std::optional<int64_t> budget_bytes);

// A model loaded in this process.
struct LoadedModel {
  std::string name;  // the file's, without folders
  // Where the engine runs, which they outlive; of several, those that hold
  // layers, and their names.
  services::ComputeDevices devices;
  std::vector<const worker::ComputeDevice*> used;
  std::vector<std::string> used_names;
  std::unique_ptr<worker::Engine> engine;
  // Absent if no chat format was asked for.
  std::optional<worker::ChatFormatChoice> chat;
};

// Which chat format a load is to settle before it reads the weights.
struct ChatWish {
  bool wanted = false;
  std::string name;  // --chat-format; empty: the model's own
};

// Devices of --device, opened for --precision. Errors: a usage error that says
// what is there instead.
absl::StatusOr<services::ComputeDevices> OpenDevices(
    const std::vector<std::string>& names, const LoadFlags& flags);
// --device-memory for each device. Errors: a usage error.
absl::StatusOr<std::vector<std::optional<int64_t>>> MemoryOfEach(
    const LoadFlags& flags, size_t n_devices);

// Plans and loads `model`, with progress and notes on `streams.err`.
// Errors: DoesNotFit; what the device, the file or the load report.
absl::StatusOr<LoadedModel> LoadHere(const std::string& model,
                                     const LoadFlags& flags,
                                     const ChatWish& chat, Streams& streams);

// The same on devices that are open and called as flags.devices says.
absl::StatusOr<LoadedModel> LoadOn(services::ComputeDevices devices,
                                   const std::string& model,
                                   const LoadFlags& flags, const ChatWish& chat,
                                   Streams& streams);

// Text from `model`, which it owns.
std::unique_ptr<Generator> NewEmbeddedGenerator(LoadedModel model);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_EMBEDDED_H_
