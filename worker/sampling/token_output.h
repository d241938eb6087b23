// A stream's report about a drawn token, or about a token of its prompt.
#ifndef PLIMSOLL_WORKER_SAMPLING_TOKEN_OUTPUT_H_
#define PLIMSOLL_WORKER_SAMPLING_TOKEN_OUTPUT_H_

#include <cstdint>
#include <vector>

namespace plimsoll::worker {

// A token that could have been drawn.
struct Candidate {
  int32_t id;
  float logprob;  // natural logarithm, in the model's raw distribution
};

// The token that was drawn.
struct TokenOutput {
  int32_t id;
  bool has_logprob = false;
  float logprob = 0;
  int64_t rank = 0;  // number of likelier tokens; only with a logprob
  std::vector<Candidate> candidates;  // the likeliest first
};

// The log-probability of a token of the prompt, given the tokens before it.
struct PromptScore {
  float logprob;
  bool is_best;  // no token was likelier
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLING_TOKEN_OUTPUT_H_
