#include "services/worker/calls/load_messages.h"

#include <utility>

#include "services/worker/calls/model_messages.h"

namespace plimsoll::services {

void LoadMessages::Add(const LoadReport& report) {
  v1::LoadModelResponse next = ToProto(report);
  if (has_plan_) {  // merging would append the parts once more
    next.clear_plan();
    next.clear_parts();
  }
  const bool has_plan = next.has_plan();
  if (messages_.size() < 2) {
    messages_.push_back(std::move(next));
  } else {
    v1::LoadModelResponse merged = messages_.back();
    merged.MergeFrom(next);
    messages_.back().Swap(&merged);
  }
  has_plan_ |= has_plan;
}

}  // namespace plimsoll::services
