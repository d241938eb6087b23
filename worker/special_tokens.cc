// Special tokens inside text, taken longest first over the whole text.
#include "worker/special_tokens.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

// Texts that end generation where their token is a control token. In Gemma 3
// `</s>` is an ordinary HTML tag, so the type decides.
// FunctionGemma's: files have it as a control or as a user-defined token.
constexpr absl::string_view kToolWait = "<start_function_response>";
constexpr absl::string_view kEndTexts[] = {
    "<end_of_turn>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|return|>",
    "<|call|>",
    "<EOT>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "</s>",
    kToolWait,
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
};

constexpr absl::string_view kEndKeys[] = {
    "tokenizer.ggml.eot_token_id",     "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id",
    "tokenizer.ggml.fim_sep_token_id",
};

bool IsSpecial(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUserDefined ||
         type == TokenType::kUnknown;
}

unsigned char ByteAt(absl::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// The index into SpecialTokens' prefix sets of the two bytes at `i`; at the end
// of the text the second counts as 0, which one-byte tokens allow.
size_t PrefixAt(absl::string_view text, size_t i) {
  const size_t second = i + 1 < text.size() ? ByteAt(text, i + 1) : 0;
  return ByteAt(text, i) * size_t{256} + second;
}

absl::StatusOr<std::optional<int32_t>> ReadId(const planner::GgufHeader& header,
                                              absl::string_view key,
                                              const VocabTable& vocab) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> id, header.Int(key));
  if (!id) return std::optional<int32_t>();
  if (*id < 0 || *id >= vocab.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        key, " is ", *id, ", outside the ", vocab.size(), " tokens"));
  }
  return std::optional<int32_t>(static_cast<int32_t>(*id));
}

absl::StatusOr<std::optional<int32_t>> ReadIdOr(
    const planner::GgufHeader& header, absl::string_view key,
    const VocabTable& vocab, int32_t fallback, bool only_control) {
  ASSIGN_OR_RETURN(std::optional<int32_t> id, ReadId(header, key, vocab));
  if (!id && fallback >= 0 && fallback < vocab.size() &&
      (!only_control || vocab.Type(fallback) == TokenType::kControl)) {
    id = fallback;
  }
  return id;
}

// Ids of the known end texts; `<|end|>` only separates channels in vocabularies
// that have `<|return|>` and `<|call|>`.
void AddEndTexts(const VocabTable& vocab, std::vector<int32_t>& ends) {
  const bool end_is_separator =
      vocab.Find("<|return|>") >= 0 && vocab.Find("<|call|>") >= 0;
  for (const absl::string_view text : kEndTexts) {
    if (end_is_separator && text == "<|end|>") continue;
    const int32_t id = vocab.Find(text);
    if (id < 0) continue;
    const TokenType type = vocab.Type(id);
    const bool may_be_text =
        text == kToolWait && type == TokenType::kUserDefined;
    if (type == TokenType::kControl || may_be_text) ends.push_back(id);
  }
}

}  // namespace

// One search: the text, what is taken of it, and where candidates may begin.
struct SpecialTokens::Search {
  absl::string_view text;
  bool parse_special;
  std::vector<uint32_t> starts;       // ascending, none of them taken
  std::vector<bool> taken;            // [bytes of text]
  std::vector<TextFragment> matches;  // in the order taken

  // The candidate of `bytes` bytes at `begin`, or -1. Everything taken so far
  // is at least as long, so it overlaps iff it covers the first or last byte.
  int32_t Candidate(const VocabTable& vocab, size_t begin, size_t bytes) const {
    if (taken[begin] || taken[begin + bytes - 1]) return -1;
    const int32_t id = vocab.Find(text.substr(begin, bytes));
    if (id < 0) return -1;
    const TokenType type = vocab.Type(id);
    if (type == TokenType::kUserDefined) return id;
    return parse_special && IsSpecial(type) ? id : -1;
  }

