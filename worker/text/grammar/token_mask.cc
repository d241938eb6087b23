#include "worker/text/grammar/token_mask.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace plimsoll::worker {

// The states have room for all of their steps.
TokenMask::TokenMask(std::shared_ptr<const Grammar> grammar,
                     const TokenIndex& index)
    : index_(index), state_(std::move(grammar)), walk_(index) {
  for (Mask& mask : masks_) mask.bits.reserve(n_words());
  bytes_.reserve(index.longest_token_bytes());
}

void TokenMask::BeginStep() {
  if (!state_.BeginStep()) return;
  for (Mask& mask : masks_) mask.state.reset();
}

std::optional<size_t> TokenMask::MarkThatMayFollow(int32_t id) const {
  const std::vector<int32_t>& tokens = grammar_tokens();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] != id) continue;
    if (state_.MayFollowToken(state_.current(), i)) return i;
  }
  return std::nullopt;
}

bool TokenMask::Allows(int32_t id) {
  const Tokenizer& tokenizer = index_.tokenizer();
  if (tokenizer.IsEnd(id)) {
    return state_.Accepts(state_.current()) || MarkThatMayFollow(id);
  }
  bytes_.clear();
  tokenizer.AppendBytes(id, RenderSpecial::kNo, bytes_);
  if (bytes_.empty()) return MarkThatMayFollow(id).has_value();
  GrammarState::State state = state_.current();
  const char last = bytes_.back();
  bytes_.pop_back();
  for (const char byte : bytes_) {
    state = state_.Next(state, static_cast<uint8_t>(byte));
  }
  return state_.MayFollow(state, static_cast<uint8_t>(last));
}

absl::StatusOr<std::span<const uint64_t>> TokenMask::AllowedTokens() {
  const GrammarState::State state = state_.current();
  ++n_uses_;
  for (Mask& mask : masks_) {
    if (mask.state != state) continue;
    mask.last_use = n_uses_;
    return std::span<const uint64_t>(mask.bits);
  }
  Mask& mask = *std::min_element(
      masks_.begin(), masks_.end(),
      [](const Mask& a, const Mask& b) { return a.last_use < b.last_use; });
  mask.state.reset();
  const Tokenizer& tokenizer = index_.tokenizer();
  mask.bits.resize(n_words());
  bool is_any = walk_.Fill(state_, mask.bits);
  if (state_.Accepts(state)) {
    for (const int32_t id : tokenizer.end_tokens()) {
      const auto end = static_cast<uint32_t>(id);
      mask.bits[end / 64] |= uint64_t{1} << (end % 64);
      is_any = true;
    }
  }
  for (const int32_t id : grammar_tokens()) {
    if (!MarkThatMayFollow(id)) continue;
    const auto mark = static_cast<uint32_t>(id);
    mask.bits[mark / 64] |= uint64_t{1} << (mark % 64);
    is_any = true;
  }
  for (int i = 1; i < kMaxSearches && !is_any && state_.is_exhausted(); ++i) {
    state_.GrantWork();
    is_any = walk_.Fill(state_, mask.bits);
  }
  if (!is_any) {
    // Every state leads to the grammar's end.
    return absl::InvalidArgumentError(
        "the constraint allows no token here: the model's vocabulary cannot "
        "spell what follows");
  }
  mask.state = state;
  mask.last_use = n_uses_;
  return std::span<const uint64_t>(mask.bits);
}

absl::Status TokenMask::Accept(int32_t id) {
  const Tokenizer& tokenizer = index_.tokenizer();
  if (tokenizer.IsEnd(id) && state_.Accepts(state_.current())) {
    return absl::OkStatus();
  }
  bytes_.clear();
  tokenizer.AppendBytes(id, RenderSpecial::kNo, bytes_);
  if (!bytes_.empty() && state_.Advance(bytes_)) return absl::OkStatus();
  const std::optional<size_t> mark = MarkThatMayFollow(id);
  if (mark && state_.AdvanceToken(*mark)) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("token ", id, " was drawn, but the constraint forbids it"));
}

int64_t TokenMask::MemoryBytes() const {
  int64_t bytes = state_.MemoryBytes() + walk_.MemoryBytes();
  for (const Mask& mask : masks_) {
    bytes += static_cast<int64_t>(mask.bits.capacity() * sizeof(uint64_t));
  }
  return bytes;
}

}  // namespace plimsoll::worker
