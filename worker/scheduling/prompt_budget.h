// How many prompt rows may join a step that decodes, from measured steps.
#ifndef PLIMSOLL_WORKER_SCHEDULING_PROMPT_BUDGET_H_
#define PLIMSOLL_WORKER_SCHEDULING_PROMPT_BUDGET_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "worker/scheduling/scheduler.h"

namespace plimsoll::worker {

// Keeps the part of a step's time that prompt rows take at a given share, so
// that streams go on while a long prompt is computed. With a share of a half
// such a step takes twice as long as one without prompt rows. A row costs more
// the further on in its context it is, so there is one budget for each depth: a
// class of positions, each but the first twice as wide as the one before. Where
// a single row takes more than the share, the next steps have no prompt rows,
// until the share is kept again. Used from the step thread only.
class PromptBudget {
 public:
  // After this many steps with prompt rows, one without them is measured again.
  static constexpr int64_t kMixedSteps = 64;
  // The budget of a depth before its first step is measured.
  static constexpr double kFirstRows = 8;
  // At most this many steps without prompt rows follow one that took too long.
  static constexpr double kMaxPause = 64;
  // Positions of the first depth.
  static constexpr int64_t kFirstPositions = 512;

  // `share` is more than 0 and less than 1.
  PromptBudget(int64_t n_slots, double share)
      : allowed_share_(share / (1 - share)),
        decodes_(static_cast<size_t>(n_slots) + 1) {}

  // How many prompt rows, from `position` on, a step with `n_decoding` decoding
  // rows may have. Without decoding rows there is no limit. Returns 0 if the
  // step is to be measured without prompt rows, or if earlier steps took more
  // than the share; otherwise at least 1.
  int64_t Rows(int64_t n_decoding, int64_t position = 0) const;
  // Takes the time of a step with this many rows. `position` is that of the
  // prompt row that is furthest on.
  void Record(int64_t n_decoding, int64_t n_prompt, absl::Duration duration,
              int64_t position = 0);

 private:
  struct Decode {
    double seconds = 0;   // a step without prompt rows; 0 = not known
    int64_t n_mixed = 0;  // steps with prompt rows since then
  };

  static constexpr size_t kDepths = 16;
  static size_t DepthOf(int64_t position);
  // Counts the seconds that a step spent, and might spend, on prompt rows.
  void Count(double taken, double allowed);

  // Seconds that prompt rows may take for each second of a step without them.
  double allowed_share_;
  // Seconds that prompt rows took beyond that. Below 0, seconds are left.
  double excess_ = 0;
  std::vector<Decode> decodes_;  // by the number of decoding rows
  // By depth; none: not known.
  std::array<std::optional<double>, kDepths> rows_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SCHEDULING_PROMPT_BUDGET_H_