  void Take(uint32_t begin, uint32_t bytes, int32_t id) {
    std::fill_n(taken.begin() + begin, bytes, true);
    matches.push_back({begin, bytes, id});
  }
};

absl::StatusOr<SpecialTokens> SpecialTokens::Build(const VocabTable& vocab) {
  SpecialTokens special;
  std::array<bool, kMaxSpecialBytes + 1> has_length = {};
  for (int32_t id = 0; id < vocab.size(); ++id) {
    const TokenType type = vocab.Type(id);
    const absl::string_view text = vocab.Text(id);
    if (!IsSpecial(type) || text.empty()) continue;
    if (static_cast<int64_t>(text.size()) > kMaxSpecialBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.ggml.tokens[", id, "] is a special token of ",
                       text.size(), " bytes, more than ", kMaxSpecialBytes));
    }
    has_length[text.size()] = true;
    special.AddPrefix(text, type == TokenType::kUserDefined);
  }
  for (size_t bytes = has_length.size(); bytes-- > 1;) {
    if (has_length[bytes]) {
      special.lengths_.push_back({static_cast<uint32_t>(bytes), false, {}});
    }
  }
  special.lengths_.shrink_to_fit();
  special.MarkOverlaps(vocab);
  return special;
}

void SpecialTokens::AddPrefix(absl::string_view text, bool is_user_defined) {
  const size_t first = ByteAt(text, 0) * size_t{256};
  const size_t low = text.size() > 1 ? ByteAt(text, 1) : 0;
  const size_t high = text.size() > 1 ? low : 255;
  for (size_t second = low; second <= high; ++second) {
    prefixes_[1].set(first + second);
    if (is_user_defined) prefixes_[0].set(first + second);
  }
}

// Two different tokens of one length can overlap only if one contains the
// other's first byte after its own first: cheap to test, and true of no
// vocabulary whose special tokens are bracketed or runs of one character.
void SpecialTokens::MarkOverlaps(const VocabTable& vocab) {
  constexpr int32_t kNone = -1;
  constexpr int32_t kSeveral = -2;
  std::array<LengthClass*, kMaxSpecialBytes + 1> by_length = {};
  for (LengthClass& length : lengths_) by_length[length.bytes] = &length;
  // The only token of a length with this first byte, or kSeveral.
  std::vector<std::array<int32_t, 256>> owner(kMaxSpecialBytes + 1);
  for (std::array<int32_t, 256>& row : owner) row.fill(kNone);
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocab.size(); ++id) {
    const absl::string_view text = vocab.Text(id);
    if (!IsSpecial(vocab.Type(id)) || text.empty()) continue;
    ids.push_back(id);
    by_length[text.size()]->last_bytes.set(ByteAt(text, text.size() - 1));
    int32_t& first = owner[text.size()][ByteAt(text, 0)];
    first = first == kNone ? id : kSeveral;
  }
  for (const int32_t id : ids) {
    const absl::string_view text = vocab.Text(id);
    for (size_t i = 1; i < text.size(); ++i) {
      const int32_t first = owner[text.size()][ByteAt(text, i)];
      if (first != kNone && first != id) {
        by_length[text.size()]->may_overlap = true;
      }
    }
  }
}

void SpecialTokens::TakeLength(const VocabTable& vocab,
                               const LengthClass& length,
                               Search& search) const {
  const size_t bytes = length.bytes;
  const size_t n_before = search.matches.size();
  std::vector<TextFragment> contested;
  for (const uint32_t begin : search.starts) {
    if (begin + bytes > search.text.size()) break;
    const unsigned char last = ByteAt(search.text, begin + bytes - 1);
    if (!length.last_bytes[last]) continue;
    const int32_t id = search.Candidate(vocab, begin, bytes);
    if (id < 0) continue;
    if (length.may_overlap) {
      contested.push_back({begin, length.bytes, id});
    } else {
      search.Take(begin, length.bytes, id);
    }
  }
  std::stable_sort(
      contested.begin(), contested.end(),
      [](const TextFragment& a, const TextFragment& b) { return a.id < b.id; });
  for (const TextFragment& match : contested) {
    if (search.taken[match.begin]) continue;
    if (search.taken[match.begin + match.bytes - 1]) continue;
    search.Take(match.begin, match.bytes, match.id);
  }
  if (search.matches.size() > n_before) {
    std::erase_if(search.starts,
                  [&](uint32_t begin) { return search.taken[begin]; });
  }
}

