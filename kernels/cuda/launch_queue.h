// Takes the kernels of operations and the host data that they read. It puts
// them on the stream at once or, within a step, in a list that one call starts.
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

// A backend owns it and calls it from its thread.
//
// A step's host spans lie in one block, each in a slot. A slot's place depends
// on the sizes before it, rounded up to powers of two. So a step's list of
// calls nearly always equals the list of the step before, although contexts
// grow.
class LaunchQueue {
 public:
  // Graphs of more rows have no programmatic edges. Up to this number, overlap
  // gains more than the caches whose memory it takes (kernel_graph.cc).
  // Measured on an H200.
  static constexpr int64_t kOverlappedRows = 64;
  // Bytes for the host spans of one step. A step that needs more starts without
  // a graph.
  static constexpr int64_t kStepBytes = int64_t{8} << 20;
  static constexpr int64_t kLeastSlot = 64;
  static constexpr size_t kMaxCalls = 8192;  // a step's calls; more: no graph
  // The most graphs that are kept, one for each number of rows and list of
  // kernels. At this limit, a step updates a graph with the same list of
  // kernels for another number of rows. If no such graph exists, the least
  // recently used graph is dropped.
  static constexpr size_t kMaxGraphs = 16;
  // A generous estimate of the driver's memory for one graph: about 1,000
  // kernels of 1 KiB. cuda_bench prints the measured number.
  static constexpr int64_t kGraphBytes = int64_t{2} << 20;

  // Counts of the ways in which steps were started, for tests and benchmarks.
  struct Counts {
    int64_t graphs_built = 0;
    int64_t calls_updated = 0;
    int64_t graph_launches = 0;
    int64_t call_launches = 0;  // held calls that were started one by one
  };

  LaunchQueue() = default;
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;
  ~LaunchQueue();

  // `device` holds kStepBytes; it and `staging` outlive this object. With
  // `overlaps`, the kernels of graphs of up to kOverlappedRows rows overlap if
  // they can.
  absl::Status Open(std::byte* device, Staging* staging, Stream stream,
                    bool overlaps);

  // Begins a step of `n_rows` rows; from now on calls are held. Steps of the
  // same number of rows share a graph if their kernels are the same.
  absl::Status BeginStep(int64_t n_rows);
  // Starts the held calls as one graph and stops holding calls.
  absl::Status StartAsGraph();
  // Starts the held calls one by one and stops holding calls. For a step that
  // stopped before its end.
  absl::Status StartEach();
  // From now on no graph is added. Steps update existing graphs, and a step is
  // started call by call if no graph has its list of kernels.
  void EndWarmUp() { is_warm_ = true; }

  Stream stream() const { return stream_; }
  bool is_held() const { return is_held_; }
  // The value from Open, until a graph shows that kernels cannot overlap.
  bool overlaps() const { return overlaps_; }
  void Hold(KernelCall call);

  // Copies `host` and returns the copy's device address. The memory of `host`
  // may be reused afterwards. Errors: kResourceExhausted for more bytes than
  // Staging takes.
  absl::StatusOr<const std::byte*> Put(std::span<const std::byte> host);
  // Like Put, for memory that does not change before the step's end: spans with
  // the same address are copied once.
  absl::StatusOr<const std::byte*> PutOnce(std::span<const std::byte> host);
  // True if a step has room for a table of `bytes` in each of `n` slots.
  bool HasRoom(int64_t n, int64_t bytes) const;

  template <class T>
  absl::StatusOr<const T*> PutSpan(std::span<const T> host) {
    absl::StatusOr<const std::byte*> data = Put(std::as_bytes(host));
    if (!data.ok()) return data.status();
    return reinterpret_cast<const T*>(*data);
  }

  const Counts& counts() const { return counts_; }

 private:
  // A span that PutOnce has copied.
  struct Place {
    const std::byte* host;
    size_t bytes;
    int64_t at;
  };
  struct Step {
    int64_t n_rows = 0;
    int64_t last_used = 0;
    std::vector<KernelCall> calls;
    // Graph of `calls`; null until it is built.
    std::unique_ptr<KernelGraph> graph;
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
  Event copied_ = {};  // when the last step's block was copied
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
