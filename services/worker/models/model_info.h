// A worker's description of a model: its state, how far its load is, and what
// it takes once it is ready.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_INFO_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_INFO_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "planner/layout/memory_plan.h"
#include "worker/engine/engine_reports.h"

namespace plimsoll::services {

// A model goes through these states in order, and from the last to the first.
enum class ModelState { kAbsent, kReserving, kLoading, kReady, kDraining };

// The word for a state that replies over HTTP and metrics have.
inline const char* StateWord(ModelState state) {
  switch (state) {
    case ModelState::kAbsent:
      return "unloaded";
    case ModelState::kReserving:
    case ModelState::kLoading:
      return "loading";
    case ModelState::kReady:
      return "ready";
    case ModelState::kDraining:
      return "unloading";
  }
  return "";
}

// Consecutive layers of a model on one of the worker's devices.
struct ModelPart {
  std::string device_id;
  int64_t first_layer = 0;
  int64_t n_layers = 0;
  int64_t total_bytes = 0;  // the plan's bytes
  bool is_on_host = true;   // its memory is the host's
};

// Consecutive layers of a model that is being loaded, with their plan.
struct PlannedPart {
  std::string device_id;
  int64_t first_layer = 0;
  int64_t n_layers = 0;
  planner::MemoryPlan plan;
};

// A model that is in memory.
struct ReadyModel {
  std::string architecture;
  std::string display_name;  // general.name of its file
  int64_t n_ctx = 0;         // tokens of one slot
  int64_t n_ctx_train = 0;
  int64_t weight_bytes = 0;      // in the file
  std::string chat_format;       // empty if none is known
  bool has_tools = false;        // calls are found in replies of that format
  std::vector<ModelPart> parts;  // at least one, in the order of their layers
  worker::EngineLoad load;
  // When its last use ended; absent while a call or a session uses it.
  std::optional<absl::Time> idle_since;
};

// A configured model.
struct ModelInfo {
  std::string name;
  ModelState state = ModelState::kAbsent;
  std::string last_error = {};  // why the last load failed, if it did
  bool is_pinned = false;       // it makes room for no other model
  // How long it stays loaded without use.
  absl::Duration keep_alive = absl::InfiniteDuration();
  // Present if kReady or kDraining.
  std::optional<ReadyModel> ready = std::nullopt;
};

// How a load goes.
struct LoadReport {
  ModelState state = ModelState::kReserving;
  std::optional<int64_t> bytes_done = std::nullopt;  // bytes of weights
  std::optional<int64_t> bytes_total = std::nullopt;
  std::vector<PlannedPart> parts = {};            // once the plan is granted
  std::optional<ModelInfo> model = std::nullopt;  // once it is ready
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_INFO_H_
