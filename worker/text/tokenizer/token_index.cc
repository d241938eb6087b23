#include "worker/text/tokenizer/token_index.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

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
      tokenizer.AppendBytes(id, RenderSpecial::kNo, texts);
    }
    ends.push_back(static_cast<uint32_t>(texts.size()));
  }
  const auto text = [&](int32_t id) {
    const auto i = static_cast<size_t>(id);
    return absl::string_view(texts.data() + ends[i], ends[i + 1] - ends[i]);
  };
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocab_size; ++id) {
    if (!text(id).empty()) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    const int order = text(a).compare(text(b));
    return order != 0 ? order < 0 : a < b;
  });
  list_.Reserve(ids.size());
  absl::string_view before;
  for (const int32_t id : ids) {
    const absl::string_view now = text(id);
    const auto differ =
        std::mismatch(now.begin(), now.end(), before.begin(), before.end());
    const auto n_shared = static_cast<size_t>(differ.first - now.begin());
    list_.Add(id, n_shared, now.substr(n_shared));
    longest_ = std::max(longest_, static_cast<uint32_t>(now.size()));
    before = now;
  }
  list_.Finish();
  plain_.reserve(PlainText::kKinds);
  plain_.emplace_back(PlainText::kPlain, list_, vocab_size);
  plain_.emplace_back(PlainText::kWord, list_, vocab_size);
}

int64_t TokenIndex::MemoryBytes() const {
  int64_t bytes = list_.MemoryBytes();
  for (const PlainTokens& tokens : plain_) bytes += tokens.MemoryBytes();
  return bytes;
}

}  // namespace plimsoll::worker
