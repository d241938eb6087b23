// A graph is a chain: every kernel reads what those before it wrote. Its edges
// are programmatic where that is possible: the next kernel's blocks begin when
// all of this one's blocks have begun, and wait for their end themselves
// (simt.cuh).
#include "kernels/cuda/kernel_graph.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"

namespace plimsoll::kernels::cuda {
namespace {

// The addresses of a call's arguments, in the form that the runtime takes.
struct Arguments {
  explicit Arguments(const KernelCall& call) {
    for (int i = 0; i < call.n_arguments(); ++i) {
      at[static_cast<size_t>(i)] = const_cast<std::byte*>(call.Argument(i));
    }
  }
  std::array<void*, KernelCall::kMaxArguments> at = {};
};

// Allows the call more shared memory than a block has without asking.
void AllowShared(const KernelCall& call) {
  if (call.shared_bytes <= kUnaskedSharedBytes) return;
  // The runtime keeps the error for LaunchStatus().
  (void)cudaFuncSetAttribute(call.kernel,
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(call.shared_bytes));
}

// Requests that as much as possible of a multiprocessor's memory is shared
// memory. A multiprocessor must be idle before its division changes, so kernels
// that overlap request the same division.
void PreferShared(const KernelCall& call) {
  (void)cudaFuncSetAttribute(call.kernel,
                             cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared);
}

cudaKernelNodeParams NodeOf(const KernelCall& call, Arguments& arguments) {
  AllowShared(call);
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
  const absl::Status status = LaunchStatus();  // reads the error and clears it
  return status.ok() ? absl::InternalError(what) : status;
}

// Edges with data came with CUDA 12.3.
#if CUDART_VERSION >= 12030

// True if a graph that begins with `kernel` may have programmatic edges. The
// kernels' code decides, not the device: code for compute capability 8.0 has no
// waits, wherever it runs. All kernels are compiled alike.
bool CanOverlap(const void* kernel) {
  constexpr int kMinDriverVersion = 12030;
  int driver_version = 0;
  (void)cudaDriverGetVersion(&driver_version);
  cudaFuncAttributes attributes = {};
  if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return driver_version >= kMinDriverVersion && attributes.ptxVersion >= 90;
}

cudaError_t AddProgrammaticEdge(cudaGraph_t graph, cudaGraphNode_t from,
                                cudaGraphNode_t to) {
  cudaGraphEdgeData edge = {};
  edge.from_port = cudaGraphKernelNodePortProgrammatic;
  edge.type = cudaGraphDependencyTypeProgrammatic;
#if CUDART_VERSION >= 13000
  return cudaGraphAddDependencies(graph, &from, &to, &edge, 1);
#else
  return cudaGraphAddDependencies_v2(graph, &from, &to, &edge, 1);
#endif
}

#else

bool CanOverlap(const void* /*kernel*/) { return false; }

cudaError_t AddProgrammaticEdge(cudaGraph_t /*graph*/, cudaGraphNode_t /*from*/,
                                cudaGraphNode_t /*to*/) {
  return cudaErrorNotSupported;
}

#endif

class CudaGraph : public KernelGraph {
 public:
  ~CudaGraph() override {
    if (instance_ != nullptr) (void)cudaGraphExecDestroy(instance_);
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
  }

  absl::Status Build(std::span<const KernelCall> calls, bool overlaps) {
    RETURN_IF_ERROR(StatusOf(cudaGraphCreate(&graph_, 0), "a graph"));
    nodes_.reserve(calls.size());
    for (const KernelCall& call : calls) {
      Arguments arguments(call);
      if (overlaps) PreferShared(call);
      const cudaKernelNodeParams parameters = NodeOf(call, arguments);
      const bool is_first = nodes_.empty();
      const bool has_plain_edge = !is_first && !overlaps;
      cudaGraphNode_t node = nullptr;
      RETURN_IF_ERROR(StatusOf(
          cudaGraphAddKernelNode(&node, graph_,
                                 has_plain_edge ? &nodes_.back() : nullptr,
                                 has_plain_edge ? 1 : 0, &parameters),
          "a kernel of a graph"));
      if (!is_first && overlaps) {
        RETURN_IF_ERROR(
            StatusOf(AddProgrammaticEdge(graph_, nodes_.back(), node),
                     "a programmatic edge of a graph"));
      }
      nodes_.push_back(node);
    }
    return StatusOf(cudaGraphInstantiateWithFlags(&instance_, graph_, 0),
                    "a graph");
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
    std::span<const KernelCall> calls, bool& overlaps) {
  overlaps = overlaps && CanOverlap(calls.front().kernel);
  if (overlaps) {
    auto graph = std::make_unique<CudaGraph>();
    const absl::Status built = graph->Build(calls, /*overlaps=*/true);
    if (built.ok()) return graph;
    // Plain edges do not help if memory is short or the device is lost.
    if (!absl::IsInternal(built)) return built;
    overlaps = false;
  }
  auto graph = std::make_unique<CudaGraph>();
  RETURN_IF_ERROR(graph->Build(calls, /*overlaps=*/false));
  return graph;
}

void Run(const KernelCall& call, Stream stream) {
  AllowShared(call);
  Arguments arguments(call);
  // The runtime keeps the error for LaunchStatus().
  (void)cudaLaunchKernel(call.kernel, DimensionsOf(call.grid),
                         dim3(static_cast<unsigned>(call.n_threads)),
                         arguments.at.data(),
                         static_cast<size_t>(call.shared_bytes), stream);
}

}  // namespace plimsoll::kernels::cuda
