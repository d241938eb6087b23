#include "worker/engine/sequence.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace plimsoll::worker {
namespace {

// Bytes of most tokens.
constexpr size_t kTokenText = 32;

}  // namespace

// Its history has room for all that it will hold, so that no step allocates.
void Sequence::Started(absl::Time now, int64_t n_ctx) {
  if (started_) return;
  started_ = now;
  const int64_t most = n_ctx + 1;  // the last token needs no place in it
  const int64_t wanted =
      options_.max_tokens > 0 ? std::min(options_.max_tokens, n_ctx) : n_ctx;
  start_.history.Reserve(std::min(most, history().n_live() + wanted));
  // Of a step, too.
  const auto n_tokens = static_cast<size_t>(1 + options_.draft_tokens);
  output_.tokens.reserve(n_tokens);
  output_.text.reserve(n_tokens * kTokenText);
  output_.evictions.reserve(1);
  draft_.reserve(n_tokens);
  rooms_.reserve(n_tokens);
  if (options_.top_logprobs <= 0) return;
  for (size_t i = 0; i < n_tokens; ++i) {
    rooms_.emplace_back().reserve(static_cast<size_t>(options_.top_logprobs));
  }
}

std::vector<Candidate> Sequence::TakeRoom() {
  if (rooms_.empty()) return {};
  std::vector<Candidate> room = std::move(rooms_.back());
  rooms_.pop_back();
  return room;
}

void Sequence::Accept(TokenOutput token, const Tokenizer& tokenizer,
                      int64_t n_ctx, absl::Time now) {
  if (!first_token_) first_token_ = now;
  const int32_t id = token.id;
  start_.history.Append(id);
  if (recent_) recent_->Add(id);
  if (mask() != nullptr) {
    if (absl::Status status = mask()->Accept(id); !status.ok()) End(status);
  }
  ++n_generated_;
  bytes_.clear();
  if (!calls_.Covers(id)) {
    tokenizer.AppendBytes(id, /*render_special=*/false, bytes_);
  }
  text_.Push(bytes_, output_.text);
  output_.tokens.push_back(std::move(token));
  reason_ = ReasonToStop(id, tokenizer, n_ctx);
  if (reason_ == FinishReason::kUnknown) return;
  text_.Finish(output_.text);
  if (reason_ == FinishReason::kLength &&
      options_.roll.policy == ContextPolicy::kError) {
    End(absl::OutOfRangeError(
        absl::StrCat("the context of ", n_ctx, " tokens is full: ", n_prompt(),
                     " of the prompt and ", n_generated(), " generated")));
    return;
  }
  End(absl::OkStatus());
}

FinishReason Sequence::ReasonToStop(int32_t token, const Tokenizer& tokenizer,
                                    int64_t n_ctx) const {
  if (tokenizer.IsEnd(token) && !options_.ignore_eos) {
    return FinishReason::kEndToken;
  }
  const auto& stops = options_.stop_tokens;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
    return FinishReason::kStopToken;
  }
  if (text_.stopped()) return FinishReason::kStopString;
  if (options_.max_tokens > 0 && n_generated() >= options_.max_tokens) {
    return FinishReason::kMaxTokens;
  }
  if (options_.roll.policy == ContextPolicy::kRoll) {
    return FinishReason::kUnknown;
  }
  // The newest token has no place in the context any more.
  if (n_prompt() + n_generated() > n_ctx) return FinishReason::kLength;
  return FinishReason::kUnknown;
}

int64_t Sequence::MostDrafted() const {
  if (options_.draft_tokens == 0 || n_generated() == 0) return 0;
  if (options_.max_tokens == 0) return options_.draft_tokens;
  // The token that is drawn after the last one of them is the last one.
  return std::min(options_.draft_tokens,
                  options_.max_tokens - n_generated() - 1);
}

Leaving Sequence::Evict(int64_t n_live) {
  TokenHistory& history = start_.history;
  history.WholeTurns(turns_);
  const Leaving leaving = WhatLeaves(roll(), n_live, turns_);
  output_.evictions.push_back(
      {.position = history.first_recent(),
       .n_tokens = leaving.n_tokens,
       .n_turns = std::count_if(
           turns_.begin(), turns_.end(),
           [&leaving](int64_t n) { return n <= leaving.n_tokens; }),
       .n_kept = n_live - leaving.n_tokens,
       .method = leaving.method});
  history.Evict(leaving.n_tokens);
  if (leaving.method == RollMethod::kRecompute) history.Restart();
  ++n_evictions_;
  return leaving;
}

void Sequence::AppendUnscored(int64_t first_position, int64_t n_rows,
                              int64_t first_row, ScoredRows& scored) const {
  if (!options_.prompt_logprobs) return;
  int64_t n_scored = n_scored_;
  for (int64_t i = 0; i < n_rows; ++i) {
    // A row that is computed again was scored the first time.
    const int64_t index = history().IndexAt(first_position + i);
    if (index != n_scored || index + 1 >= n_prompt()) continue;
    scored.rows.push_back(static_cast<int32_t>(first_row + i));
    scored.targets.push_back(history().TokenAt(first_position + i + 1));
    ++n_scored;
  }
}

void Sequence::AddScores(const std::vector<PromptScore>& scores) {
  n_scored_ += static_cast<int64_t>(scores.size());
  output_.prompt_scores.insert(output_.prompt_scores.end(), scores.begin(),
                               scores.end());
}

bool Sequence::HasOutput() const {
  return !output_.tokens.empty() || !output_.text.empty() ||
         !output_.evictions.empty() || !output_.prompt_scores.empty();
}

bool Sequence::Flush() {
  if (!HasOutput()) return true;
  if (!sink_->OnOutput(output_)) return false;
  // What the sink has not moved away is room for the next step.
  for (TokenOutput& token : output_.tokens) {
    if (token.candidates.capacity() == 0) continue;
    if (rooms_.size() == rooms_.capacity()) break;
    rooms_.push_back(std::move(token.candidates));
  }
  output_.text.clear();
  output_.tokens.clear();
  output_.evictions.clear();
  output_.prompt_scores.clear();
  return true;
}

void Sequence::Finish(absl::Time now) {
  const absl::Time started = started_.value_or(now);
  const absl::Time first = first_token_.value_or(now);
  sink_->OnEnd(end_.value_or(absl::InternalError("ended without a status")),
               {.reason = reason_,
                .stop_string = text_.stop_string(),
                .n_prompt = n_prompt(),
                .n_cached = start_.n_cached,
                .n_generated = n_generated(),
                .n_drafted = n_drafted_,
                .n_accepted = n_accepted_,
                .n_evictions = n_evictions_,
                .n_evicted = history().n_evicted() - n_evicted_before_,
                .queued = started - submitted_,
                .first_token = first - submitted_,
                .prefill = first - started,
                .decode = now - first});
}

}  // namespace plimsoll::worker
