// Passes a worker's reports on to several observers.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_OBSERVER_LIST_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_OBSERVER_LIST_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "services/worker/models/worker_observer.h"

namespace plimsoll::services {

// It calls the observers in their order. Thread-safe, as they are.
class ObserverList final : public WorkerObserver {
 public:
  // The observers outlive it.
  explicit ObserverList(std::vector<WorkerObserver*> observers)
      : observers_(std::move(observers)) {}

  void OnSubmit(const std::string& model, const absl::Status& status) override {
    for (WorkerObserver* one : observers_) one->OnSubmit(model, status);
  }
  void OnStep(const std::string& model,
              const worker::StepRecord& step) override {
    for (WorkerObserver* one : observers_) one->OnStep(model, step);
  }
  void OnRequestEnd(const std::string& model,
                    const worker::RequestRecord& request) override {
    for (WorkerObserver* one : observers_) one->OnRequestEnd(model, request);
  }
  void OnModelAdded(const std::string& model) override {
    for (WorkerObserver* one : observers_) one->OnModelAdded(model);
  }
  void OnLoadEnd(const LoadRecord& load) override {
    for (WorkerObserver* one : observers_) one->OnLoadEnd(load);
  }
  void OnUnload(const std::string& model) override {
    for (WorkerObserver* one : observers_) one->OnUnload(model);
  }
  void OnLease(const LeaseRecord& lease) override {
    for (WorkerObserver* one : observers_) one->OnLease(lease);
  }

 private:
  const std::vector<WorkerObserver*> observers_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_OBSERVER_LIST_H_
