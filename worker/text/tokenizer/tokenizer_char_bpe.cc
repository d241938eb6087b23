#include "worker/text/tokenizer/tokenizer_char_bpe.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "worker/text/tokenizer/pair_merge.h"
#include "worker/text/tokenizer/piece_cache.h"
#include "worker/text/tokenizer/space_mark.h"
#include "worker/text/tokenizer/text_merge.h"

namespace plimsoll::worker {

absl::StatusOr<std::unique_ptr<Tokenizer>> CharBpeTokenizer::Load(
    const planner::GgufHeader& header, planner::ByteSource& source) {
  ASSIGN_OR_RETURN(VocabTable vocab,
                   VocabTable::Load(header, source, VocabTable::Scores::kNone));
  ASSIGN_OR_RETURN(SpecialTokens special, SpecialTokens::Build(vocab));
  const TokenRoleDefaults defaults = {
      .bos = 2, .eos = 1, .unknown = 3, .add_bos = true, .only_control = true};
  ASSIGN_OR_RETURN(TokenRoles roles, ReadTokenRoles(header, vocab, defaults));
  // Files that say otherwise are wrong: without BOS these models are lost.
  roles.add_bos = roles.bos.has_value();
  ASSIGN_OR_RETURN(MergeTable merges, MergeTable::Load(header, source, vocab));
  return std::unique_ptr<Tokenizer>(new CharBpeTokenizer(
      {std::move(vocab), std::move(special), std::move(roles)},
      std::move(merges)));
}

CharBpeTokenizer::CharBpeTokenizer(Tables tables, MergeTable merges)
    : Tokenizer(std::move(tables)),
      merges_(std::move(merges)),
      byte_ids_(ByteTokenIds(vocab_)) {
  right_filter_.Reset(merges_.n_slots() / 2);
  merges_.ForEach([this](int32_t left, int32_t right) {
    IndexMerge(vocab_.Text(left), vocab_.Text(right));
  });
  // A character that is in some token takes part in it or becomes byte tokens,
  // so only bytes without one may be dropped. Text may spell U+2581 itself, so
  // a token may stand for as many bytes as it is stored in.
  SetSpans(
      [this](int32_t id) {
        return static_cast<int64_t>(vocab_.Text(id).size());
      },
      [this](size_t byte) { return byte_ids_[byte] >= 0; });
}

void CharBpeTokenizer::IndexMerge(absl::string_view left,
                                  absl::string_view right) {
  if (absl::StartsWith(right, kSpaceMark)) {
    joins_mark_.set(static_cast<unsigned char>(left.back()));
  } else {
    joined_.Add(left.back(), right.front());
  }
  if (right.size() < 2) return;
  right_lengths_.Add(right);
  right_filter_.Add(HashEnds(right));
}

bool CharBpeTokenizer::MayJoin(absl::string_view text, size_t at) const {
  if (text.substr(at, kSpaceMark.size()) == kSpaceMark) {
    return joins_mark_[static_cast<unsigned char>(text[at - 1])];
  }
  return joined_.Has(text[at - 1], text[at]);
}

int32_t CharBpeTokenizer::FindMergeable(absl::string_view text) const {
  const int32_t id = vocab_.Find(text);
  return id >= 0 && !vocab_.IsControl(id) ? id : -1;
}

class CharBpeTokenizer::Rules {
 public:
  explicit Rules(const CharBpeTokenizer& tokenizer) : tokenizer_(tokenizer) {}

  MergeSymbol First(absl::string_view text, size_t begin) const {
    const absl::string_view c = text.substr(begin, CharBytes(text[begin]));
    return {static_cast<uint32_t>(begin), static_cast<uint32_t>(c.size()),
            tokenizer_.FindMergeable(c)};
  }

  std::optional<MergeRule> Find(absl::string_view, const MergeSymbol& left,
                                const MergeSymbol& right) const {
    return Find(left.id, right.id);
  }

  void ListAcross(absl::string_view text, const MergeSymbol& symbol,
                  std::vector<AcrossRule>& out) const {
    out.clear();
    if (symbol.id < 0) return;
    const absl::string_view rest =
        text.substr(size_t{symbol.begin} + symbol.bytes);
    if (rest.empty()) return;
    const size_t longest =
        rest.size() < 2 ? 0 : tokenizer_.right_lengths_.Most(rest);
    const size_t most = std::min(rest.size(), std::max<size_t>(longest, 1));
    size_t bytes = 0;
    while (bytes < most) {
      // Ill-formed text may end within a character.
      bytes = std::min(bytes + CharBytes(rest[bytes]), rest.size());
      const absl::string_view right = rest.substr(0, bytes);
      if (bytes > 1 && !tokenizer_.right_filter_.MayHave(HashEnds(right))) {
        continue;
      }
      const auto rule = Find(symbol.id, tokenizer_.vocab_.Find(right));
      if (rule) out.push_back({rule->rank, bytes});
    }
  }

