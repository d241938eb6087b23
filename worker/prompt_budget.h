// How many prompt rows may join a step that decodes, from measured steps.
#ifndef PLIMSOLL_WORKER_PROMPT_BUDGET_H_
#define PLIMSOLL_WORKER_PROMPT_BUDGET_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "worker/scheduler.h"

namespace plimsoll::worker {

// Keeps a step with prompt rows at no more than twice the one without, so that
// streams go on while a long prompt is computed. Step thread only.
class PromptBudget {
 public:
  // Of a mixed step to the same without prompt rows: what is aimed at, so that
  // noise stays below 2.
  static constexpr double kAimedRatio = 1.9;
  // Mixed steps after which a step without prompt rows is measured again.
  static constexpr int64_t kMixedSteps = 64;
  // Until the first mixed step was measured.
  static constexpr double kFirstRows = 8;

  explicit PromptBudget(int64_t n_slots)
      : decodes_(static_cast<size_t>(n_slots) + 1) {}

  // Prompt rows for a step with `n_decoding` others: no limit if that is 0; 0
  // if the step is to be measured without them; otherwise at least 1.
  int64_t Rows(int64_t n_decoding) const;
  // Takes what a step with these rows took.
  void Record(int64_t n_decoding, int64_t n_prompt, absl::Duration duration);

 private:
  struct Decode {
    double seconds = 0;   // of a step without prompt rows; 0 = not known
    int64_t n_mixed = 0;  // steps with prompt rows since it was measured
  };

  std::vector<Decode> decodes_;  // by the number of decoding rows
  double rows_ = kFirstRows;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_PROMPT_BUDGET_H_
