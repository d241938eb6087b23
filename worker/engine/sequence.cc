#include "worker/engine/sequence.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace plimsoll::worker {
namespace {

// Most tokens have no more bytes than this.
constexpr size_t kTokenText = 32;

}  // namespace

Sequence::Sequence(int64_t id, Arrival arrival, SequenceStart start)
    : id_(id),
      options_(std::move(arrival.options)),
      sink_(std::move(arrival.sink)),
      text_(options_.stop_strings),
      start_(std::move(start)),
      n_scored_(options_.first_scored - 1),
      submitted_(arrival.time) {
  options_.prompt_ids = {};  // they are in the history
  if (start_.evicted) {
    n_evictions_ = 1;
    n_evicted_before_ -= start_.evicted->n_tokens;
    output_.evictions.push_back(*start_.evicted);
  }
  if (options_.logit_bias.HasPenalty()) {
    const int64_t limit = options_.logit_bias.penalty_last_tokens;
    std::vector<int32_t> newest;
    history().Newest(limit, newest);
    recent_.emplace(newest, limit);
  }
  if (options_.reasoning) {
    reasoning_.emplace(*std::move(options_.reasoning));
    ForceNext();
  }
}

void Sequence::ForceNext() {
  forced_ = reasoning_->Next();
  if (!forced_ || mask() == nullptr) return;
  mask()->BeginStep();
  if (mask()->Allows(*forced_)) return;
  reasoning_->GiveUp();
  forced_.reset();
}

// Reserves all memory that the sequence will need, so that no step allocates.
void Sequence::Started(absl::Time now, int64_t n_ctx) {
  if (started_) return;
  started_ = now;
  const int64_t most = n_ctx + 1;  // the last token needs no place in n_ctx
  const int64_t wanted =
      options_.max_tokens > 0 ? std::min(options_.max_tokens, n_ctx) : n_ctx;
  start_.history.Reserve(std::min(most, history().n_live() + wanted));
  // The output of one step has at most this many tokens.
  const auto n_tokens = static_cast<size_t>(1 + draft_tokens());
  output_.tokens.reserve(n_tokens);
  output_.text.reserve(n_tokens * kTokenText);
  output_.evictions.reserve(1);
  draft_.reserve(n_tokens);
  predicted_.reserve(n_tokens);
  buffers_.reserve(n_tokens);
  if (options_.top_logprobs <= 0) return;
  for (size_t i = 0; i < n_tokens; ++i) {
    buffers_.emplace_back().reserve(static_cast<size_t>(options_.top_logprobs));
  }
}

std::vector<Candidate> Sequence::ReuseBuffer() {
  if (buffers_.empty()) return {};
  std::vector<Candidate> buffer = std::move(buffers_.back());
  buffers_.pop_back();
  return buffer;
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
  AppendShown(id, tokenizer, bytes_);
  text_.Push(bytes_, output_.text);
  if (reasoning_) {
    bytes_.clear();
    tokenizer.AppendBytes(id, RenderSpecial::kYes, bytes_);
    reasoning_->Push(id, bytes_);
    ForceNext();
  }
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

void Sequence::AppendShown(int32_t token, const Tokenizer& tokenizer,
                           std::string& bytes) const {
  const std::vector<int32_t>& shown = options_.shown_tokens;
  tokenizer.AppendBytes(
      token,
      RenderSpecialIf(std::binary_search(shown.begin(), shown.end(), token)),
      bytes);
}

std::string Sequence::ReplyText(const Tokenizer& tokenizer) const {
  std::vector<int32_t> ids;
  history().Newest(n_generated(), ids);
  TextStream stream(options_.stop_strings);
  std::string text;
  std::string bytes;
  for (const int32_t id : ids) {
    bytes.clear();
    AppendShown(id, tokenizer, bytes);
    stream.Push(bytes, text);
    if (stream.stopped()) break;
  }
  stream.Finish(text);
  return text;
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
  if (draft_tokens() == 0 || n_generated() == 0) return 0;
  if (options_.max_tokens == 0) return draft_tokens();
  // A token is drawn behind the guesses, and max_tokens counts it too.
  return std::min(draft_tokens(), options_.max_tokens - n_generated() - 1);
}

EvictionPlan Sequence::Evict(int64_t n_live) {
  TokenHistory& history = start_.history;
  history.WholeTurns(turns_);
  const EvictionPlan plan = PlanEviction(roll(), n_live, turns_);
  output_.evictions.push_back(
      {.position = history.first_recent(),
       .n_tokens = plan.n_tokens,
       .n_turns =
           std::count_if(turns_.begin(), turns_.end(),
                         [&plan](int64_t n) { return n <= plan.n_tokens; }),
       .n_kept = n_live - plan.n_tokens,
       .method = plan.method});
  history.Evict(plan.n_tokens);
  if (plan.method == RollMethod::kRecompute) history.Restart();
  ++n_evictions_;
  return plan;
}

void Sequence::AppendUnscored(const SequenceRows& rows,
                              ScoredRows& scored) const {
  if (!options_.prompt_logprobs) return;
  int64_t n_scored = n_scored_;
  for (int64_t i = 0; i < rows.n_rows; ++i) {
    // A row that is computed again was scored the first time.
    const int64_t position = rows.first_position + i;
    const int64_t index = history().IndexAt(position);
    if (index != n_scored || index + 1 >= n_prompt()) continue;
    scored.rows.push_back(static_cast<int32_t>(rows.first_row + i));
    scored.targets.push_back(history().TokenAt(position + 1));
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
  // Candidates that the sink did not move away are buffers for the next step.
  for (TokenOutput& token : output_.tokens) {
    if (token.candidates.capacity() == 0) continue;
    if (buffers_.size() == buffers_.capacity()) break;
    buffers_.push_back(std::move(token.candidates));
  }
  output_.text.clear();
  output_.tokens.clear();
  output_.evictions.clear();
  output_.prompt_scores.clear();
  return true;
}

RequestRecord Sequence::Finish(absl::Time now) {
  const absl::Time started = started_.value_or(now);
  const absl::Time first = first_token_.value_or(now);
  RequestRecord record{
      .request_id = options_.request_id,
      .tenant = options_.claim.tenant,
      .status = end_.value_or(absl::InternalError("ended without a status")),
      .info = {.reason = reason_,
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
               .decode = now - first}};
  sink_->OnEnd(record.status, record.info);
  return record;
}

}  // namespace plimsoll::worker
