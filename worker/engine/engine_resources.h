// The resources of a loaded engine: devices, arenas, the KV cache, the model
// and its tokenizer.
#ifndef PLIMSOLL_WORKER_ENGINE_ENGINE_RESOURCES_H_
#define PLIMSOLL_WORKER_ENGINE_ENGINE_RESOURCES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"
#include "planner/layout/memory_plan.h"
#include "planner/model/model_shape.h"
#include "worker/cache/kv_cache.h"
#include "worker/cache/parked_contexts.h"
#include "worker/device/model_mapping.h"
#include "worker/engine/engine_reports.h"
#include "worker/graph/decoder/stage.h"
#include "worker/graph/engine_part.h"
#include "worker/graph/model.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// Made by EngineLoader, then owned by the engine. Moving it leaves every object
// where it is, so that pointers between the members stay right. Members are
// destroyed in reverse order: each uses only those above it.
struct EngineResources {
  planner::ModelShape shape;      // shape of the whole model
  std::vector<EnginePart> parts;  // at least one
  // The CPU's threads. A device with its own memory needs only the caller.
  std::unique_ptr<kernels::ThreadPool> pool;
  // The model's files, if its weights stay there.
  std::unique_ptr<const ModelMapping> mapping;
  std::vector<Stage> stages;               // one for each part
  std::unique_ptr<KvCache> cache;          // step thread only
  std::unique_ptr<ParkedContexts> parked;  // step thread only
  std::unique_ptr<Model> model;            // runs all stages
  std::unique_ptr<Model> mtp;              // the MTP head, if it is loaded
  std::unique_ptr<const Tokenizer> tokenizer;
  std::vector<int32_t> suppressed_tokens;  // no request draws them

  // The first part's plan. All parts have the same context and options.
  const planner::MemoryPlan& plan() const { return parts.front().plan; }
  // The last stage's backend, where the logits are.
  kernels::Backend& backend() const { return *stages.back().backend; }
  // The memory of all parts together, and of one. Both may be asked while the
  // engine runs.
  MemoryReport Memory() const;
  MemoryReport MemoryOf(size_t part) const;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_ENGINE_RESOURCES_H_
