// Special tokens inside text, taken longest first over the whole text.
#include "worker/text/tokenizer/special_tokens.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

// These texts end generation if their token is a control token. In Gemma 3
// `</s>` is an ordinary HTML tag, so the type decides.
// After these two tokens, FunctionGemma's and Gemma 4's, a tool's response is
// expected. Files have them as control or as user-defined tokens.
constexpr absl::string_view kToolWaits[] = {"<start_function_response>",
                                            "<|tool_response>"};
constexpr absl::string_view kEndTexts[] = {
    "<end_of_turn>", "<|im_end|>",    "<|eot_id|>",
    "<|eom_id|>",    "<|end|>",       "<|end_of_text|>",
    "<|endoftext|>", "<|return|>",    "<|call|>",
    "<EOT>",         "<eos>",         "<turn|>",
    kToolWaits[1],   "</s>",          kToolWaits[0],
    "<|fim_pad|>",   "<|repo_name|>", "<|file_sep|>",
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

// The token that has a role if the file names none for it.
struct DefaultToken {
  int32_t id;         // -1: none
  bool only_control;  // no token of another type has the role
};

absl::StatusOr<std::optional<int32_t>> ReadIdOr(
    const planner::GgufHeader& header, absl::string_view key,
    const VocabTable& vocab, const DefaultToken& fallback) {
  ASSIGN_OR_RETURN(std::optional<int32_t> id, ReadId(header, key, vocab));
  if (!id && fallback.id >= 0 && fallback.id < vocab.size() &&
      (!fallback.only_control ||
       vocab.Type(fallback.id) == TokenType::kControl)) {
    id = fallback.id;
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
    const bool may_be_text = absl::c_linear_search(kToolWaits, text) &&
                             type == TokenType::kUserDefined;
    if (type == TokenType::kControl || may_be_text) ends.push_back(id);
  }
}

}  // namespace

// One search: the text, what is taken of it, and the candidates.
struct SpecialTokens::Search {
  struct Candidate {
    uint32_t begin;
    int32_t at;  // in `sorted_`
  };
  absl::string_view text;
  bool parse_special;
  StopCounter& stop;
  std::vector<bool> taken;  // [bytes of text]
  // Lists by length: for every place where candidates begin, the longest one
  // that may still be taken.
  std::array<std::vector<Candidate>, kMaxSpecialBytes + 1> candidates = {};
  std::vector<TextFragment> matches = {};  // in the order taken
};

absl::StatusOr<SpecialTokens> SpecialTokens::Build(const VocabTable& vocab) {
  SpecialTokens special;
  for (int32_t id = 0; id < vocab.size(); ++id) {
    const TokenType type = vocab.Type(id);
    const absl::string_view text = vocab.Text(id);
    if (!IsSpecial(type) || text.empty()) continue;
    if (static_cast<int64_t>(text.size()) > kMaxSpecialBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.ggml.tokens[", id, "] is a special token of ",
                       text.size(), " bytes, more than ", kMaxSpecialBytes));
    }
    // Among tokens with equal text the first counts.
    if (vocab.Find(text) != id) continue;
    special.AddPrefix(text, type == TokenType::kUserDefined);
    special.sorted_.push_back(id);
  }
  special.Sort(vocab);
  special.MarkOverlaps(vocab);
  return special;
}

void SpecialTokens::Sort(const VocabTable& vocab) {
  sorted_.shrink_to_fit();
  std::sort(sorted_.begin(), sorted_.end(), [&](int32_t a, int32_t b) {
    return vocab.Text(a) < vocab.Text(b);
  });
  beginnings_.assign(sorted_.size(), kNone);
  std::array<int32_t, 256> n_with = {};
  for (size_t i = 0; i < sorted_.size(); ++i) {
    const absl::string_view text = vocab.Text(sorted_[i]);
    ++n_with[ByteAt(text, 0)];
    // The token begins with the token before it, or with a beginning of that
    // one.
    int32_t before = static_cast<int32_t>(i) - 1;
    while (before != kNone) {
      const auto at = static_cast<size_t>(before);
      if (absl::StartsWith(text, vocab.Text(sorted_[at]))) break;
      before = beginnings_[at];
    }
    beginnings_[i] = before;
  }
  for (size_t b = 0; b < n_with.size(); ++b) {
    first_byte_[b + 1] = first_byte_[b] + n_with[b];
  }
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
  constexpr int32_t kSeveral = -2;
  // The only token of a length with this first byte, or kSeveral.
  std::vector<std::array<int32_t, 256>> owner(kMaxSpecialBytes + 1);
  for (std::array<int32_t, 256>& row : owner) row.fill(kNone);
  for (const int32_t id : sorted_) {
    const absl::string_view text = vocab.Text(id);
    int32_t& first = owner[text.size()][ByteAt(text, 0)];
    first = first == kNone ? id : kSeveral;
  }
  for (const int32_t id : sorted_) {
    const absl::string_view text = vocab.Text(id);
    for (size_t i = 1; i < text.size(); ++i) {
      const int32_t first = owner[text.size()][ByteAt(text, i)];
      if (first != kNone && first != id) may_overlap_.set(text.size());
    }
  }
}

