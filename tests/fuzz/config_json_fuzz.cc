// Arbitrary bytes as a config.json: an error, or a model whose plan keeps its
// promises.
#include <cstddef>
#include <cstdint>

#include "base/status_macros.h"
#include "planner/layout/memory_plan.h"
#include "services/sources/config_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace planner = plimsoll::planner;
  const absl::string_view json(reinterpret_cast<const char*>(data), size);
  // A file needs more than a plan.
  (void)plimsoll::services::ModelFromConfig(json);
  const auto header = plimsoll::services::HeaderFromConfig(json);
  if (!header.ok()) return 0;
  const auto shape = planner::ShapeFromGguf(*header);
  if (!shape.ok()) return 0;
  PLIMSOLL_CHECK(shape->n_layers > 0 && !shape->weights.empty(),
                 "a model has layers and weights");
  constexpr int64_t kBudget = int64_t{24} << 30;
  const auto plan =
      planner::Layout(*shape, {}, planner::CommittedCpuProfile(), kBudget);
  if (!plan.ok()) return 0;
  PLIMSOLL_CHECK(plan->total_bytes > 0 && plan->n_ctx <= shape->n_ctx_train,
                 "a plan is of something, within the trained context");
  PLIMSOLL_CHECK(plan->fits == (plan->total_bytes <= kBudget),
                 "a plan fits exactly if its total is within the budget");
  return 0;
}
