#include "worker/text/chat/reasoning_limit.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace plimsoll::worker {
std::optional<ReasoningLimit> LimitReasoning(const ReplyReading& reading,
                                             int64_t max_tokens,
                                             const Tokenizer& tokenizer) {
  const ReplyFormat& format = reading.format;
  if (format.reasoning.close.empty()) return std::nullopt;
  std::string text(format.reasoning.close);
  // gpt-oss names the channel of what follows. With tools it may be a call, so
  // that the model decides.
  const bool may_call_instead =
      format.syntax == CallSyntax::kChannel && !reading.tools.empty();
  if (!may_call_instead) absl::StrAppend(&text, format.after_reasoning);
  auto end = tokenizer.Encode(text, ParseSpecial::kYes);
  if (!end.ok() || end->empty()) return std::nullopt;
  ReasoningLimit limit = {
      .max_tokens = max_tokens,
      .reading = {.format = format,
                  .begins_reasoning = reading.begins_reasoning},
      .end = *std::move(end)};
  // Whether there are tools decides if calls are looked for; which ones there
  // are does not matter here.
  if (!reading.tools.empty()) limit.reading.tools.emplace_back();
  return limit;
}

ReasoningGuard::ReasoningGuard(ReasoningLimit limit)
    : limit_(std::move(limit)), splitter_(limit_.reading) {
  is_ending_ = splitter_.is_reasoning() && limit_.max_tokens == 0;
}

void ReasoningGuard::Push(int32_t id, absl::string_view bytes) {
  const bool was_reasoning = splitter_.is_reasoning();
  splitter_.Push(bytes, delta_);
  delta_.Clear();
  if (id == limit_.end[n_came_]) {
    ++n_came_;
  } else {
    n_came_ = id == limit_.end[0] ? 1 : 0;
  }
  if (n_came_ == limit_.end.size()) {
    n_came_ = 0;
    is_ending_ = false;
  }
  if (was_reasoning && splitter_.is_reasoning()) ++n_tokens_;
  if (!is_ending_ && !has_given_up_) {
    is_ending_ = splitter_.is_reasoning() && n_tokens_ >= limit_.max_tokens;
  }
}

std::optional<int32_t> ReasoningGuard::Next() const {
  if (!is_ending_) return std::nullopt;
  return limit_.end[n_came_];
}

void ReasoningGuard::GiveUp() {
  is_ending_ = false;
  n_came_ = 0;
  has_given_up_ = splitter_.is_reasoning();
}

}  // namespace plimsoll::worker