int32_t SpecialTokens::Shorten(const VocabTable& vocab, int32_t at, size_t most,
                               bool parse_special) const {
  while (at != kNone) {
    const int32_t id = sorted_[static_cast<size_t>(at)];
    const bool is_allowed =
        parse_special || vocab.Type(id) == TokenType::kUserDefined;
    if (is_allowed && vocab.Text(id).size() <= most) return at;
    at = beginnings_[static_cast<size_t>(at)];
  }
  return kNone;
}

int32_t SpecialTokens::Longest(const VocabTable& vocab, absl::string_view text,
                               bool parse_special) const {
  const size_t lead = ByteAt(text, 0);
  const auto begin = sorted_.begin() + first_byte_[lead];
  const auto end = sorted_.begin() + first_byte_[lead + 1];
  // `text` begins with the last token that does not come after it, or with a
  // beginning of that token.
  const auto after = std::upper_bound(
      begin, end, text, [&](absl::string_view wanted, int32_t id) {
        return wanted < vocab.Text(id);
      });
  if (after == begin) return kNone;
  const absl::string_view last = vocab.Text(*(after - 1));
  const auto differ =
      std::mismatch(last.begin(), last.end(), text.begin(), text.end());
  return Shorten(vocab, static_cast<int32_t>(after - 1 - sorted_.begin()),
                 static_cast<size_t>(differ.first - last.begin()),
                 parse_special);
}

absl::Status SpecialTokens::TakeLength(const VocabTable& vocab, size_t bytes,
                                       Search& search) const {
  using Candidate = Search::Candidate;
  std::vector<Candidate> candidates = std::move(search.candidates[bytes]);
  const auto is_left = [](const Candidate& a, const Candidate& b) {
    return a.begin < b.begin;
  };
  if (!std::is_sorted(candidates.begin(), candidates.end(), is_left)) {
    std::sort(candidates.begin(), candidates.end(), is_left);
  }
  if (may_overlap_[bytes]) {
    std::stable_sort(candidates.begin(), candidates.end(),
                     [this](const Candidate& a, const Candidate& b) {
                       return sorted_[static_cast<size_t>(a.at)] <
                              sorted_[static_cast<size_t>(b.at)];
                     });
  }
  for (const Candidate& one : candidates) {
    RETURN_IF_ERROR(search.stop.Spend(1));
    // Texts that were taken before are at least as long, so they overlap this
    // one only if they cover its first or its last byte.
    if (search.taken[one.begin]) continue;
    if (!search.taken[one.begin + bytes - 1]) {
      std::fill_n(search.taken.begin() + one.begin, bytes, true);
      search.matches.push_back({one.begin, static_cast<uint32_t>(bytes),
                                sorted_[static_cast<size_t>(one.at)]});
      continue;
    }
    const int32_t at = Shorten(vocab, one.at, bytes - 1, search.parse_special);
    if (at == kNone) continue;
    const size_t shorter = vocab.Text(sorted_[static_cast<size_t>(at)]).size();
    search.candidates[shorter].push_back({one.begin, at});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TextFragment>> SpecialTokens::Split(
    const VocabTable& vocab, absl::string_view text, bool parse_special,
    StopCounter& stop) const {
  Search search = {text, parse_special, stop, {}};
  const std::bitset<65'536>& prefixes = prefixes_[parse_special ? 1 : 0];
  size_t asked = 0;  // checked up to here
  for (size_t i = 0; i < text.size(); ++i) {
    if (i >= asked + StopCounter::kUnits) {
      RETURN_IF_ERROR(stop.Spend(static_cast<int64_t>(i - asked)));
      asked = i;
    }
    if (!prefixes[PrefixAt(text, i)]) continue;
    RETURN_IF_ERROR(stop.Spend(1));
    const int32_t at =
        Longest(vocab, text.substr(i, kMaxSpecialBytes), parse_special);
    if (at == kNone) continue;
    const size_t bytes = vocab.Text(sorted_[static_cast<size_t>(at)]).size();
    if (search.taken.empty()) search.taken.resize(text.size());
    search.candidates[bytes].push_back({static_cast<uint32_t>(i), at});
  }
  for (size_t bytes = kMaxSpecialBytes; bytes > 0; --bytes) {
    if (search.candidates[bytes].empty()) continue;
    RETURN_IF_ERROR(TakeLength(vocab, bytes, search));
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
                              (sorted_.capacity() + beginnings_.capacity()) *
                                  sizeof(int32_t));
}

absl::StatusOr<TokenRoles> ReadTokenRoles(const planner::GgufHeader& header,
                                          const VocabTable& vocab,
                                          const TokenRoleDefaults& defaults) {
  TokenRoles roles;
  ASSIGN_OR_RETURN(roles.bos,
                   ReadIdOr(header, "tokenizer.ggml.bos_token_id", vocab,
                            {defaults.bos, defaults.only_control}));
  ASSIGN_OR_RETURN(roles.unknown,
                   ReadIdOr(header, "tokenizer.ggml.unknown_token_id", vocab,
                            {defaults.unknown, defaults.only_control}));
  ASSIGN_OR_RETURN(const std::optional<int32_t> eos,
                   ReadIdOr(header, "tokenizer.ggml.eos_token_id", vocab,
                            {defaults.eos, defaults.only_control}));
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
