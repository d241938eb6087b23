// The metrics of a worker, or of any process with models.
#ifndef PLIMSOLL_SERVICES_METRICS_WORKER_METRICS_H_
#define PLIMSOLL_SERVICES_METRICS_WORKER_METRICS_H_

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/metrics/model_counts.h"
#include "services/metrics/scrape.h"
#include "services/server/access/auth_failure.h"
#include "services/worker/models/model_registry.h"
#include "services/worker/models/options.h"
#include "services/worker/models/worker_observer.h"

namespace plimsoll::services {

// Counts the events that a worker reports; all other values are read from the
// models at each scrape. It knows the configured models and devices, so no
// client can add a series. Thread-safe.
class WorkerMetrics final : public WorkerObserver {
 public:
  explicit WorkerMetrics(const WorkerOptions& options);

  // OnModelAdded takes a lock and allocates; the other methods do neither.
  void OnModelAdded(const std::string& model) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnSubmit(const std::string& model, const absl::Status& status) override;
  void OnStep(const std::string& model,
              const worker::StepRecord& step) override;
  void OnRequestEnd(const std::string& model,
                    const worker::RequestRecord& request) override;
  void OnLoadEnd(const LoadRecord& load) override;
  void OnUnload(const std::string& model) override;
  void OnLease(const LeaseRecord& lease) override;

  // Returns the reply to a scrape. It takes no longer than the registry's
  // lists, and reading some small files of /proc.
  // `failures` are those of the server's gate.
  std::string Text(ModelRegistry& registry, bool is_ready,
                   const AuthFailureCounts& failures = {}) const;

 private:
  struct AddedModel {
    AddedModel(std::string name, AddedModel* next)
        : name(std::move(name)), next(next) {}

    const std::string name;
    AddedModel* const next;  // the one that was added before it, or null
    ModelCounts counts = {};
  };

  // Null for a model that is not configured.
  ModelCounts* CountsOf(const std::string& model);
  void AddCounts(Scrape& scrape) const;

  absl::Mutex mu_;
  // The storage of the list of added models; adding a model moves no other one.
  std::deque<AddedModel> added_ ABSL_GUARDED_BY(mu_);
  std::atomic<AddedModel*> newest_ = nullptr;
  // The keys are constant.
  std::map<std::string, ModelCounts, std::less<>> models_;
  std::map<std::string, LeaseCounts, std::less<>> devices_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_WORKER_METRICS_H_
