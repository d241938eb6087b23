// The default backend: it plans, loads and generates in this process.
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
#include "planner/layout/runtime_profile.h"
#include "services/cli/flags/flags.h"
#include "services/cli/terminal/streams.h"
#include "services/host/device_list.h"
#include "worker/device/compute_device.h"
#include "worker/device/model_file.h"
#include "worker/engine/engine.h"
#include "worker/text/chat/chat_template.h"
#include "worker/text/chat/model_template.h"

namespace plimsoll::cli {

// One-shot commands use this context unless the user requests more.
inline constexpr int64_t kDefaultContext = 4'096;

// The meaning of an omitted --n-ctx.
enum class ContextDefault { kShort, kLongestThatFits };

planner::LoadOptions ToLoadOptions(const LoadFlags& flags, int64_t n_ctx_train,
                                   ContextDefault context_default);
// The options of a plan: those of ToLoadOptions, and the flags of
// AddEngineFlags.
planner::PlanOptions ToPlanOptions(const LoadFlags& flags, int64_t n_ctx_train,
                                   ContextDefault context_default);

// A device of this machine, with `budget_bytes` or, if that is absent, the
// available bytes of the device.
planner::SplitDevice BudgetHere(const planner::ModelShape& shape,
                                const LoadFlags& flags,
                                const worker::ComputeDevice& device,
                                std::optional<int64_t> budget_bytes);

// Adds to `profile` the figures of a worker that has measured nothing yet: room
// for messages and, on a CPU, the bound on the runtime under `load`. Returns
// that bound, which also holds for the host of a worker on a GPU.
int64_t PlanAsWorker(const planner::RuntimeLoad& load,
                     planner::DeviceProfile& profile);

// A model loaded in this process.
struct LoadedModel {
  std::string name;  // the file's name, without folders
  // Devices on which the engine runs. They outlive it. If there are several,
  // `used` and `used_names` are the devices that hold layers.
  services::ComputeDevices devices;
  std::vector<const worker::ComputeDevice*> used;
  std::vector<std::string> used_names;
  std::unique_ptr<worker::Engine> engine;
  // Absent if the load needs no chat format.
  std::optional<worker::ChatFormatChoice> chat;
  // The template of the file, if no built-in format matches it.
  std::shared_ptr<const worker::ModelTemplate> own_template;
};

// The chat format that a load must find before it reads the weights.
struct ChatWish {
  bool wanted = false;
  std::string name;  // --chat-format; empty: the model's own
};

// How a model is loaded in this process.
struct LoadWish {
  const LoadFlags& flags;
  ChatWish chat = {};
};

// Opens the devices of --device for --precision. Errors: a usage error that
// names the devices that exist.
absl::StatusOr<services::ComputeDevices> OpenDevices(
    const std::vector<std::string>& names, const LoadFlags& flags);
// Returns --device-memory for each device. Errors: a usage error.
absl::StatusOr<std::vector<std::optional<int64_t>>> MemoryOfEach(
    const LoadFlags& flags, size_t n_devices);

// Plans and loads `model`; progress and notes go to `streams.err`.
// Errors: DoesNotFit; those of the device, the file or the load.
absl::StatusOr<LoadedModel> LoadHere(const std::string& model,
                                     const LoadWish& wish, Streams& streams);

// Like LoadHere, on devices that are open already. wish.flags.devices has their
// names.
absl::StatusOr<LoadedModel> LoadOn(services::ComputeDevices devices,
                                   const std::string& model,
                                   const LoadWish& wish, Streams& streams);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_EMBEDDED_H_
