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

// Keeps the part of a step's time that prompt rows take at a share, so that
// streams go on while a long prompt is computed: with a half such a step takes
// twice as long as the one without. A row costs the more the
// further on in its context it is, so the budget is one for each depth: a class
// of positions, each but the first twice as wide as the one before. Where one
// row alone takes more than the share, the steps after it have none, until the
// share is kept again. Step thread only.
class PromptBudget {
 public:
  // Mixed steps after which a step without prompt rows is measured again.
  static constexpr int64_t kMixedSteps = 64;
  // Until the first mixed step of a depth was measured.
  static constexpr double kFirstRows = 8;
  // The most steps without prompt rows that follow one which took too long.
  static constexpr double kMaxPause = 64;
  // Positions of the first depth.
  static constexpr int64_t kFirstPositions = 512;

  // `share` is more than 0 and less than 1.
  PromptBudget(int64_t n_slots, double share)
      : allowed_share_(share / (1 - share)),
        decodes_(static_cast<size_t>(n_slots) + 1) {}

  // Prompt rows from `position` on for a step with `n_decoding` others: no
  // limit if that is 0; 0 if the step is to be measured without them, or if
  // steps before it took more than the share; otherwise at least 1.
  int64_t Rows(int64_t n_decoding, int64_t position = 0) const;
  // Takes what a step with these rows took; `position` is that of the prompt
  // that is furthest on.
  void Record(int64_t n_decoding, int64_t n_prompt, absl::Duration duration,
              int64_t position = 0);

 private:
  struct Decode {
    double seconds = 0;   // of a step without prompt rows; 0 = not known
    int64_t n_mixed = 0;  // steps with prompt rows since it was measured
  };

  static constexpr size_t kDepths = 16;
  static size_t DepthOf(int64_t position);
  // Counts a step's seconds for prompt rows.
  void Count(double taken, double allowed);

  // What prompt rows may take for each second of a step without them.
  double allowed_share_;
  // What they took beyond that, in seconds. Below 0: what is left.
  double excess_ = 0;
  std::vector<Decode> decodes_;  // by the number of decoding rows
  std::array<std::optional<double>, kDepths>
      rows_;  // by depth; none: not known
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SCHEDULING_PROMPT_BUDGET_H_
