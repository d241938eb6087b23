// SentencePiece merging by score, one word at a time where that is exact.
#include "worker/text/tokenizer/tokenizer_spm.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/tokenizer/piece_cache.h"
#include "worker/text/tokenizer/space_mark.h"
#include "worker/text/tokenizer/text_merge.h"

namespace plimsoll::worker {
namespace {

// Orders scores as ranks: the highest score has the lowest rank. Both zeros are
// the same score.
uint32_t RankOfScore(float score) {
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);
  const uint32_t sign = uint32_t{1} << 31;
  const uint32_t ascending = (bits & sign) != 0 ? ~bits : bits | sign;
  return ~ascending;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> SpmTokenizer::Load(
    const planner::GgufHeader& header, planner::ByteSource& source) {
  ASSIGN_OR_RETURN(VocabTable vocab,
                   VocabTable::Load(header, source, VocabTable::Scores::kRead));
  ASSIGN_OR_RETURN(SpecialTokens special, SpecialTokens::Build(vocab));
  const TokenRoleDefaults defaults = {
      .bos = 1, .eos = 2, .unknown = 0, .add_bos = true, .only_control = false};
  ASSIGN_OR_RETURN(TokenRoles roles, ReadTokenRoles(header, vocab, defaults));
  ASSIGN_OR_RETURN(const std::optional<bool> add_space_prefix,
                   header.Bool("tokenizer.ggml.add_space_prefix"));
  return std::unique_ptr<Tokenizer>(
      new SpmTokenizer({std::move(vocab), std::move(special), std::move(roles)},
                       add_space_prefix.value_or(true)));
}

SpmTokenizer::SpmTokenizer(Tables tables, bool add_space_prefix)
    : Tokenizer(std::move(tables)),
      unknown_(roles_.unknown),
      add_space_prefix_(add_space_prefix),
      byte_ids_(ByteTokenIds(vocab_)) {
  strip_leading_space_ = add_space_prefix;
  // Text that is in no token must not become a control token either.
  if (unknown_ && vocab_.Type(*unknown_) == TokenType::kControl) {
    unknown_.reset();
  }
  filter_.Reset(static_cast<size_t>(vocab_size()));
  for (int32_t id = 0; id < vocab_size(); ++id) {
    const absl::string_view text = vocab_.Text(id);
    IndexJoins(text);
    if (text.size() < 2) continue;
    lengths_.Add(text);
    filter_.Add(HashEnds(text));
  }
  for (size_t c = 0; c < ascii_ids_.size(); ++c) {
    const char text = static_cast<char>(c);
    ascii_ids_[c] = FindMergeable({&text, 1});
  }
  IndexSpans();
}

void SpmTokenizer::IndexJoins(absl::string_view token) {
  for (size_t i = 1; i < token.size(); ++i) {
    adjacent_.Add(token[i - 1], token[i]);
  }
  size_t begin = 0;
  while (token.substr(begin, kSpaceMark.size()) == kSpaceMark) {
    begin += kSpaceMark.size();
  }
  while ((begin = token.find(kSpaceMark, begin)) != absl::string_view::npos) {
    if (begin > 0) {
      joins_space_.set(static_cast<unsigned char>(token[begin - 1]));
    }
    ++begin;
  }
}

// A character that is in some token takes part in it or becomes byte tokens, so
// only bytes without one may be dropped. Text may spell U+2581 itself, so a
// token may stand for as many bytes as it is stored in.
void SpmTokenizer::IndexSpans() {
  SetSpans(
      [this](int32_t id) {
        return static_cast<int64_t>(vocab_.Text(id).size());
      },
      [this](size_t byte) { return byte_ids_[byte] >= 0 || unknown_; });
}

int32_t SpmTokenizer::FindMergeable(absl::string_view text) const {
  const int32_t id = vocab_.Find(text);
  return id >= 0 && !vocab_.IsControl(id) ? id : -1;
}

int32_t SpmTokenizer::FindChar(absl::string_view c) const {
  const auto lead = static_cast<unsigned char>(c[0]);
  return lead < ascii_ids_.size() ? ascii_ids_[lead] : FindMergeable(c);
}

bool SpmTokenizer::MayBeToken(absl::string_view joined) const {
  return joined.size() <= lengths_.Most(joined) &&
         filter_.MayHave(HashEnds(joined));
}

// Remembers the rules of pairs of tokens while a text is tokenised, because
// finding a rule hashes the text of both tokens. Each pair has one place, and a
// later pair replaces an earlier one there.
class SpmTokenizer::RuleCache {
 public:
  static constexpr size_t kMaxEntries = 16'384;  // 16 bytes each

