// A graph is a chain: every kernel reads what those before it wrote.
#include "kernels/cuda/kernel_graph.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"

namespace plimsoll::kernels::cuda {
namespace {

dim3 DimensionsOf(const Grid& grid) {
  return dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
              static_cast<unsigned>(grid.z));
}

// The addresses of a call's arguments, as the runtime wants them.
struct Arguments {
  explicit Arguments(const KernelCall& call) {
    for (int i = 0; i < call.n_arguments(); ++i) {
      at[static_cast<size_t>(i)] = const_cast<std::byte*>(call.Argument(i));
    }
  }
  std::array<void*, KernelCall::kMaxArguments> at = {};
};

cudaKernelNodeParams NodeOf(const KernelCall& call, Arguments& arguments) {
  cudaKernelNodeParams node = {};
  node.func = const_cast<void*>(call.kernel);
  node.gridDim = DimensionsOf(call.grid);
  node.blockDim = dim3(static_cast<unsigned>(call.n_threads));
  node.sharedMemBytes = static_cast<unsigned>(call.shared_bytes);
  node.kernelParams = arguments.at.data();
  return node;
}

absl::Status StatusOf(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  const absl::Status status = LaunchStatus();  // the same error, and forgets it
  return status.ok() ? absl::InternalError(what) : status;
}

class CudaGraph : public KernelGraph {
 public:
  ~CudaGraph() override {
    if (instance_ != nullptr) (void)cudaGraphExecDestroy(instance_);
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
  }

  absl::Status Build(std::span<const KernelCall> calls) {
    RETURN_IF_ERROR(StatusOf(cudaGraphCreate(&graph_, 0), "a graph"));
    nodes_.reserve(calls.size());
    for (const KernelCall& call : calls) {
      Arguments arguments(call);
      const cudaKernelNodeParams parameters = NodeOf(call, arguments);
      cudaGraphNode_t node = nullptr;
      RETURN_IF_ERROR(StatusOf(
          cudaGraphAddKernelNode(&node, graph_,
                                 nodes_.empty() ? nullptr : &nodes_.back(),
                                 nodes_.empty() ? 0 : 1, &parameters),
          "a kernel of a graph"));
      nodes_.push_back(node);
    }
    return StatusOf(cudaGraphInstantiate(&instance_, graph_, 0), "a graph");
  }

  absl::Status Update(size_t index, const KernelCall& call) override {
    Arguments arguments(call);
    const cudaKernelNodeParams parameters = NodeOf(call, arguments);
    return StatusOf(
        cudaGraphExecKernelNodeSetParams(instance_, nodes_[index], &parameters),
        "a change of a graph");
  }

  absl::Status Launch(Stream stream) override {
    return StatusOf(cudaGraphLaunch(instance_, stream), "a graph's launch");
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t instance_ = nullptr;
  std::vector<cudaGraphNode_t> nodes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KernelGraph>> KernelGraph::Of(
    std::span<const KernelCall> calls) {
  auto graph = std::make_unique<CudaGraph>();
  RETURN_IF_ERROR(graph->Build(calls));
  return graph;
}

void Run(const KernelCall& call, Stream stream) {
  Arguments arguments(call);
  // The runtime keeps the error for LaunchStatus().
  (void)cudaLaunchKernel(call.kernel, DimensionsOf(call.grid),
                         dim3(static_cast<unsigned>(call.n_threads)),
                         arguments.at.data(),
                         static_cast<size_t>(call.shared_bytes), stream);
}

}  // namespace plimsoll::kernels::cuda
