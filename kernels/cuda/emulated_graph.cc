// This implements kernel_graph.h for the emulator, instead of kernel_graph.cc.
// The emulator's graph keeps its own copies of the calls, as a device does.
// Where kernels may overlap, every other pair of them does.
#include <atomic>
#include <vector>

#include "kernels/cuda/emulated_backend.h"
#include "kernels/cuda/kernel_graph.h"

namespace plimsoll::kernels::cuda_emulated {
namespace {

std::atomic<int64_t> n_built = 0;
std::atomic<int64_t> n_launched = 0;

class EmulatedGraph : public KernelGraph {
 public:
  EmulatedGraph(std::span<const KernelCall> calls, bool overlaps)
      : calls_(calls.begin(), calls.end()), overlaps_(overlaps) {
    ++n_built;
  }

  absl::Status Update(size_t index, const KernelCall& call) override {
    if (overlaps_ && DriverRefusals().updates) {
      return absl::InternalError("no updates of a graph that overlaps");
    }
    if (index >= calls_.size() || calls_[index].kernel != call.kernel) {
      return absl::InternalError("a graph's call becomes another kernel's");
    }
    calls_[index] = call;
    return absl::OkStatus();
  }

  absl::Status Launch(Stream stream) override {
    ++n_launched;
    size_t i = 0;
    if (overlaps_) {
      if (begins_alone_) Run(calls_[i++], stream);
      begins_alone_ = !begins_alone_;
      for (; i + 1 < calls_.size(); i += 2) {
        RunAfter([&] { Run(calls_[i], stream); },
                 [&] { Run(calls_[i + 1], stream); });
      }
    }
    for (; i < calls_.size(); ++i) Run(calls_[i], stream);
    return absl::OkStatus();
  }

 private:
  std::vector<KernelCall> calls_;
  bool overlaps_;
  bool begins_alone_ = false;
};

}  // namespace

Refusals& DriverRefusals() {
  static auto* refusals = new Refusals;
  return *refusals;
}

absl::StatusOr<std::unique_ptr<KernelGraph>> KernelGraph::Of(
    std::span<const KernelCall> calls, bool& overlaps) {
  if (DriverRefusals().graphs) overlaps = false;
  return std::make_unique<EmulatedGraph>(calls, overlaps);
}

void Run(const KernelCall& call, Stream /*stream*/) { call.emulate(call); }

}  // namespace plimsoll::kernels::cuda_emulated

namespace plimsoll::kernels {

EmulatedGraphCounts ReadEmulatedGraphCounts() {
  return {cuda_emulated::n_built, cuda_emulated::n_launched};
}

}  // namespace plimsoll::kernels
