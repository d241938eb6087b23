// The emulator's graph keeps its own copies of the calls, as a device does.
#include "kernels/cuda/kernel_graph.h"

#include <vector>

namespace plimsoll::kernels::cuda_emulated {
namespace {

class EmulatedGraph : public KernelGraph {
 public:
  explicit EmulatedGraph(std::span<const KernelCall> calls)
      : calls_(calls.begin(), calls.end()) {}

  absl::Status Update(size_t index, const KernelCall& call) override {
    if (index >= calls_.size() || calls_[index].kernel != call.kernel) {
      return absl::InternalError("a graph's call becomes another kernel's");
    }
    calls_[index] = call;
    return absl::OkStatus();
  }

  absl::Status Launch(Stream stream) override {
    for (const KernelCall& call : calls_) Run(call, stream);
    return absl::OkStatus();
  }

 private:
  std::vector<KernelCall> calls_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KernelGraph>> KernelGraph::Of(
    std::span<const KernelCall> calls) {
  return std::make_unique<EmulatedGraph>(calls);
}

void Run(const KernelCall& call, Stream /*stream*/) { call.emulate(call); }

}  // namespace plimsoll::kernels::cuda_emulated
