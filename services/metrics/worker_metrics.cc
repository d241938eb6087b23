#include "services/metrics/worker_metrics.h"

#include "services/metrics/auth_metric.h"
#include "services/metrics/registry_metrics.h"
#include "services/metrics/span_metric.h"
#include "services/metrics/worker_metric_list.h"
#include "worker/device/host_resources.h"

namespace plimsoll::services {
namespace {

void AddModelCounts(const std::string& name, const ModelCounts& counts,
                    Scrape& scrape) {
  const Scrape::Label model{"model", name};
  for (size_t i = 0; i < kResults.size(); ++i) {
    scrape.Add(kRequests, {model, {"result", kResults[i]}},
               counts.results[i].load());
  }
  scrape.Add(kAdmission, {model, {"decision", "admitted"}, {"reason", ""}},
             counts.admitted.load());
  for (size_t i = 0; i < kRefusals.size(); ++i) {
    const Scrape::Label reason{"reason", kRefusals[i]};
    const int64_t n_refused = counts.refused[i].load();
    scrape.Add(kAdmission, {model, {"decision", "refused"}, reason}, n_refused);
    scrape.Add(kVllmRejections, {{"model_name", name}, reason}, n_refused);
  }
  scrape.Add(kLoads, {model, {"result", "ok"}}, counts.loads.load());
  scrape.Add(kLoads, {model, {"result", "error"}}, counts.failed_loads.load());
  scrape.Add(kUnloads, {model}, counts.unloads.load());
  if (counts.loads + counts.failed_loads > 0) {
    scrape.Add(kLoadSeconds, {model, {"phase", "total"}},
               counts.load_seconds.load());
  }
  scrape.Add(kPromptTokens, {model, {"cached", "false"}},
             counts.computed_tokens.load());
  scrape.Add(kPromptTokens, {model, {"cached", "true"}},
             counts.cached_tokens.load());
  scrape.Add(kEvictions, {model}, counts.evictions.load());
  scrape.Add(kEvictedTokens, {model}, counts.evicted_tokens.load());
  scrape.Add(kStepSeconds, {model}, counts.step.Read());
  scrape.Add(kInterTokenLatency, {model}, counts.inter_token.Read());
  scrape.Add(kQueueSeconds, {model}, counts.queued.Read());
  scrape.Add(kRequestPromptTokens, {model}, counts.prompt_tokens.Read());
  scrape.Add(kRequestGenerationTokens, {model}, counts.generated_tokens.Read());
  const Scrape::Label alias{"gen_ai_request_model", name};
  const auto first_token = counts.first_token.Read();
  scrape.Add(kTimeToFirstToken, {model}, first_token);
  scrape.Add(kGenAiFirstToken, {alias}, first_token);
  const auto per_token = counts.per_token.Read();
  scrape.Add(kTimePerOutputToken, {model}, per_token);
  scrape.Add(kGenAiPerToken, {alias}, per_token);
  const auto request = counts.request.Read();
  scrape.Add(kRequestSeconds, {model}, request);
  scrape.Add(kGenAiDuration, {alias}, request);
}

}  // namespace

WorkerMetrics::WorkerMetrics(const WorkerOptions& options) {
  for (const ModelFlag& model : options.models) models_[model.name];
  for (const WorkerDevice& device : options.devices) devices_[device.id];
}

ModelCounts* WorkerMetrics::CountsOf(const std::string& model) {
  const auto found = models_.find(model);
  if (found != models_.end()) return &found->second;
  AddedModel* added = newest_.load(std::memory_order_acquire);
  while (added != nullptr && added->name != model) added = added->next;
  return added == nullptr ? nullptr : &added->counts;
}

void WorkerMetrics::OnModelAdded(const std::string& model) {
  absl::MutexLock lock(&mu_);
  if (CountsOf(model) != nullptr) return;
  AddedModel& added = added_.emplace_back(model, newest_.load());
  newest_.store(&added, std::memory_order_release);
}

void WorkerMetrics::OnSubmit(const std::string& model,
                             const absl::Status& status) {
  if (ModelCounts* counts = CountsOf(model)) counts->AddSubmit(status);
}

void WorkerMetrics::OnStep(const std::string& model,
                           const worker::StepRecord& step) {
  if (ModelCounts* counts = CountsOf(model)) counts->Add(step);
}

void WorkerMetrics::OnRequestEnd(const std::string& model,
                                 const worker::RequestRecord& request) {
  if (ModelCounts* counts = CountsOf(model)) counts->Add(request);
}

void WorkerMetrics::OnLoadEnd(const LoadRecord& load) {
  ModelCounts* counts = CountsOf(load.model);
  if (counts == nullptr) return;
  ++(load.status.ok() ? counts->loads : counts->failed_loads);
  counts->load_seconds = absl::ToDoubleSeconds(load.time);
}

void WorkerMetrics::OnUnload(const std::string& model) {
  if (ModelCounts* counts = CountsOf(model)) ++counts->unloads;
}

void WorkerMetrics::OnLease(const LeaseRecord& lease) {
  const auto found = devices_.find(lease.device_id);
  if (found == devices_.end()) return;
  LeaseCounts& counts = found->second;
  switch (lease.event) {
    case LeaseEvent::kGranted:
      ++counts.granted;
      break;
    case LeaseEvent::kReleased:
      ++counts.released;
      break;
    case LeaseEvent::kLost:
      ++counts.lost;
      break;
  }
}

std::string WorkerMetrics::Text(ModelRegistry& registry, bool is_ready,
                                const AuthFailureCounts& failures) const {
  Scrape scrape(WorkerMetricList());
  scrape.Add(kReady, {}, is_ready ? 1.0 : 0.0);
  scrape.Add(kResidentBytes, {}, worker::ResidentBytes());
  AddTenants(registry, scrape);
  AddModels(registry.List(), scrape);
  AddMemory(registry, scrape);
  AddCounts(scrape);
  AddAuthFailures(failures, scrape);
  AddSpans(scrape);
  return scrape.Text();
}

void WorkerMetrics::AddCounts(Scrape& scrape) const {
  for (const auto& [name, counts] : models_) {
    AddModelCounts(name, counts, scrape);
  }
  for (const AddedModel* added = newest_.load(std::memory_order_acquire);
       added != nullptr; added = added->next) {
    AddModelCounts(added->name, added->counts, scrape);
  }
  for (const auto& [id, counts] : devices_) {
    const Scrape::Label device{"device", id};
    scrape.Add(kLeaseEvents, {device, {"event", "granted"}},
               counts.granted.load());
    scrape.Add(kLeaseEvents, {device, {"event", "released"}},
               counts.released.load());
    scrape.Add(kLeaseEvents, {device, {"event", "lost"}}, counts.lost.load());
  }
}

}  // namespace plimsoll::services
