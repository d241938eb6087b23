// What is reported about a token: the one that was drawn, or one of a prompt.
#ifndef PLIMSOLL_WORKER_SAMPLING_TOKEN_OUTPUT_H_
#define PLIMSOLL_WORKER_SAMPLING_TOKEN_OUTPUT_H_

#include <cstdint>
#include <vector>

namespace plimsoll::worker {

struct Candidate {
  int32_t id;
  float logprob;  // natural logarithm, of the model's raw distribution
};

struct TokenOutput {
  int32_t id;
  bool has_logprob = false;
  float logprob = 0;
  int64_t rank = 0;  // tokens that are likelier; only with a logprob
  std::vector<Candidate> candidates;  // descending
};

// What the model thought of a token of the prompt, given those before it.
struct PromptScore {
  float logprob;
  bool is_best;  // no token was likelier
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLING_TOKEN_OUTPUT_H_
