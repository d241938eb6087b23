// How an engine comes about: devices are opened, memory is taken, the graph is
// built, weights are read, and the first steps are run.
#ifndef PLIMSOLL_WORKER_ENGINE_LOADER_H_
#define PLIMSOLL_WORKER_ENGINE_LOADER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/load_fence.h"
#include "worker/device/model_file.h"
#include "worker/engine/engine_options.h"
#include "worker/engine/engine_resources.h"
#include "worker/graph/decoder/stage.h"
#include "worker/graph/engine_part.h"
#include "worker/graph/model.h"

namespace plimsoll::worker {

// Loads one model. Used once, from one thread.
class EngineLoader {
 public:
  // All three outlive the loader.
  EngineLoader(ModelFile& file, const EngineOptions& options,
               const LoadFence& fence)
      : file_(file), options_(options), fence_(fence) {}

  // Allocates the arenas of the parts' plans, one for each part, and makes the
  // model ready for its first request. `fence` is asked before each piece of
  // work, last with the phase "ready".
  // Errors: those of Engine::Load.
  absl::StatusOr<EngineResources> Load(std::vector<EnginePart> parts);

 private:
  // The steps of Load, in order.
  absl::Status OpenDevices();
  absl::Status AllocateArenas();
  // Makes room in host memory for contexts that wait without a slot.
  absl::Status AllocateParked();
  absl::Status BuildGraph();
  absl::Status FillWeights();
  // Runs the first steps of devices with their own memory, and measures what
  // the load took of it.
  absl::Status FinishDevices();

  // The graph of the MTP head of the only stage.
  absl::Status BuildMtp(Stage& stage);
  // The graph of a model whose parts lie on several stages.
  absl::Status BuildPipeline();
  // What the CPU's part of each stage is made of.
  void FillHostInputs();
  // What a stage's graph is made of.
  GraphInputs InputsOf(const Stage& stage) const;

  ModelFile& file_;
  const EngineOptions& options_;
  const LoadFence& fence_;
  EngineResources loaded_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_LOADER_H_