  // Makes room for a text of `text_bytes` bytes.
  explicit RuleCache(size_t text_bytes)
      : entries_(std::clamp(std::bit_ceil(text_bytes / 4 + 1), size_t{16},
                            kMaxEntries)) {}

  // Returns the rule of the two tokens: what `find()` returned for them, which
  // must depend on these tokens only.
  template <typename FindAnew>
  std::optional<MergeRule> Find(int32_t left, int32_t right,
                                const FindAnew& find) {
    constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
    const uint64_t both = uint64_t{static_cast<uint32_t>(left)} << 32 |
                          static_cast<uint32_t>(right);
    const uint64_t mixed = (both ^ both >> 29) * kMix;
    Entry& entry = entries_[(mixed >> 40) & (entries_.size() - 1)];
    if (entry.left != left || entry.right != right) {
      const std::optional<MergeRule> rule = find();
      entry = {left, right, rule.value_or(MergeRule{0, -1})};
    }
    if (entry.rule.id < 0) return std::nullopt;
    return entry.rule;
  }

 private:
  struct Entry {
    int32_t left = -1;  // -1 if free
    int32_t right = -1;
    MergeRule rule = {0, -1};
  };
  std::vector<Entry> entries_;
};

class SpmTokenizer::Rules {
 public:
  // Makes rules for a text of `text_bytes` bytes.
  Rules(const SpmTokenizer& tokenizer, size_t text_bytes)
      : tokenizer_(tokenizer), cache_(text_bytes) {}

  MergeSymbol First(absl::string_view text, size_t begin) const {
    const absl::string_view c = text.substr(begin, CharBytes(text[begin]));
    return {static_cast<uint32_t>(begin), static_cast<uint32_t>(c.size()),
            tokenizer_.FindChar(c)};
  }

  std::optional<MergeRule> Find(absl::string_view text, const MergeSymbol& left,
                                const MergeSymbol& right) {
    const auto find = [&]() -> std::optional<MergeRule> {
      const absl::string_view joined =
          text.substr(left.begin, size_t{left.bytes} + right.bytes);
      if (!tokenizer_.MayBeToken(joined)) return std::nullopt;
      return tokenizer_.FindRule(joined);
    };
    // If a symbol has no id, only the texts identify the pair.
    if (left.id < 0 || right.id < 0) return find();
    return cache_.Find(left.id, right.id, find);
  }

  // Any pair that makes a token has a rule.
  void ListAcross(absl::string_view text, const MergeSymbol& symbol,
                  std::vector<AcrossRule>& out) const {
    out.clear();
    const absl::string_view from = text.substr(symbol.begin);
    size_t bytes = symbol.bytes;
    if (bytes == from.size()) return;
    const size_t most = std::min(from.size(), tokenizer_.lengths_.Most(from));
    while (bytes < most &&
           tokenizer_.adjacent_.Has(from[bytes - 1], from[bytes])) {
      bytes = std::min(bytes + CharBytes(from[bytes]), from.size());
      const absl::string_view joined = from.substr(0, bytes);
      if (!tokenizer_.MayBeToken(joined)) continue;
      const auto rule = tokenizer_.FindRule(joined);
      if (rule) out.push_back({rule->rank, bytes - symbol.bytes});
    }
  }

 private:
  const SpmTokenizer& tokenizer_;
  RuleCache cache_;
};

struct SpmTokenizer::Scratch {
  Scratch(const SpmTokenizer& tokenizer, size_t text_bytes,
          StopCounter& stop_check)
      : cache(text_bytes), rules(tokenizer, text_bytes), stop(stop_check) {}

