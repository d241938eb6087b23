#include "services/http/local/server_status.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "planner/layout/memory_plan.h"
#include "services/worker/models/loaded_model.h"
#include "services/worker/models/model_info.h"
#include "worker/device/host_resources.h"
#include "worker/engine/engine.h"

namespace plimsoll::services {
namespace {

// What lies on one device.
struct DeviceUse {
  bool is_host = false;
  int64_t planned_bytes = 0;
  int64_t budget_bytes = 0;
  std::optional<int64_t> taken_bytes;
};

const char* BasisWord(planner::Basis basis) {
  switch (basis) {
    case planner::Basis::kDerived:
      return "derived";
    case planner::Basis::kMeasured:
      return "measured";
    case planner::Basis::kEstimated:
      return "estimated";
  }
  return "";
}

Json ToJson(const planner::Region& region) {
  Json json;
  json["name"] = std::string(region.name);
  json["bytes"] = region.bytes;
  json["basis"] = BasisWord(region.basis);
  json["formula"] = region.formula;
  if (region.on_host) json["on_host"] = true;
  if (region.is_mapped) json["mapped"] = true;
  return json;
}

Json ToJson(const LoadedModel::Part& part, const worker::EnginePart& layers,
            const worker::MemoryReport& measured) {
  Json json;
  json["device"] = part.device_id;
  json["first_layer"] = layers.first_layer;
  json["n_layers"] = layers.n_layers;
  json["total_bytes"] = layers.plan.total_bytes;
  json["n_ctx_reason"] = layers.plan.n_ctx_reason;
  if (!layers.plan.cpu_experts_reason.empty()) {
    json["cpu_experts_reason"] = layers.plan.cpu_experts_reason;
  }
  json["regions"] = Json::array();
  for (const planner::Region& region : layers.plan.regions) {
    json["regions"].push_back(ToJson(region));
  }
  json["measured"] = {{"arena_planned_bytes", measured.planned_bytes},
                      {"arena_bytes", measured.allocated_bytes},
                      {"vocab_bytes", measured.vocab_bytes},
                      {"table_bytes", measured.table_bytes}};
  if (measured.host_planned_bytes > 0) {
    json["measured"]["host_planned_bytes"] = measured.host_planned_bytes;
    json["measured"]["host_bytes"] = measured.host_allocated_bytes;
  }
  return json;
}

// Adds the numbers of a model in memory to `json`, and its bytes to the
// devices'.
void AddLoaded(const LoadedModel& model, Json& json,
               std::map<std::string, DeviceUse>& devices) {
  for (size_t i = 0; i < model.parts.size(); ++i) {
    const LoadedModel::Part& part = model.parts[i];
    const worker::EnginePart& layers = model.engine->parts()[i];
    const worker::MemoryReport measured = model.engine->MemoryOf(i);
    json["parts"].push_back(ToJson(part, layers, measured));
    // What the device had for this model and for those before it. Others may
    // take some of it later, so that the least is what there is.
    const int64_t budget = layers.plan.budget_bytes + part.held_bytes;
    DeviceUse& use = devices[part.device_id];
    use.budget_bytes =
        use.planned_bytes == 0 ? budget : std::min(use.budget_bytes, budget);
    use.is_host = part.is_on_host;
    use.planned_bytes += layers.plan.total_bytes;
    if (measured.device_taken_bytes.has_value()) {
      use.taken_bytes =
          use.taken_bytes.value_or(0) + *measured.device_taken_bytes;
    }
  }
  json["page_tokens"] = model.engine->plan().kv.page_tokens;
}

void Fill(const ReadyModel& model, Json& json) {
  const worker::EngineLoad& load = model.load;
  json["architecture"] = model.architecture;
  json["n_ctx"] = model.n_ctx;
  json["n_ctx_train"] = model.n_ctx_train;
  json["n_slots"] = load.n_slots;
  json["running"] = load.running;
  json["waiting"] = load.waiting;
  json["sessions"] = load.sessions;
  json["kv_pages"] = load.kv_pages;
  json["kv_used_pages"] = load.kv_used_pages;
  json["prompt_tokens"] = load.prompt_tokens;
  json["cached_tokens"] = load.cached_tokens;
  json["generated_tokens"] = load.generated_tokens;
}

Json ToJson(const std::string& id, const DeviceUse& use) {
  Json json;
  json["id"] = id;
  json["budget_bytes"] = use.budget_bytes;
  json["planned_bytes"] = use.planned_bytes;
  if (use.is_host) {
    json["measured_bytes"] = worker::ResidentBytes();
    json["peak_bytes"] = worker::PeakResidentBytes();
  } else {
    json["measured_bytes"] =
        use.taken_bytes.has_value() ? Json(*use.taken_bytes) : Json(nullptr);
  }
  return json;
}

}  // namespace

Json ServerStatus(ModelRegistry& registry, const std::string& state) {
  std::map<std::string, Json> models;  // by name
  for (const ModelInfo& info : registry.List()) {
    Json& json = models[info.name];
    json["id"] = info.name;
    json["state"] = StateWord(info.state);
    if (!info.last_error.empty()) json["error"] = info.last_error;
    if (info.is_pinned) json["pinned"] = true;
    if (info.ready.has_value()) Fill(*info.ready, json);
    json["parts"] = Json::array();
  }
  std::map<std::string, DeviceUse> devices;
  registry.Visit([&](const LoadedModel& model, ModelState) {
    // A load may have ended since the list was made; its numbers come next
    // time.
    Json& json = models[model.name];
    if (json.contains("n_slots")) AddLoaded(model, json, devices);
  });
  Json status;
  status["state"] = state;
  status["devices"] = Json::array();
  for (const auto& [id, use] : devices) {
    status["devices"].push_back(ToJson(id, use));
  }
  status["models"] = Json::array();
  for (auto& [name, json] : models) {
    status["models"].push_back(std::move(json));
  }
  return status;
}

}  // namespace plimsoll::services
