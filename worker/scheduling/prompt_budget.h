// Computes the number of prompt rows that may join a decode step, from measured
// steps.
#ifndef PLIMSOLL_WORKER_SCHEDULING_PROMPT_BUDGET_H_
#define PLIMSOLL_WORKER_SCHEDULING_PROMPT_BUDGET_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "worker/scheduling/scheduler.h"

namespace plimsoll::worker {

// Limits the time of prompt rows in a step to a given share of the step's time,
// so that streams continue while a long prompt is computed. With a share of a
// half, such a step takes twice as long as a step without prompt rows. A row
// costs more at a later position, so each depth has its own budget. A depth is
// a class of positions; each depth except the first is twice as wide as the one
// before. If a single row takes more than the share, the next steps have no
// prompt rows until the share is kept again.
//
// A prompt beside decoding streams of other tenants has a smaller share. This
// share holds over time, not in each step: such prompts may first take kBurst
// seconds at the normal share. So a short prompt does not wait, and a flood of
// long prompts slows other tenants' streams only little. Used from the step
// thread only.
class PromptBudget {
 public:
  // Both are more than 0 and less than 1.
  struct Shares {
    double of_step;  // share of a step's time, for all prompts
    double
        beside_others;  // over time, for prompts beside other tenants' streams
  };
  // Seconds that prompts beside other tenants' streams may take before their
  // share holds, after a long time without such prompts.
  static constexpr double kBurst = 1;
  // After this many steps with prompt rows, a step without prompt rows is
  // measured again.
  static constexpr int64_t kMixedSteps = 64;
  // The budget of a depth before its first step is measured.
  static constexpr double kFirstRows = 8;
  // At most this many steps without prompt rows follow one that took too long.
  static constexpr double kMaxPause = 64;
  // Positions of the first depth.
  static constexpr int64_t kFirstPositions = 512;

  PromptBudget(int64_t n_slots, const Shares& shares)
      : of_step_(shares.of_step),
        beside_others_(shares.beside_others),
        decodes_(static_cast<size_t>(n_slots) + 1) {
    beside_others_.excess = -kBurst;
  }

  // Returns the number of prompt rows, from `place` on, that a step with
  // `n_decoding` decoding rows may have. Without decoding rows there is no
  // limit. Returns 0 if the step must be measured without prompt rows, or if
  // earlier steps took more than a share; otherwise at least 1.
  int64_t Rows(int64_t n_decoding, const PromptPlace& place = {}) const;
  // Takes the time of a step with this many rows. `place` has the largest
  // position of a prompt row, and tells whether any prompt is beside streams of
  // other tenants.
  void Record(int64_t n_decoding, int64_t n_prompt, absl::Duration duration,
              const PromptPlace& place = {});

 private:
  struct Decode {
    double seconds = 0;   // a step without prompt rows; 0 = not known
    int64_t n_mixed = 0;  // steps with prompt rows since then
  };

  // A share, and the account of its use.
  struct Account {
    explicit Account(double share) : allowed(share / (1 - share)) {}
    // Counts the seconds that prompt rows took in a step. Without prompt rows
    // the step would have taken `decode` seconds. At most `most_left` unused
    // seconds are saved for later.
    void Count(double taken, double decode, double most_left);

    // Seconds that prompt rows may take for each second of a step without them.
    double allowed;
    // Seconds that prompt rows took beyond the allowed ones. Below 0, seconds
    // are left.
    double excess = 0;
  };

  static constexpr size_t kDepths = 16;
  static size_t DepthOf(int64_t position);
  // Counts a step in both accounts.
  void Count(double taken, double decode, bool is_beside_others);

  Account of_step_;
  Account beside_others_;
  std::vector<Decode> decodes_;  // by the number of decoding rows
  // By depth; an empty value is not known yet.
  std::array<std::optional<double>, kDepths> rows_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SCHEDULING_PROMPT_BUDGET_H_