  PieceCache cache;
  Rules rules;
  TextMerger merger;
  StopCounter& stop;
};

absl::Status SpmTokenizer::EncodeTo(absl::string_view text, bool parse_special,
                                    StopCounter& stop,
                                    std::vector<int32_t>& ids) const {
  Scratch scratch(*this, text.size(), stop);
  ASSIGN_OR_RETURN(const std::vector<TextFragment> fragments,
                   special_.Split(vocab_, text, parse_special, stop));
  bool with_space_prefix = add_space_prefix_;
  for (const TextFragment& fragment : fragments) {
    if (fragment.id == TextFragment::kRaw) {
      RETURN_IF_ERROR(EncodeRaw(text.substr(fragment.begin, fragment.bytes),
                                with_space_prefix, scratch, ids));
      with_space_prefix = false;
    } else {
      ids.push_back(fragment.id);
      with_space_prefix = add_space_prefix_;
    }
  }
  return absl::OkStatus();
}

bool SpmTokenizer::MayJoin(absl::string_view text, size_t at, bool is_mark,
                           bool after_mark) const {
  if (is_mark && !after_mark) {
    return joins_space_[static_cast<unsigned char>(text[at - 1])];
  }
  return adjacent_.Has(text[at - 1], text[at]);
}

absl::Status SpmTokenizer::EncodeRaw(absl::string_view text,
                                     bool with_space_prefix, Scratch& scratch,
                                     std::vector<int32_t>& ids) const {
  std::string marked;
  RETURN_IF_ERROR(MarkSpaces(text, with_space_prefix, scratch.stop, marked));
  const absl::string_view all = marked;
  size_t fragment = 0;
  size_t asked = 0;  // checked up to here
  bool after_mark = true;
  for (size_t i = 0; i < all.size();) {
    if (i >= asked + StopCounter::kUnits) {
      RETURN_IF_ERROR(scratch.stop.Spend(static_cast<int64_t>(i - asked)));
      asked = i;
    }
    const absl::string_view c = all.substr(i, CharBytes(all[i]));
    const bool is_mark = c == kSpaceMark;
    if (i > fragment && !MayJoin(all, i, is_mark, after_mark)) {
      RETURN_IF_ERROR(
          EncodeFragment(all.substr(fragment, i - fragment), scratch, ids));
      fragment = i;
    }
    after_mark = is_mark;
    i += c.size();
  }
  return EncodeFragment(all.substr(fragment), scratch, ids);
}

std::optional<MergeRule> SpmTokenizer::FindRule(
    absl::string_view joined) const {
  const int32_t id = FindMergeable(joined);
  if (id < 0) return std::nullopt;
  return MergeRule{RankOfScore(vocab_.Score(id)), id};
}

absl::Status SpmTokenizer::EncodeFragment(absl::string_view text,
                                          Scratch& scratch,
                                          std::vector<int32_t>& ids) const {
  RETURN_IF_ERROR(scratch.stop.Spend(static_cast<int64_t>(text.size())));
  const auto append = [&](const MergeSymbol& symbol) {
    if (symbol.id >= 0) {
      ids.push_back(symbol.id);
    } else {
      AppendAsBytes(text.substr(symbol.begin, symbol.bytes), ids);
    }
  };
  return scratch.cache.Append(text, PieceCache::Kind::kPiece, ids, [&] {
    return scratch.merger.Run(text, scratch.rules, scratch.stop, append);
  });
}

void SpmTokenizer::AppendAsBytes(absl::string_view text,
                                 std::vector<int32_t>& ids) const {
  for (size_t i = 0; i < text.size(); ++i) {
    int32_t id = byte_ids_[static_cast<unsigned char>(text[i])];
    if (id < 0) id = FindMergeable(text.substr(i, 1));
    if (id >= 0) {
      ids.push_back(id);
    } else if (unknown_) {
      ids.push_back(*unknown_);
    }
  }
}

void SpmTokenizer::AppendNormal(absl::string_view text,
                                std::string& out) const {
  AppendUnmarked(text, out);
}

int64_t SpmTokenizer::MemoryBytes() const {
  return TableBytes() +
         static_cast<int64_t>(sizeof(byte_ids_) + sizeof(ascii_ids_) +
                              sizeof(joins_space_) + sizeof(adjacent_) +
                              sizeof(lengths_)) +
         filter_.MemoryBytes();
}

}  // namespace plimsoll::worker