std::vector<TextFragment> SpecialTokens::Split(const VocabTable& vocab,
                                               absl::string_view text,
                                               bool parse_special) const {
  Search search = {text, parse_special, {}, {}, {}};
  const std::bitset<65'536>& prefixes = prefixes_[parse_special ? 1 : 0];
  for (size_t i = 0; i < text.size(); ++i) {
    if (prefixes[PrefixAt(text, i)]) {
      search.starts.push_back(static_cast<uint32_t>(i));
    }
  }
  if (!search.starts.empty()) search.taken.resize(text.size());
  for (const LengthClass& length : lengths_) {
    if (search.starts.empty()) break;
    TakeLength(vocab, length, search);
  }
  std::sort(search.matches.begin(), search.matches.end(),
            [](const TextFragment& a, const TextFragment& b) {
              return a.begin < b.begin;
            });
  std::vector<TextFragment> fragments;
  fragments.reserve(2 * search.matches.size() + 1);
  uint32_t end = 0;
  for (const TextFragment& match : search.matches) {
    if (match.begin > end) {
      fragments.push_back({end, match.begin - end, TextFragment::kRaw});
    }
    fragments.push_back(match);
    end = match.begin + match.bytes;
  }
  if (end < text.size()) {
    fragments.push_back(
        {end, static_cast<uint32_t>(text.size()) - end, TextFragment::kRaw});
  }
  return fragments;
}

int64_t SpecialTokens::MemoryBytes() const {
  return static_cast<int64_t>(sizeof(*this) +
                              lengths_.capacity() * sizeof(LengthClass));
}

absl::StatusOr<TokenRoles> ReadTokenRoles(const planner::GgufHeader& header,
                                          const VocabTable& vocab,
                                          const TokenRoleDefaults& defaults) {
  TokenRoles roles;
  ASSIGN_OR_RETURN(roles.bos,
                   ReadIdOr(header, "tokenizer.ggml.bos_token_id", vocab,
                            defaults.bos, defaults.only_control));
  ASSIGN_OR_RETURN(roles.unknown,
                   ReadIdOr(header, "tokenizer.ggml.unknown_token_id", vocab,
                            defaults.unknown, defaults.only_control));
  ASSIGN_OR_RETURN(const std::optional<int32_t> eos,
                   ReadIdOr(header, "tokenizer.ggml.eos_token_id", vocab,
                            defaults.eos, defaults.only_control));
  ASSIGN_OR_RETURN(const std::optional<bool> add_bos,
                   header.Bool("tokenizer.ggml.add_bos_token"));
  roles.add_bos = add_bos.value_or(defaults.add_bos) && roles.bos.has_value();

  if (eos) roles.end_tokens.push_back(*eos);
  for (const absl::string_view key : kEndKeys) {
    ASSIGN_OR_RETURN(const std::optional<int32_t> id,
                     ReadId(header, key, vocab));
    if (id) roles.end_tokens.push_back(*id);
  }
  AddEndTexts(vocab, roles.end_tokens);
  std::sort(roles.end_tokens.begin(), roles.end_tokens.end());
  roles.end_tokens.erase(
      std::unique(roles.end_tokens.begin(), roles.end_tokens.end()),
      roles.end_tokens.end());
  return roles;
}

}  // namespace plimsoll::worker
