// What one rendering of a template may take, and what it has taken.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_RENDER_METER_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_RENDER_METER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"

namespace plimsoll::worker::jinja {

// Limits of one rendering.
struct RenderLimits {
  // A step is a node of the syntax tree, an element of a list or
  // kBytesPerStep bytes of text.
  int64_t max_steps = 4'000'000;
  int64_t max_text_bytes = 32 << 20;  // limit of any string, and of the output
};
inline constexpr int64_t kBytesPerStep = 64;
inline constexpr int kMaxCallDepth = 900;  // nodes of the tree in nodes

// Counts the steps and the depth of one rendering, and notes the line of its
// error. Used by one thread.
class RenderMeter {
 public:
  // `limits` must outlive it.
  explicit RenderMeter(const RenderLimits& limits) : limits_(limits) {}

  // Accounts for work. Errors: kInvalidArgument beyond the limits.
  absl::Status Spend(int64_t steps) {
    steps_ += steps;
    if (steps_ <= limits_.max_steps) return absl::OkStatus();
    return TooManySteps();
  }
  // Errors: kInvalidArgument for a text that is longer than the limit.
  absl::Status CheckTextSize(int64_t bytes) const;

  // Returns the result of `compute` for a node of the syntax tree, which is at
  // `line`. Accounts for a step and for the depth, and notes the line of an
  // error.
  template <typename Function>
  auto AtNode(int line, const Function& compute) -> decltype(compute()) {
    ++depth_;
    auto result = depth_ <= kMaxCallDepth ? compute() : TooDeep();
    --depth_;
    if (!result.ok()) return AtLine(StatusOf(result), line);
    RETURN_IF_ERROR(Spend(1));
    return result;
  }
  // Notes the line of an error, unless there was one before, and returns it.
  absl::Status AtLine(absl::Status status, int line);
  // The line of the first error, or 0.
  int error_line() const { return error_line_; }

 private:
  friend class DepthGuard;

  static const absl::Status& StatusOf(const absl::Status& status) {
    return status;
  }
  template <typename T>
  static const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
    return result.status();
  }
  static absl::Status TooDeep();
  absl::Status TooManySteps() const;

  const RenderLimits& limits_;
  int64_t steps_ = 0;
  int depth_ = 0;
  int error_line_ = 0;
};

// Counts one level of depth as long as it lives.
class DepthGuard {
 public:
  explicit DepthGuard(RenderMeter& meter) : depth_(++meter.depth_) {}
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  // Errors: kInvalidArgument beyond the limit.
  absl::Status Check() const {
    if (depth_ <= kMaxCallDepth) return absl::OkStatus();
    return RenderMeter::TooDeep();
  }

 private:
  int& depth_;
};

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_RENDER_METER_H_
