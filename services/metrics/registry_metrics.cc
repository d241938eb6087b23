#include "services/metrics/registry_metrics.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "planner/layout/memory_plan.h"
#include "services/generation/quota_book.h"
#include "services/generation/usage_file.h"
#include "services/metrics/worker_metric_list.h"
#include "services/worker/models/loaded_model.h"
#include "worker/device/host_resources.h"
#include "worker/engine/engine.h"

namespace plimsoll::services {
namespace {

constexpr ModelState kModelStates[] = {ModelState::kAbsent,
                                       ModelState::kLoading, ModelState::kReady,
                                       ModelState::kDraining};
constexpr const char* kKinds[] = {"weights", "kv", "scratch", "overhead"};

// The kind of memory that a region of a plan is.
const char* KindOf(absl::string_view region) {
  if (region == "weights" || region == "mtp" || region == "projector") {
    return "weights";
  }
  if (absl::StartsWith(region, "kv_") || region == "state") return "kv";
  if (region == "workspace" || region == "logits" || region == "candidates" ||
      region == "projector_workspace") {
    return "scratch";
  }
  return "overhead";
}

// A part of `n`, where there may be none.
double Ratio(int64_t part, int64_t n) {
  return n == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(n);
}

void AddLoad(const std::string& name, const worker::EngineLoad& load,
             Scrape& scrape) {
  const Scrape::Label model{"model", name};
  scrape.Add(kRequestsRunning, {model}, load.running);
  scrape.Add(kRequestsWaiting, {model}, load.waiting);
  scrape.Add(kRequestsWaitingLimit, {model}, load.max_waiting);
  scrape.Add(kSlots, {model}, load.n_slots);
  scrape.Add(kSessions, {model}, load.sessions);
  scrape.Add(kKvPages, {model}, load.kv_pages);
  scrape.Add(kKvPagesUsed, {model}, load.kv_used_pages);
  if (load.kv_reserved_pages) {
    scrape.Add(kKvPagesReserved, {model}, *load.kv_reserved_pages);
  }
  scrape.Add(kGenerationTokens, {model}, load.generated_tokens);
  scrape.Add(kDraftTokens, {model, {"accepted", "true"}},
             load.accepted_draft_tokens);
  scrape.Add(kDraftTokens, {model, {"accepted", "false"}},
             load.draft_tokens - load.accepted_draft_tokens);
  scrape.Add(kPreemptions, {model}, load.preemptions);
  const Scrape::Label alias{"model_name", name};
  scrape.Add(kVllmRunning, {alias}, load.running);
  scrape.Add(kVllmWaiting, {alias}, load.waiting);
  scrape.Add(kVllmKvUsage, {alias}, Ratio(load.kv_used_pages, load.kv_pages));
}

// What lies on one device.
struct LoadedBytes {
  bool is_host = false;
  bool has_mapping = false;  // resident pages of a file are in no plan
  int64_t planned = 0;
  int64_t budget = 0;
  std::optional<int64_t> measured;
  std::optional<int64_t> leased;
};

// Adds the plan of one part of a model.
void AddPlan(const LoadedModel& model, const LoadedModel::Part& part,
             const planner::MemoryPlan& plan, Scrape& scrape) {
  const Scrape::Label name{"model", model.name};
  const Scrape::Label device{"device", part.device_id};
  std::map<std::string, int64_t> kinds;
  int64_t page_bytes = 0;
  for (const planner::Region& region : plan.regions) {
    // Regions on the host, and mapped ones, are no part of the device's bytes.
    if (region.on_host || region.is_mapped) continue;
    kinds[KindOf(region.name)] += region.bytes;
    if (region.name == "kv_full" || region.name == "kv_mtp") {
      page_bytes += region.bytes;
    }
  }
  for (const char* kind : kKinds) {
    scrape.Add(kMemoryBytes, {name, device, {"kind", kind}}, kinds[kind]);
  }
  const worker::EngineLoad load = model.engine->CurrentLoad();
  scrape.Add(kSessionKvBytes, {name, device},
             load.sessions * (plan.kv.SlotBytes() + plan.mtp_kv.SlotBytes()));
  // All pages of a part have the same size.
  const int64_t used_bytes =
      load.kv_pages == 0 ? 0 : page_bytes / load.kv_pages * load.kv_used_pages;
  scrape.Add(kKvBytes, {name, device, {"state", "reserved"}}, page_bytes);
  scrape.Add(kKvBytes, {name, device, {"state", "used"}}, used_bytes);
  scrape.Add(kKvBytes, {name, device, {"state", "free"}},
             page_bytes - used_bytes);
}

// Adds a model in memory, and its bytes to the devices'.
void AddLoaded(const LoadedModel& model,
               std::map<std::string, LoadedBytes>& devices, Scrape& scrape) {
  for (size_t i = 0; i < model.parts.size(); ++i) {
    const LoadedModel::Part& part = model.parts[i];
    const planner::MemoryPlan& plan = model.engine->parts()[i].plan;
    AddPlan(model, part, plan, scrape);
    LoadedBytes& device = devices[part.device_id];
    // What the device had for this model and for those before it. Others may
    // take some of it later, so that the least is what there is.
    const int64_t budget = plan.budget_bytes + part.held_bytes;
    device.budget =
        device.planned == 0 ? budget : std::min(device.budget, budget);
    device.is_host = part.is_on_host;
    device.planned += plan.total_bytes;
    for (const planner::Region& region : plan.regions) {
      device.has_mapping |= region.is_mapped;
    }
    if (part.lease.has_value()) {
      device.leased = device.leased.value_or(0) + part.lease->bytes;
    }
    // On the host what the process has resident counts, and what a load took is
    // not known. Asking for it would read a file of /proc for each model.
    if (part.is_on_host) continue;
    const auto taken = model.engine->MemoryOf(i).device_taken_bytes;
    if (taken.has_value()) {
      device.measured = device.measured.value_or(0) + *taken;
    }
  }
  scrape.Add(kLoadSeconds, {{"model", model.name}, {"phase", "weights"}},
             absl::ToDoubleSeconds(model.weight_time));
  scrape.Add(
      kVllmCacheConfig,
      {{"model_name", model.name},
       {"block_size", absl::StrCat(model.engine->plan().kv.page_tokens)},
       {"num_gpu_blocks", absl::StrCat(model.engine->CurrentLoad().kv_pages)}},
      1.0);
}

}  // namespace

void AddModels(const std::vector<ModelInfo>& models, Scrape& scrape) {
  for (const ModelInfo& info : models) {
    const ModelState present = info.state == ModelState::kReserving
                                   ? ModelState::kLoading
                                   : info.state;
    for (const ModelState state : kModelStates) {
      scrape.Add(kModelState,
                 {{"model", info.name}, {"state", StateWord(state)}},
                 state == present ? 1.0 : 0.0);
    }
    if (info.ready.has_value()) AddLoad(info.name, info.ready->load, scrape);
  }
}

void AddMemory(ModelRegistry& registry, Scrape& scrape) {
  std::map<std::string, LoadedBytes> devices;
  registry.Visit([&](const LoadedModel& model, ModelState) {
    AddLoaded(model, devices, scrape);
  });
  for (auto& [id, bytes] : devices) {
    const Scrape::Label device{"device", id};
    if (bytes.is_host) bytes.measured = worker::ResidentBytes();
    scrape.Add(kPlannedBytes, {device}, bytes.planned);
    scrape.Add(kBudgetBytes, {device}, bytes.budget);
    if (bytes.leased.has_value()) {
      scrape.Add(kWorkerLeaseBytes, {device}, *bytes.leased);
    }
    if (!bytes.measured.has_value()) continue;
    scrape.Add(kMeasuredBytes, {device}, *bytes.measured);
    if (bytes.is_host && bytes.has_mapping) continue;
    scrape.Add(kPlanErrorRatio, {device},
               Ratio(*bytes.measured, bytes.planned) - 1.0);
  }
}

void AddTenants(ModelRegistry& registry, Scrape& scrape) {
  if (registry.quotas() == nullptr) return;
  if (UsageFile* const file = registry.quotas()->usage_file()) {
    scrape.Add(kReceiptsLost, {}, file->n_lost());
  }
  for (const auto& [name, usage] : registry.quotas()->Usage()) {
    const Scrape::Label tenant{"tenant", name};
    scrape.Add(kTenantRequests, {tenant, {"decision", "admitted"}},
               usage.requests);
    scrape.Add(kTenantRequests, {tenant, {"decision", "refused"}},
               usage.refused);
    scrape.Add(kTenantTokens, {tenant, {"kind", "prompt"}},
               usage.prompt_tokens);
    scrape.Add(kTenantTokens, {tenant, {"kind", "cached"}},
               usage.cached_tokens);
    scrape.Add(kTenantTokens, {tenant, {"kind", "generated"}},
               usage.generated_tokens);
  }
}

}  // namespace plimsoll::services
