// Where a stream's output goes, and what that output consists of.
#ifndef PLIMSOLL_WORKER_ENGINE_TOKEN_SINK_H_
#define PLIMSOLL_WORKER_ENGINE_TOKEN_SINK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/cache/roll_plan.h"
#include "worker/sampling/token_output.h"

namespace plimsoll::worker {

// Tokens that left a full context. Positions count every token of the stream
// or session from 0: prompt, generated and evicted tokens. With
// RollMethod::kShift, the states of recurrent layers still contain the effect
// of these tokens.
struct Eviction {
  int64_t position;  // the first token that left
  int64_t n_tokens;  // [position, position + n_tokens) left
  int64_t n_turns;   // whole turns among them
  int64_t n_kept;    // tokens still attended, pinned ones included
  RollMethod method;
};

// The output of one step for one stream. `text` is valid UTF-8. It may be empty
// while the stream holds back part of a code point or a possible stop string.
struct StepOutput {
  std::string text;
  std::vector<TokenOutput> tokens;
  std::vector<Eviction> evictions;         // before `tokens` were generated
  std::vector<PromptScore> prompt_scores;  // continue those reported before
};

// Why a stream ended.
enum class FinishReason {
  kUnknown,
  kEndToken,    // the model ended it
  kStopToken,   // one of stop_tokens
  kStopString,  // one of stop_strings
  kMaxTokens,   // max_tokens reached
  kLength,      // the context is full
};

// The cost of a stream, and how it ended.
struct FinishInfo {
  FinishReason reason = FinishReason::kUnknown;
  std::string stop_string;  // the one that matched
  int64_t n_prompt = 0;     // tokens of the context before the reply
  int64_t n_cached = 0;     // prompt tokens that earlier calls had computed
  int64_t n_generated = 0;
  int64_t n_drafted = 0;   // guessed tokens that were computed
  int64_t n_accepted = 0;  // guessed tokens that were right
  int64_t n_evictions = 0;
  int64_t n_evicted = 0;       // tokens
  absl::Duration queued;       // until its first row was computed
  absl::Duration first_token;  // from Submit
  absl::Duration prefill;
  absl::Duration decode;
};

// Receives a stream's output. The step thread calls it, so no method may block.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // Takes the output and returns true. Returns false and leaves the output
  // alone if the reader is behind: the engine then parks this sequence only,
  // and offers the same output again after Engine::Wake().
  virtual bool OnOutput(StepOutput& output) = 0;
  // Called once, last. OK means complete, with the reason in `info`.
  virtual void OnEnd(const absl::Status& status, const FinishInfo& info) = 0;
  // True when nobody reads any more. The slot is free within two steps then.
  virtual bool Abandoned() const = 0;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_TOKEN_SINK_H_
