#include "worker/text/tokenizer/plain_tokens.h"

#include <algorithm>
#include <string>

namespace plimsoll::worker {
namespace {

// The characters of a text of a kind; kMaxChars + 1 if it has more or is not of
// that kind.
uint32_t CharsOf(PlainText::Kind kind, absl::string_view text) {
  uint32_t n = 0;
  PlainText::Position at = PlainText::kStart;
  for (const char byte : text) {
    at = PlainText::After(kind, at, static_cast<uint8_t>(byte));
    if (at == PlainText::kStart) ++n;
  }
  const bool is_counted =
      at == PlainText::kStart && n <= PlainTokens::kMaxChars;
  return is_counted ? n : PlainTokens::kMaxChars + 1;
}

}  // namespace

PlainTokens::PlainTokens(PlainText::Kind kind, const TokenList& all,
                         int64_t n_vocab)
    : kind_(kind),
      n_words_(static_cast<size_t>(n_vocab + 63) / 64),
      bits_((kMaxChars + 1) * n_words_, 0) {
  std::string text;
  std::string before;  // the last of the others
  for (int64_t i = 0; i < all.size(); ++i) {
    const TokenList::Entry entry = all.At(i);
    text.resize(entry.n_shared);
    text.append(entry.bytes.data(), entry.bytes.size());
    const auto first = static_cast<uint8_t>(text[0]);
    const uint32_t n_chars = CharsOf(kind, text);
    if (n_chars <= kMaxChars) {
      const auto id = static_cast<size_t>(entry.id);
      bits_[n_chars * n_words_ + id / 64] |= uint64_t{1} << (id % 64);
      ++by_first_[first];
    } else if (PlainText::After(kind, PlainText::kStart, first) ==
               PlainText::kOutside) {
      AddRest(i);
    } else {
      AddOther(entry.id, i, text, before);
      before = text;
    }
  }
  others_.Finish();
  places_.shrink_to_fit();
  for (size_t i = n_words_; i < bits_.size(); ++i) {
    bits_[i] |= bits_[i - n_words_];
  }
}

void PlainTokens::AddOther(int32_t id, int64_t place, absl::string_view text,
                           absl::string_view before) {
  const auto differ =
      std::mismatch(text.begin(), text.end(), before.begin(), before.end());
  const auto n_shared = static_cast<size_t>(differ.first - text.begin());
  others_.Add(id, n_shared, text.substr(n_shared));
  places_.push_back(static_cast<uint32_t>(place));
}

void PlainTokens::AddRest(int64_t place) {
  if (rest_.empty() || rest_.back().end != place) {
    rest_.push_back({place, place});
  }
  rest_.back().end = place + 1;
}

int64_t PlainTokens::OtherFrom(int64_t place) const {
  return std::lower_bound(places_.begin(), places_.end(),
                          static_cast<uint32_t>(place)) -
         places_.begin();
}

int64_t PlainTokens::MemoryBytes() const {
  return static_cast<int64_t>(bits_.capacity() * sizeof(uint64_t) +
                              places_.capacity() * sizeof(uint32_t) +
                              rest_.capacity() * sizeof(Range)) +
         others_.MemoryBytes();
}

}  // namespace plimsoll::worker
