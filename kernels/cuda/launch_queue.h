// Where operations put their kernels, and what those read of the host: on the
// stream at once, or, within a step, in a list that is started by one call.
#ifndef PLIMSOLL_KERNELS_CUDA_LAUNCH_QUEUE_H_
#define PLIMSOLL_KERNELS_CUDA_LAUNCH_QUEUE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/kernel_graph.h"
#include "kernels/cuda/staging.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Owned by a backend, called from its thread.
//
// A step's host spans lie in one block, each in a slot whose place depends on
// the sizes before it, rounded up to powers of two: while contexts grow, a
// step's list of calls is nearly always that of the step before.
class LaunchQueue {
 public:
  // Host spans of one step; a step that has more starts without a graph.
  static constexpr int64_t kStepBytes = int64_t{8} << 20;
  static constexpr int64_t kLeastSlot = 64;
  static constexpr size_t kMaxCalls = 8192;  // of a step, likewise
  // Graphs that are kept, one for each number of rows and list of kernels.
  // Where all places are taken a step changes a graph of its list that was made
  // for another number of rows; without one, the graph that was not used for
  // longest makes room.
  static constexpr size_t kMaxGraphs = 16;
  // What the driver takes for one, with room to spare: about 1,000 kernels of
  // 1 KiB. An estimate; cuda_bench prints what it was.
  static constexpr int64_t kGraphBytes = int64_t{2} << 20;

  // What became of steps, for tests and benchmarks.
  struct Counts {
    int64_t graphs_built = 0;
    int64_t calls_updated = 0;
    int64_t graph_launches = 0;
    int64_t call_launches = 0;  // held calls that were started by themselves
  };

  LaunchQueue() = default;
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;
  ~LaunchQueue();

  // `device` holds kStepBytes; it and `staging` outlive this. With `overlaps`,
  // a graph's kernels overlap where they can.
  absl::Status Open(std::byte* device, Staging* staging, Stream stream,
                    bool overlaps);

  // From now on calls are held. Steps of the same number of rows share a graph
  // if their kernels are the same.
  absl::Status BeginStep(int64_t n_rows);
  // Starts what is held as one graph; calls are not held any more.
  absl::Status StartAsGraph();
  // The same, call by call: for a step that did not come to its end.
  absl::Status StartEach();
  // From now on no graph is added: steps change those that there are, and one
  // whose list no graph has starts call by call.
  void EndWarmUp() { is_warm_ = true; }

  Stream stream() const { return stream_; }
  bool is_held() const { return is_held_; }
  // As asked for, until a graph shows that they cannot.
  bool overlaps() const { return overlaps_; }
  void Hold(KernelCall call);

  // Where the device finds a copy of `host`, whose memory is free again when
  // this returns. Errors: kResourceExhausted for more than Staging takes.
  absl::StatusOr<const std::byte*> Put(std::span<const std::byte> host);
  // The same for memory that does not change before the step's end: spans of
  // one address are put once.
  absl::StatusOr<const std::byte*> PutOnce(std::span<const std::byte> host);
  // Whether a step has room for a table of `bytes` in each of `n` slots.
  bool HasRoom(int64_t n, int64_t bytes) const;

  template <class T>
  absl::StatusOr<const T*> PutSpan(std::span<const T> host) {
    absl::StatusOr<const std::byte*> data = Put(std::as_bytes(host));
    if (!data.ok()) return data.status();
    return reinterpret_cast<const T*>(*data);
  }

  const Counts& counts() const { return counts_; }

 private:
  // Of what was put once.
  struct Place {
    const std::byte* host;
    size_t bytes;
    int64_t at;
  };
  struct Step {
    int64_t n_rows = 0;
    int64_t last_used = 0;
    std::vector<KernelCall> calls;
    std::unique_ptr<KernelGraph> graph;  // of `calls`; null until it is built
  };

  absl::Status CopySpans();
  void Release();
  Step* FindStep();
  absl::Status Build(Step& step);
  absl::Status Update(Step& step);
  absl::Status Bring(Step& step);

  Stream stream_ = {};
  Staging* staging_ = nullptr;
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;
  Event copied_ = {};  // the block, of the last step
  int64_t used_ = 0;   // bytes of the block
  bool is_held_ = false;
  bool overlaps_ = false;
  bool is_warm_ = false;
  int64_t n_rows_ = 0;
  int64_t n_steps_ = 0;
  std::vector<KernelCall> calls_;
  std::vector<Place> places_;
  std::vector<Step> steps_;
  Counts counts_;
};

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_LAUNCH_QUEUE_H_
