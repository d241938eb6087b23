// The thread that unloads models which nobody has used for long enough.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_EXPIRY_THREAD_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_EXPIRY_THREAD_H_

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/sync/steady_mutex.h"
#include "services/host/background.h"
#include "services/worker/models/model_registry.h"

namespace plimsoll::services {

class ExpiryThread {
 public:
  // A model is unloaded at most this long after its time has come.
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  // `registry` must outlive it. Throws std::system_error as Background does.
  explicit ExpiryThread(ModelRegistry& registry,
                        absl::Duration interval = kInterval);
  ~ExpiryThread();
  ExpiryThread(const ExpiryThread&) = delete;
  ExpiryThread& operator=(const ExpiryThread&) = delete;

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);

  ModelRegistry& registry_;
  const absl::Duration interval_;
  SteadyMutex mu_;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  Background thread_;  // last: it uses everything above
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_EXPIRY_THREAD_H_
