// SentencePiece merging by score, one word at a time where that is exact.
#include "worker/tokenizer_spm.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

constexpr absl::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

// Bytes of the character that `lead` begins by its high bits alone, which is
// how this tokenizer cuts ill-formed text too.
size_t CharBytes(char lead) {
  constexpr uint8_t kBytes[16] = {1, 1, 1, 1, 1, 1, 1, 1,
                                  1, 1, 1, 1, 2, 2, 3, 4};
  return kBytes[static_cast<unsigned char>(lead) >> 4];
}

// Orders scores as ranks: the highest score has the lowest rank. Both zeros are
// the same score.
uint32_t RankOfScore(float score) {
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);
  const uint32_t sign = uint32_t{1} << 31;
  const uint32_t ascending = (bits & sign) != 0 ? ~bits : bits | sign;
  return ~ascending;
}

std::string WithSpaceMarks(absl::string_view text, bool with_space_prefix) {
  const auto n_spaces =
      static_cast<size_t>(std::count(text.begin(), text.end(), ' '));
  std::string marked;
  marked.reserve(text.size() + (kSpaceMark.size() - 1) * (n_spaces + 1) + 1);
  if (with_space_prefix) marked.append(kSpaceMark.data(), kSpaceMark.size());
  for (const char c : text) {
    if (c == ' ') {
      marked.append(kSpaceMark.data(), kSpaceMark.size());
    } else {
      marked.push_back(c);
    }
  }
  return marked;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> SpmTokenizer::Load(
    const planner::GgufHeader& header, planner::ByteSource& source) {
  ASSIGN_OR_RETURN(VocabTable vocab, VocabTable::Load(header, source, true));
  ASSIGN_OR_RETURN(SpecialTokens special, SpecialTokens::Build(vocab));
  const TokenRoleDefaults defaults = {
      .bos = 1, .eos = 2, .unknown = 0, .add_bos = true, .only_control = false};
  ASSIGN_OR_RETURN(TokenRoles roles, ReadTokenRoles(header, vocab, defaults));
  ASSIGN_OR_RETURN(const std::optional<bool> add_space_prefix,
                   header.Bool("tokenizer.ggml.add_space_prefix"));
  return std::unique_ptr<Tokenizer>(
      new SpmTokenizer(std::move(vocab), std::move(special), std::move(roles),
                       add_space_prefix.value_or(true)));
}

SpmTokenizer::SpmTokenizer(VocabTable vocab, SpecialTokens special,
                           TokenRoles roles, bool add_space_prefix)
    : Tokenizer(std::move(vocab), std::move(special), std::move(roles)),
      unknown_(roles_.unknown),
      add_space_prefix_(add_space_prefix) {
  strip_leading_space_ = add_space_prefix;
  // What text cannot become must not be a control token either.
  if (unknown_ && vocab_.Type(*unknown_) == TokenType::kControl) {
    unknown_.reset();
  }
  byte_ids_.fill(-1);
  for (int32_t id = 0; id < vocab_size(); ++id) {
    const absl::string_view text = vocab_.Text(id);
    if (vocab_.Type(id) == TokenType::kByte) {
      const int byte = ParseByteToken(text);
      if (byte >= 0 && byte_ids_[static_cast<size_t>(byte)] < 0) {
        byte_ids_[static_cast<size_t>(byte)] = id;
      }
    }
    size_t begin = 0;
    while (text.substr(begin, kSpaceMark.size()) == kSpaceMark) {
      begin += kSpaceMark.size();
    }
    while ((begin = text.find(kSpaceMark, begin)) != absl::string_view::npos) {
      if (begin > 0) {
        joins_space_.set(static_cast<unsigned char>(text[begin - 1]));
      }
      ++begin;
    }
  }
}

int32_t SpmTokenizer::FindMergeable(absl::string_view text) const {
  const int32_t id = vocab_.Find(text);
  return id >= 0 && !vocab_.IsControl(id) ? id : -1;
}

absl::StatusOr<std::vector<int32_t>> SpmTokenizer::Encode(
    absl::string_view text, bool parse_special) const {
  if (static_cast<int64_t>(text.size()) > kMaxTextBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a text of ", text.size(),
                                                   " bytes is longer than ",
                                                   kMaxTextBytes, " bytes"));
  }
  std::vector<int32_t> ids;
  PairMerger merger;
  bool with_space_prefix = add_space_prefix_;
  for (const TextFragment& fragment :
       special_.Split(vocab_, text, parse_special)) {
    if (fragment.id == TextFragment::kRaw) {
      EncodeRaw(text.substr(fragment.begin, fragment.bytes), with_space_prefix,
                merger, ids);
      with_space_prefix = false;
    } else {
      ids.push_back(fragment.id);
      with_space_prefix = add_space_prefix_;
    }
  }
  return ids;
}

void SpmTokenizer::EncodeRaw(absl::string_view text, bool with_space_prefix,
                             PairMerger& merger,
                             std::vector<int32_t>& ids) const {
  const std::string marked = WithSpaceMarks(text, with_space_prefix);
  const absl::string_view all = marked;
  size_t word = 0;
  bool after_mark = true;
  for (size_t i = 0; i < all.size();) {
    const absl::string_view c = all.substr(i, CharBytes(all[i]));
    const bool is_mark = c == kSpaceMark;
    if (is_mark && !after_mark &&
        !joins_space_[static_cast<unsigned char>(all[i - 1])]) {
      EncodeWord(all.substr(word, i - word), merger, ids);
      word = i;
    }
    after_mark = is_mark;
    i += c.size();
  }
  EncodeWord(all.substr(word), merger, ids);
}

void SpmTokenizer::EncodeWord(absl::string_view text, PairMerger& merger,
                              std::vector<int32_t>& ids) const {
  merger.symbols.clear();
  for (size_t i = 0; i < text.size();) {
    const absl::string_view c = text.substr(i, CharBytes(text[i]));
    merger.symbols.push_back({static_cast<uint32_t>(i),
                              static_cast<uint32_t>(c.size()),
                              FindMergeable(c)});
    i += c.size();
  }
  merger.Run(
      [this, text](const MergeSymbol& left,
                   const MergeSymbol& right) -> std::optional<MergeRule> {
        const size_t bytes = size_t{left.bytes} + right.bytes;
        if (static_cast<int64_t>(bytes) > vocab_.longest_token_bytes()) {
          return std::nullopt;
        }
        const int32_t id = FindMergeable(text.substr(left.begin, bytes));
        if (id < 0) return std::nullopt;
        return MergeRule{RankOfScore(vocab_.Score(id)), id};
      });
  for (const MergeSymbol& symbol : merger.symbols) {
    if (symbol.bytes == 0) continue;
    if (symbol.id >= 0) {
      ids.push_back(symbol.id);
    } else {
      AppendAsBytes(text.substr(symbol.begin, symbol.bytes), ids);
    }
  }
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
  for (size_t i = 0; i < text.size();) {
    if (text.substr(i, kSpaceMark.size()) == kSpaceMark) {
      out.push_back(' ');
      i += kSpaceMark.size();
    } else {
      out.push_back(text[i++]);
    }
  }
}

int64_t SpmTokenizer::MemoryBytes() const {
  return TableBytes() +
         static_cast<int64_t>(sizeof(byte_ids_) + sizeof(joins_space_));
}

}  // namespace plimsoll::worker