 private:
  // User text must not become a control token by merging.
  std::optional<MergeRule> Find(int32_t left, int32_t right) const {
    if (left < 0 || right < 0) return std::nullopt;
    const std::optional<MergeRule> rule = tokenizer_.merges_.Find(left, right);
    if (!rule || tokenizer_.vocab_.IsControl(rule->id)) return std::nullopt;
    return rule;
  }

  const CharBpeTokenizer& tokenizer_;
};

struct CharBpeTokenizer::Scratch {
  Scratch(const CharBpeTokenizer& tokenizer, size_t text_bytes,
          StopCounter& stop_check)
      : cache(text_bytes), rules(tokenizer), stop(stop_check) {}

  PieceCache cache;
  Rules rules;
  TextMerger merger;
  std::string marked;
  StopCounter& stop;
};

absl::Status CharBpeTokenizer::EncodeTo(absl::string_view text,
                                        bool parse_special, StopCounter& stop,
                                        std::vector<int32_t>& ids) const {
  Scratch scratch(*this, text.size(), stop);
  ASSIGN_OR_RETURN(const std::vector<TextFragment> fragments,
                   special_.Split(vocab_, text, parse_special, stop));
  for (const TextFragment& fragment : fragments) {
    if (fragment.id != TextFragment::kRaw) {
      ids.push_back(fragment.id);
      continue;
    }
    RETURN_IF_ERROR(MarkSpaces(text.substr(fragment.begin, fragment.bytes),
                               /*with_space_prefix=*/false, stop,
                               scratch.marked));
    absl::string_view rest = scratch.marked;
    while (!rest.empty()) {
      const size_t end =
          rest[0] == '\n' ? rest.find_first_not_of('\n') : rest.find('\n');
      const absl::string_view piece = rest.substr(0, end);
      RETURN_IF_ERROR(EncodePiece(piece, scratch, ids));
      rest.remove_prefix(piece.size());
    }
  }
  return absl::OkStatus();
}

absl::Status CharBpeTokenizer::EncodePiece(absl::string_view piece,
                                           Scratch& scratch,
                                           std::vector<int32_t>& ids) const {
  RETURN_IF_ERROR(scratch.stop.Spend(static_cast<int64_t>(piece.size())));
  if (piece[0] == '\n' &&
      static_cast<int64_t>(piece.size()) <= vocab_.longest_token_bytes()) {
    const int32_t id = FindMergeable(piece);
    if (id >= 0) {
      ids.push_back(id);
      return absl::OkStatus();
    }
  }
  size_t begin = 0;
  for (size_t i = CharBytes(piece[0]); i < piece.size();
       i += CharBytes(piece[i])) {
    if (MayJoin(piece, i)) continue;
    RETURN_IF_ERROR(
        EncodeFragment(piece.substr(begin, i - begin), scratch, ids));
    begin = i;
  }
  return EncodeFragment(piece.substr(begin), scratch, ids);
}

absl::Status CharBpeTokenizer::EncodeFragment(absl::string_view fragment,
                                              Scratch& scratch,
                                              std::vector<int32_t>& ids) const {
  const auto append = [&](const MergeSymbol& symbol) {
    if (symbol.id >= 0) {
      ids.push_back(symbol.id);
    } else {
      AppendAsBytes(fragment.substr(symbol.begin, symbol.bytes), ids);
    }
  };
  return scratch.cache.Append(fragment, PieceCache::Kind::kPiece, ids, [&] {
    return scratch.merger.Run(fragment, scratch.rules, scratch.stop, append);
  });
}

void CharBpeTokenizer::AppendAsBytes(absl::string_view text,
                                     std::vector<int32_t>& ids) const {
  for (const char c : text) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    if (id >= 0) ids.push_back(id);
  }
}

void CharBpeTokenizer::AppendNormal(absl::string_view text,
                                    std::string& out) const {
  AppendUnmarked(text, out);
}

int64_t CharBpeTokenizer::MemoryBytes() const {
  return TableBytes() + merges_.MemoryBytes() +
         static_cast<int64_t>(sizeof(byte_ids_) + sizeof(joined_) +
                              sizeof(joins_mark_) + sizeof(right_lengths_)) +
         right_filter_.MemoryBytes();
}

}  // namespace plimsoll::worker
