#include "worker/graph/decoder/build_model.h"

#include "base/status_macros.h"
#include "planner/model/architectures.h"
#include "worker/graph/decoder/decoder_graph.h"
#include "worker/graph/graph_parameters.h"

namespace plimsoll::worker {
namespace {

const planner::Architecture& ArchitectureOf(const GraphInputs& inputs) {
  const planner::Architecture* architecture =
      planner::FindArchitecture(inputs.shape->architecture);
  PLIMSOLL_CHECK(architecture != nullptr, "CheckRunnable found it");
  return *architecture;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> BuildModel(
    const planner::GgufHeader& header, const GraphInputs& inputs) {
  const planner::Architecture& architecture = ArchitectureOf(inputs);
  ASSIGN_OR_RETURN(const GraphParameters parameters,
                   ReadParameters(architecture, header, inputs));
  return std::make_unique<DecoderGraph>(architecture, inputs, parameters);
}

}  // namespace plimsoll::worker
