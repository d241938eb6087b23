// Writes a plan as manifests of Kubernetes: the resources that the pod of a
// worker requests.
#ifndef PLIMSOLL_SERVICES_CLI_VIEWS_POD_VIEW_H_
#define PLIMSOLL_SERVICES_CLI_VIEWS_POD_VIEW_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/layout/memory_plan.h"

namespace plimsoll::cli {

// How a worker's pod loads the model that was planned.
struct PodModel {
  std::string file;       // its file's name in the pod's folder of models
  std::string device;     // the worker's --device: "cpu" or "cuda:0"
  int64_t n_threads;      // threads that compute
  int64_t runtime_bytes;  // what the process takes of the host beside its plan
};

// The memory of a worker's pod, in bytes.
struct PodMemory {
  int64_t plan = 0;     // the plan's on the host, pages of a mapped file too
  int64_t runtime = 0;  // the process: a second time, or once with a GPU
  int64_t driver = 0;   // a GPU's driver, estimated; 0 without a GPU
  int64_t page_tables = 0;  // the kernel's, for all of these in pages of 4 KiB
  int64_t total = 0;        // their sum in whole MiB: what the pod requests
  int64_t limit = 0;        // total, and what hostile frames of HTTP/2 may take
};

// Returns the memory that a pod must request so that its load is admitted, and
// the limit below which it is never killed for its memory. On a CPU the process
// is counted twice: when it plans, it already holds the memory that its plan
// counts as runtime.
// Errors: kOutOfRange if the sum does not fit in int64.
absl::StatusOr<PodMemory> PodMemoryOf(const planner::MemoryPlan& plan,
                                      const PodModel& model);

// Checks a model's file name for its use in a manifest.
// Errors: kInvalidArgument unless it has letters, digits, '.', '-' and '_' only
// and ends with ".gguf".
absl::Status CheckPodFile(absl::string_view file);

// Writes a patch of the StatefulSet plimsoll-worker with the model's arguments,
// CPUs and memory. For a GPU a patch of the ResourceClaimTemplate plimsoll-gpu
// follows, with the plan's total in whole MiB. `plan` fits, and
// `model.file` has passed CheckPodFile.
// Errors: those of PodMemoryOf.
absl::StatusOr<std::string> RenderPod(const planner::MemoryPlan& plan,
                                      const PodModel& model);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_VIEWS_POD_VIEW_H_
