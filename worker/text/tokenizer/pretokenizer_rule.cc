// The known pre-tokenizers. Their expressions are those of the models' own
// tokenizers; with more than one, each cuts what the one before it left.
#include "worker/text/tokenizer/pretokenizer_rule.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace plimsoll::worker {
namespace {

using Rule = PreTokenizerRule;
using Scanner = PreTokenizerRule::Scanner;
using Endings = PreTokenizerRule::Endings;

constexpr absl::string_view kLineEnds = "\r\n";

// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|
// \s+(?!\S)|\s+`
constexpr Rule kGpt2 = {.alphabet = Alphabet::kLetters,
                        .scanner = Scanner::kGpt2};
// `\p{N}`, then GPT-2's.
constexpr Rule kEachDigitGpt2 = {.alphabet = Alphabet::kCutNumbers,
                                 .scanner = Scanner::kGpt2,
                                 .max_digits = 1};
// ``[\p{P}$+<=>^~|`]+``, then GPT-2's, then `[0-9][0-9][0-9]`.
constexpr Rule kFalcon = {.alphabet = Alphabet::kCutPunctuation,
                          .scanner = Scanner::kGpt2,
                          .cuts_ascii_digits = true};
// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
constexpr Rule kLlama3 = {.alphabet = Alphabet::kLetters,
                          .scanner = Scanner::kWords,
                          .max_digits = 3,
                          .after_signs = kLineEnds,
                          .endings = Endings::kCutOff};
// Llama 3's with `\p{N}`.
constexpr Rule kQwen2 = {.alphabet = Alphabet::kLetters,
                         .scanner = Scanner::kWords,
                         .max_digits = 1,
                         .after_signs = kLineEnds,
                         .endings = Endings::kCutOff};
// Qwen 2's with `[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+` and
// ` ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*`.
constexpr Rule kQwen35 = {.alphabet = Alphabet::kLettersAndMarks,
                          .scanner = Scanner::kWords,
                          .max_digits = 1,
                          .after_signs = kLineEnds,
                          .endings = Endings::kCutOff};
// Qwen 2's with ` ?[^\s\p{L}\p{N}]+`.
constexpr Rule kSeedCoder = {.alphabet = Alphabet::kLetters,
                             .scanner = Scanner::kWords,
                             .max_digits = 1,
                             .endings = Endings::kCutOff};
// Qwen 2's without the endings of words.
constexpr Rule kUfakZeka = {.alphabet = Alphabet::kLetters,
                            .scanner = Scanner::kWords,
                            .max_digits = 1,
                            .after_signs = kLineEnds};
// `[^\n]+|[\n]+`, then Qwen 2's.
constexpr Rule kLaguna = {.alphabet = Alphabet::kCutLines,
                          .scanner = Scanner::kWords,
                          .max_digits = 1,
                          .after_signs = "\r",
                          .endings = Endings::kCutOff};
// `\p{N}{1,3}`, then Llama 3's with `\p{N}+`.
constexpr Rule kMiniCpm5 = {.alphabet = Alphabet::kCutNumbers,
                            .scanner = Scanner::kWords,
                            .max_digits = 3,
                            .after_signs = kLineEnds,
                            .endings = Endings::kCutOff};
// WORD(?i:'s|'t|'re|'ve|'m|'ll|'d)? with each of the two expressions for WORD
// `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
// `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`
// then `|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
constexpr Rule kGpt4o = {.alphabet = Alphabet::kCases,
                         .scanner = Scanner::kWords,
                         .max_digits = 3,
                         .after_signs = "\r\n/",
                         .endings = Endings::kJoined};
// GPT-4o's with `\p{N}` and without the endings of words.
constexpr Rule kTekken = {.alphabet = Alphabet::kCases,
                          .scanner = Scanner::kWords,
                          .max_digits = 1,
                          .after_signs = "\r\n/"};
// `\p{Han}+|`, then GPT-4o's with words without Han and `[\r\n]*` after signs.
constexpr Rule kKimiK2 = {.alphabet = Alphabet::kCasesAndHan,
                          .scanner = Scanner::kWords,
                          .max_digits = 3,
                          .after_signs = kLineEnds,
                          .endings = Endings::kJoined};
// `\p{N}{1,3}`, then `[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+`,
// then `PUNCTUATION[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
// ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, in which PUNCTUATION is one
// of ASCII's 32 characters of punctuation.
constexpr Rule kDeepSeek3 = {
    .alphabet = Alphabet::kDeepSeek3,
    .scanner = Scanner::kDeepSeek3,
    .max_digits = 3,
    .after_signs = kLineEnds,
    .ends = CharClasses::kCut | CharClasses::kEastAsian};
// `[\r\n]`, then `\s?\p{L}+`, then `\s?\p{P}+`, then
// `[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+`, then `\p{N}`.
constexpr Rule kDeepSeekCoder = {.alphabet = Alphabet::kDeepSeekCoder,
                                 .scanner = Scanner::kRuns,
                                 .max_digits = 1};
// `[\r\n]`, then `\s?LETTER+`, then `\s?SIGN+`, then `\s+$`, then
// `[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+`, then `\p{N}+`. The
// alphabet spells LETTER and SIGN out.
constexpr Rule kDeepSeekLlm = {.alphabet = Alphabet::kDeepSeekLlm,
                               .scanner = Scanner::kRuns,
                               .cuts_last_spaces = true};
// ` ?[^(\s|.,!?)...]+`; the alphabet spells it out.
constexpr Rule kBloom = {.alphabet = Alphabet::kBloom,
                         .scanner = Scanner::kRuns};
// Bloom's, then `\p{N}`.
constexpr Rule kViking = {
    .alphabet = Alphabet::kViking, .scanner = Scanner::kRuns, .max_digits = 1};

constexpr PreTokenizerFamily kFamilies[] = {
    {"a.x-4.0", kGpt2},
    {"bailingmoe", kQwen2},
    {"bailingmoe2", kQwen2},
    {"bloom", kBloom},
    {"chatglm-bpe", kLlama3},
    {"codeshell", kEachDigitGpt2},
    {"command-r", kEachDigitGpt2},
    {"dbrx", kLlama3},
    {"deepseek-coder", kDeepSeekCoder},
    {"deepseek-llm", kDeepSeekLlm},
    {"deepseek-r1-qwen", kQwen2},
    {"deepseek-v3", kDeepSeek3},
    {"exaone", kEachDigitGpt2},
    {"exaone4", kGpt2},
    {"f2llmv2", kQwen2},
    {"falcon", kFalcon},
    {"falcon-h1", kLlama3, true, true},
    {"falcon3", kLlama3, true, true},
    {"gigachat", kGpt2},
    {"glm4", kLlama3, true},
    {"glm5", kLlama3, true},
    {"gpt-2", kGpt2},
    {"gpt-4o", kGpt4o},
    {"gpt3-finnish", kBloom},
    {"granite-docling", kGpt2},
    {"grok-2", kQwen2},
    {"hunyuan", kQwen2},
    {"hunyuan-dense", kDeepSeek3},
    {"hy_v4", kDeepSeek3},
    {"jais", kGpt2},
    {"joyai-llm", kDeepSeek3},
    {"kanana2", kGpt4o},
    {"kimi-k2", kKimiK2},
    {"kormo", kQwen2},
    {"laguna", kLaguna},
    {"lfm2", kLlama3, true, true},
    {"llada-moe", kQwen2},
    {"llama-bpe", kLlama3, true, true},
    {"llama-v3", kLlama3, true, true},
    {"llama3", kLlama3, true, true},
    {"llama4", kGpt4o},
    {"megrez", kQwen2},
    {"mellum", kGpt2},
    {"mellum2", kEachDigitGpt2},
    {"midm-2.0", kLlama3, true, true},
    {"minerva-7b", kEachDigitGpt2},
    {"minicpm5", kMiniCpm5, true},
    {"minimax-m2", kGpt4o},
    {"modern-bert", kGpt2},
    {"mpt", kGpt2},
    {"olmo", kGpt2},
    {"phi-2", kGpt2},
    {"pixtral", kLlama3, true, true},
    {"poro-chat", kBloom},
    {"qwen2", kQwen2},
    {"qwen35", kQwen35},
    {"refact", kEachDigitGpt2},
    {"seed-coder", kSeedCoder},
    {"smaug-bpe", kLlama3},
    {"smollm", kEachDigitGpt2},
    {"solar-open", kQwen2},
    {"stablelm2", kQwen2},
    {"starcoder", kEachDigitGpt2},
    {"talkie", kGpt4o},
    {"tekken", kTekken, true, true},
    {"trillion", kGpt2},
    {"ufakzeka", kUfakZeka},
    {"viking", kViking},
};

}  // namespace

absl::StatusOr<const PreTokenizerFamily*> FindPreTokenizer(
    absl::string_view name) {
  std::string known;
  for (const PreTokenizerFamily& family : kFamilies) {
    if (family.name == name) return &family;
    absl::StrAppend(&known, known.empty() ? "" : ", ", family.name);
  }
  return absl::UnimplementedError(absl::StrCat(
      "tokenizer.ggml.pre is '", name,
      "', which this build does not know; it knows ", known,
      ". Text that another rule cuts becomes other tokens than those that the "
      "model was trained on, so none is guessed. If the model's rule is one of "
      "these, write its name into the file"));
}

}  // namespace plimsoll::worker
