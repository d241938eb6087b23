// A step's list of calls becomes a graph, or updates the graph of the last step
// that was like it.
#include "kernels/cuda/launch_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/status_macros.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

int64_t SlotOf(int64_t bytes) {
  const auto size =
      static_cast<uint64_t>(std::max(bytes, LaunchQueue::kLeastSlot));
  return static_cast<int64_t>(std::bit_ceil(size));
}

// True if updates can turn one list into the other.
bool IsAlike(const std::vector<KernelCall>& a,
             const std::vector<KernelCall>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const KernelCall& x, const KernelCall& y) {
                      return x.kernel == y.kernel;
                    });
}

}  // namespace

LaunchQueue::~LaunchQueue() {
  DestroyEvent(copied_);
  FreePinned(host_);
}

absl::Status LaunchQueue::Open(std::byte* device, Staging* staging,
                               Stream stream, bool overlaps) {
  device_ = device;
  overlaps_ = overlaps;
  staging_ = staging;
  stream_ = stream;
  ASSIGN_OR_RETURN(host_, AllocatePinned(kStepBytes));
  ASSIGN_OR_RETURN(copied_, NewEvent());
  return absl::OkStatus();
}

absl::Status LaunchQueue::BeginStep(int64_t n_rows) {
  RETURN_IF_ERROR(StartEach());
  // The last step's copy may still read the block.
  RETURN_IF_ERROR(WaitFor(copied_));
  is_held_ = true;
  n_rows_ = n_rows;
  used_ = 0;
  ++n_steps_;
  return absl::OkStatus();
}

void LaunchQueue::Hold(KernelCall call) {
  // Its errors are kept for LaunchStatus(), as those of launches are.
  if (calls_.size() == kMaxCalls) StartEach().IgnoreError();
  if (!is_held_) return Run(call, stream_);
  calls_.push_back(call);
}

bool LaunchQueue::HasRoom(int64_t n, int64_t bytes) const {
  return n == 0 || SlotOf(bytes) <= (kStepBytes - used_) / n;
}

absl::StatusOr<const std::byte*> LaunchQueue::Put(
    std::span<const std::byte> host) {
  const auto bytes = static_cast<int64_t>(host.size());
  if (is_held_ && !HasRoom(1, bytes)) RETURN_IF_ERROR(StartEach());
  if (!is_held_) return staging_->Put(host);
  const int64_t at = used_;
  if (bytes > 0) std::memcpy(host_ + at, host.data(), host.size());
  used_ += SlotOf(bytes);
  return device_ + at;
}

absl::StatusOr<const std::byte*> LaunchQueue::PutOnce(
    std::span<const std::byte> host) {
  if (!is_held_) return staging_->Put(host);
  for (const Place& place : places_) {
    if (place.host == host.data() && place.bytes == host.size()) {
      return device_ + place.at;
    }
  }
  ASSIGN_OR_RETURN(const std::byte* data, Put(host));
  if (is_held_) places_.push_back({host.data(), host.size(), data - device_});
  return data;
}

absl::Status LaunchQueue::CopySpans() {
  if (used_ == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CopyToDevice(host_, device_, used_, stream_));
  return Record(copied_, stream_);
}

void LaunchQueue::Release() {
  is_held_ = false;
  calls_.clear();
  places_.clear();
}

absl::Status LaunchQueue::StartEach() {
  if (!is_held_) return absl::OkStatus();
  absl::Status status = CopySpans();
  if (status.ok()) {
    for (const KernelCall& call : calls_) Run(call, stream_);
    counts_.call_launches += static_cast<int64_t>(calls_.size());
  }
  Release();
  return status;
}

// Returns the step whose graph becomes that of the held calls. Returns null if
// there is none and none may be added.
LaunchQueue::Step* LaunchQueue::FindStep() {
  Step* alike = nullptr;
  for (Step& step : steps_) {
    if (!IsAlike(step.calls, calls_)) continue;
    if (step.n_rows == n_rows_) return &step;
    if (alike == nullptr || step.last_used < alike->last_used) alike = &step;
  }
  if (is_warm_) return alike;
  if (steps_.size() < kMaxGraphs) {
    steps_.reserve(kMaxGraphs);
    return &steps_.emplace_back();
  }
  if (alike != nullptr) return alike;
  return &*std::ranges::min_element(steps_, {}, &Step::last_used);
}

absl::Status LaunchQueue::Build(Step& step) {
  step.graph.reset();
  const bool is_asked = overlaps_ && step.n_rows <= kOverlappedRows;
  bool overlaps = is_asked;
  ASSIGN_OR_RETURN(step.graph, KernelGraph::Of(step.calls, overlaps));
  if (is_asked && !overlaps) overlaps_ = false;
  ++counts_.graphs_built;
  return absl::OkStatus();
}

absl::Status LaunchQueue::Update(Step& step) {
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (step.calls[i].IsSame(calls_[i])) continue;
    RETURN_IF_ERROR(step.graph->Update(i, calls_[i]));
    step.calls[i] = calls_[i];
    ++counts_.calls_updated;
  }
  return absl::OkStatus();
}

// Makes the step's graph the graph of the held calls.
absl::Status LaunchQueue::Bring(Step& step) {
  step.last_used = n_steps_;
  step.n_rows = n_rows_;
  if (step.graph == nullptr || !IsAlike(step.calls, calls_)) {
    step.calls = calls_;
    return Build(step);
  }
  absl::Status updated = Update(step);
  if (updated.ok() || !overlaps_) return updated;
  // From now on graphs are of the kind that every driver can update.
  overlaps_ = false;
  step.calls = calls_;
  for (Step& other : steps_) RETURN_IF_ERROR(Build(other));
  return absl::OkStatus();
}

absl::Status LaunchQueue::StartAsGraph() {
  if (!is_held_ || calls_.empty()) return StartEach();
  Step* const step = FindStep();
  if (step == nullptr) return StartEach();
  absl::Status made = Bring(*step);
  if (!made.ok()) {
    // What is left of the graph belongs to no step.
    step->graph.reset();
    std::erase_if(steps_, [](const Step& s) { return s.graph == nullptr; });
    if (absl::IsResourceExhausted(made)) return StartEach();
    Release();
    return made;
  }
  absl::Status status = CopySpans();
  if (status.ok()) status = step->graph->Launch(stream_);
  ++counts_.graph_launches;
  Release();
  return status;
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
