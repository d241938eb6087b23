// The interface by which a worker reports its work: steps, requests, loads and
// leases. Metrics and logs hang here.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_WORKER_OBSERVER_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_WORKER_OBSERVER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/engine/engine_observer.h"

namespace plimsoll::services {

// A load that has ended.
struct LoadRecord {
  std::string model;
  absl::Status status;      // OK: the model is ready
  absl::Duration time;      // from the request to the end
  int64_t total_bytes = 0;  // all parts' plans; 0 after an error
  std::string note = {};    // for people: why this context, and how fast it was
};

enum class LeaseEvent {
  kGranted,   // by the planner
  kReleased,  // and the planner knows
  kLost,      // the planner does not know it any more
};

struct LeaseRecord {
  LeaseEvent event;
  std::string lease_id;
  std::string device_id;
  std::string purpose;  // the model's name
  int64_t bytes = 0;
  std::string error = {};  // why it is lost
};

// Any thread of the worker may call it, at the same time as others. No method
// may block, and none has to be overridden.
class WorkerObserver {
 public:
  virtual ~WorkerObserver() = default;
  virtual void OnSubmit(const std::string& /*model*/,
                        const absl::Status& /*status*/) {}
  virtual void OnStep(const std::string& /*model*/,
                      const worker::StepRecord& /*step*/) {}
  virtual void OnRequestEnd(const std::string& /*model*/,
                            const worker::RequestRecord& /*request*/) {}
  // A model was added to those of the start.
  virtual void OnModelAdded(const std::string& /*model*/) {}
  virtual void OnLoadEnd(const LoadRecord& /*load*/) {}
  virtual void OnUnload(const std::string& /*model*/) {}
  virtual void OnLease(const LeaseRecord& /*lease*/) {}
};

// Passes on the reports of one model's engine.
class ModelObserver final : public worker::EngineObserver {
 public:
  // `observer` must outlive it.
  ModelObserver(std::string model, WorkerObserver& observer)
      : model_(std::move(model)), observer_(observer) {}

  void OnSubmit(const absl::Status& status) override {
    observer_.OnSubmit(model_, status);
  }
  void OnStep(const worker::StepRecord& step) override {
    observer_.OnStep(model_, step);
  }
  void OnRequestEnd(const worker::RequestRecord& request) override {
    observer_.OnRequestEnd(model_, request);
  }

 private:
  const std::string model_;
  WorkerObserver& observer_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_WORKER_OBSERVER_H_
