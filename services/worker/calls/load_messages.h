// What waits to be sent of a LoadModel call.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_LOAD_MESSAGES_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_LOAD_MESSAGES_H_

#include <deque>

#include "plimsoll/v1/model.pb.h"
#include "services/worker/models/model_info.h"

namespace plimsoll::services {

// The front is being sent. At most one message waits behind it, and later
// reports are merged into that one: a slow reader misses steps, nothing else.
// Not thread-safe.
class LoadMessages {
 public:
  // Adds what `report` says; its plan only once. If there is no memory for that
  // (std::bad_alloc), nothing changes.
  void Add(const LoadReport& report);

  bool empty() const { return messages_.empty(); }
  const v1::LoadModelResponse& front() const { return messages_.front(); }
  void PopFront() { messages_.pop_front(); }
  void Clear() { messages_.clear(); }

 private:
  std::deque<v1::LoadModelResponse> messages_;
  bool has_plan_ = false;  // one of them has it, or one that was sent
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_LOAD_MESSAGES_H_
