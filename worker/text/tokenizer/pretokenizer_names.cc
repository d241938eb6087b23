#include "worker/text/tokenizer/pretokenizer_names.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace plimsoll::worker {

namespace {

// The published expressions, as files spell them. Each is one string, so that a
// file's can be compared with it.
constexpr absl::string_view kLlama3Spelling =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Tiktoken and Phi 4 spell it with possessive quantifiers.
constexpr absl::string_view kCl100kSpelling =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr absl::string_view kQwen2Spelling =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr absl::string_view kQwen35Spelling =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr absl::string_view kGpt4oSpelling =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr absl::string_view kTekkenSpelling =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Spelling {
  absl::string_view expressions[2];  // the second may be empty
  bool whole_pieces_first;
  absl::string_view name;
};

constexpr Spelling kSpellings[] = {
    {{kGpt2Expression, {}}, false, "gpt-2"},
    {{kDigitExpression, kGpt2Expression}, false, "smollm"},
    {{kLlama3Spelling, {}}, true, "llama-bpe"},
    {{kLlama3Spelling, {}}, false, "dbrx"},
    {{kCl100kSpelling, {}}, true, "llama-bpe"},
    {{kCl100kSpelling, {}}, false, "dbrx"},
    {{kQwen2Spelling, {}}, false, "qwen2"},
    {{kQwen35Spelling, {}}, false, "qwen35"},
    {{kGpt4oSpelling, {}}, false, "gpt-4o"},
    // GPT-4o's merges make every token that is a whole piece.
    {{kGpt4oSpelling, {}}, true, "gpt-4o"},
    {{kTekkenSpelling, {}}, true, "tekken"},
};

bool IsSpelledLike(const Spelling& spelling,
                   std::span<const std::string> expressions) {
  const size_t n = spelling.expressions[1].empty() ? 1 : 2;
  return std::equal(expressions.begin(), expressions.end(),
                    spelling.expressions, spelling.expressions + n);
}

}  // namespace

absl::StatusOr<absl::string_view> NameOfPreTokenizer(
    std::span<const std::string> expressions, bool whole_pieces_first) {
  for (const Spelling& spelling : kSpellings) {
    if (spelling.whole_pieces_first == whole_pieces_first &&
        IsSpelledLike(spelling, expressions)) {
      return spelling.name;
    }
  }
  return absl::UnimplementedError(absl::StrCat(
      "text is cut by \"", absl::StrJoin(expressions, "\", then by \""), "\"",
      whole_pieces_first ? ", and whole pieces come first" : "",
      ", which no known pre-tokenizer does in this spelling"));
}

}  // namespace plimsoll::worker
