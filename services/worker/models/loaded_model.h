// A model in memory, and who uses it.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_LOADED_MODEL_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_LOADED_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/sync/steady_mutex.h"
#include "services/worker/models/planner_client.h"
#include "services/worker/models/runtime_monitor.h"
#include "worker/engine/engine.h"
#include "worker/engine/engine_observer.h"
#include "worker/text/chat/chat_template.h"
#include "worker/text/chat/model_template.h"

namespace plimsoll::services {

// The registry owns it and destroys it only when nobody uses it. Nothing but
// the number of uses changes. Thread-safe.
class LoadedModel {
 public:
  // The model stays loaded while a Use of it exists.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept : model_(std::exchange(other.model_, nullptr)) {}
    Use& operator=(Use&& other) noexcept {
      std::swap(model_, other.model_);
      return *this;
    }
    ~Use() {
      if (model_ != nullptr) model_->EndUse();
    }
    explicit operator bool() const { return model_ != nullptr; }
    const LoadedModel* operator->() const { return model_; }
    const LoadedModel& operator*() const { return *model_; }

   private:
    friend class LoadedModel;
    explicit Use(LoadedModel* model) : model_(model) {}
    LoadedModel* model_ = nullptr;
  };

  // Consecutive layers on one of the worker's devices.
  struct Part {
    size_t device;  // index into the worker's devices
    std::string device_id;
    bool is_on_host;
    std::optional<LeaseGrant> lease = {};  // absent without a planner
    int64_t held_bytes = 0;  // bytes of the models on its device before it
  };

  // `clock` says when a use ends.
  explicit LoadedModel(std::function<absl::Time()> clock);
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  Use Enter();
  // Waits until nobody uses it. Returns false if that takes longer than
  // `timeout`.
  bool AwaitUnused(absl::Duration timeout);
  // When its last use ended, or when it was made; absent while a call uses it
  // or a session of it is open.
  std::optional<absl::Time> IdleSince() const;

  // The bytes of all parts' plans together.
  int64_t total_bytes() const;
  // The device of each part, in order.
  std::vector<std::string> device_ids() const;

  std::string name;
  std::string architecture;
  std::string display_name;
  int64_t n_ctx_train = 0;
  // An error says why the model has none: only chats fail then.
  absl::StatusOr<worker::ChatFormatChoice> chat_format =
      absl::UnimplementedError("no chat format");
  // The template of the file if there is no chat_format; null without one.
  std::shared_ptr<const worker::ModelTemplate> own_template;
  std::vector<Part> parts;  // parts[i] is the engine's parts()[i]
  // Bytes of weights in the file, and how long it took to read and store them.
  int64_t weight_bytes = 0;
  absl::Duration weight_time;
  std::unique_ptr<worker::EngineObserver> observer;  // may be null
  std::unique_ptr<worker::Engine> engine;
  // While it exists, the memory planned for the process's runtime includes what
  // this model needs.
  RuntimeMonitor::Expectation expectation;

 private:
  void EndUse();

  const std::function<absl::Time()> clock_;
  mutable SteadyMutex mu_;
  int64_t uses_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time last_use_ ABSL_GUARDED_BY(mu_);
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_LOADED_MODEL_H_
