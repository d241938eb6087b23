#include "worker/text/tokenizer/token_index.h"

#include <algorithm>
#include <string>

namespace plimsoll::worker {
namespace {

bool IsText(const Tokenizer& tokenizer, int32_t id) {
  switch (tokenizer.Type(id)) {
    case TokenType::kNormal:
    case TokenType::kUserDefined:
    case TokenType::kByte:
      return !tokenizer.IsEnd(id);
    case TokenType::kControl:
    case TokenType::kUnknown:
    case TokenType::kUnused:
      return false;
  }
  return false;
}

}  // namespace

TokenIndex::TokenIndex(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  const int32_t vocab_size = tokenizer.vocab_size();
  // All texts, one after the other, by id.
  std::string texts;
  std::vector<uint32_t> ends = {0};
  ends.reserve(static_cast<size_t>(vocab_size) + 1);
  for (int32_t id = 0; id < vocab_size; ++id) {
    if (IsText(tokenizer, id)) {
      tokenizer.AppendBytes(id, /*render_special=*/false, texts);
    }
    ends.push_back(static_cast<uint32_t>(texts.size()));
  }
  const auto text = [&](int32_t id) {
    const auto i = static_cast<size_t>(id);
    return absl::string_view(texts.data() + ends[i], ends[i + 1] - ends[i]);
  };
  for (int32_t id = 0; id < vocab_size; ++id) {
    if (!text(id).empty()) ids_.push_back(id);
  }
  ids_.shrink_to_fit();
  std::sort(ids_.begin(), ids_.end(), [&](int32_t a, int32_t b) {
    const int order = text(a).compare(text(b));
    return order != 0 ? order < 0 : a < b;
  });
  shared_.reserve(ids_.size());
  begins_.reserve(ids_.size() + 1);
  absl::string_view before;
  for (const int32_t id : ids_) {
    const absl::string_view now = text(id);
    const auto differ =
        std::mismatch(now.begin(), now.end(), before.begin(), before.end());
    const auto n_shared = static_cast<size_t>(differ.first - now.begin());
    shared_.push_back(static_cast<uint16_t>(n_shared));
    begins_.push_back(static_cast<uint32_t>(bytes_.size()));
    bytes_.insert(bytes_.end(), differ.first, now.end());
    first_byte_[static_cast<unsigned char>(now[0]) + size_t{1}] =
        static_cast<int64_t>(begins_.size());
    longest_ = std::max(longest_, static_cast<uint32_t>(now.size()));
    before = now;
  }
  begins_.push_back(static_cast<uint32_t>(bytes_.size()));
  bytes_.shrink_to_fit();
  // A byte that no token begins with gets the end of the bytes before it.
  for (size_t b = 1; b < first_byte_.size(); ++b) {
    first_byte_[b] = std::max(first_byte_[b], first_byte_[b - 1]);
  }
}

int64_t TokenIndex::SkipTo(int64_t i, uint32_t n_shared) const {
  auto at = static_cast<size_t>(i);
  if (n_shared == 0 && at > 0 && at < ids_.size() && shared_[at] > 0) {
    // The end of all that begin with the same byte.
    const auto after = std::upper_bound(first_byte_.begin(), first_byte_.end(),
                                        static_cast<int64_t>(at));
    return after == first_byte_.end() ? size() : *after;
  }
  while (at < ids_.size() && shared_[at] > n_shared) ++at;
  return static_cast<int64_t>(at);
}

int64_t TokenIndex::MemoryBytes() const {
  return static_cast<int64_t>(
      ids_.capacity() * sizeof(int32_t) + shared_.capacity() * 2 +
      begins_.capacity() * sizeof(uint32_t) + bytes_.capacity());
}

}  // namespace plimsoll::worker
