// Pre-tokenizers as lists of regular expressions, run by PCRE2.
#include "worker/pretokenizer.h"

#include "worker/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

// Unicode's White_Space, spelled out: PCRE2's own \s adds U+180E, which lost
// that property in Unicode 6.3. For use inside a class.
#define PLIMSOLL_SPACE                                    \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-" \
  "\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
constexpr const char* kGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" PLIMSOLL_SPACE
    "\\p{L}\\p{N}]+|[" PLIMSOLL_SPACE "]+(?![^" PLIMSOLL_SPACE
    "])|[" PLIMSOLL_SPACE "]+";
constexpr const char* kEachDigit = "\\p{N}";

// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, with \p{N}{1,N} of
// one or three digits. Contractions are ASCII in either case, spelled out:
// PCRE2's (?i) would take U+017F for an s.
#define PLIMSOLL_LLAMA_BPE(digits)                                          \
  "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\\r\\n\\p{L}\\p{N}]?"       \
  "\\p{L}+|\\p{N}" digits "| ?[^" PLIMSOLL_SPACE                            \
  "\\p{L}\\p{N}]+[\\r\\n]*|[" PLIMSOLL_SPACE "]*[\\r\\n]+|[" PLIMSOLL_SPACE \
  "]+(?![^" PLIMSOLL_SPACE "])|[" PLIMSOLL_SPACE "]+"
constexpr const char* kLlamaBpe = PLIMSOLL_LLAMA_BPE("{1,3}");
constexpr const char* kQwen2 = PLIMSOLL_LLAMA_BPE("");

// A name of tokenizer.ggml.pre and what comes with it. Source: MODELS.md 4.4.
struct Family {
  absl::string_view name;
  const char* patterns[2];  // each splits what the one before it left
  PreTokenizer::Traits traits;
};
constexpr PreTokenizer::Traits kPlain = {false, false};
constexpr PreTokenizer::Traits kLlama3 = {true, true};
constexpr Family kFamilies[] = {
    {"gpt-2", {kGpt2}, kPlain},
    {"smollm", {kEachDigit, kGpt2}, kPlain},
    {"llama-bpe", {kLlamaBpe}, kLlama3},
    {"qwen2", {kQwen2}, kPlain},
    // Other names of the same.
    {"llama3", {kLlamaBpe}, kLlama3},
    {"llama-v3", {kLlamaBpe}, kLlama3},
    {"falcon3", {kLlamaBpe}, kLlama3},
    {"dbrx", {kLlamaBpe}, kPlain},
    {"smaug-bpe", {kLlamaBpe}, kPlain},
    {"deepseek-r1-qwen", {kQwen2}, kPlain},
    {"stablelm2", {kQwen2}, kPlain},
    {"megrez", {kQwen2}, kPlain},
    {"phi-2", {kGpt2}, kPlain},
    {"mpt", {kGpt2}, kPlain},
    {"olmo", {kGpt2}, kPlain},
    {"jais", {kGpt2}, kPlain},
    {"exaone4", {kGpt2}, kPlain},
    {"modern-bert", {kGpt2}, kPlain},
    {"starcoder", {kEachDigit, kGpt2}, kPlain},
    {"refact", {kEachDigit, kGpt2}, kPlain},
    {"command-r", {kEachDigit, kGpt2}, kPlain},
    {"codeshell", {kEachDigit, kGpt2}, kPlain},
    {"exaone", {kEachDigit, kGpt2}, kPlain},
};

// Above what these expressions need for any text that a tokenizer takes: they
// go back over a run of white space once.
constexpr uint32_t kMatchLimit = 1 << 30;

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDataDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct ContextDeleter {
  void operator()(pcre2_match_context* context) const {
    pcre2_match_context_free(context);
  }
};
using Code = std::unique_ptr<pcre2_code, CodeDeleter>;
using MatchData = std::unique_ptr<pcre2_match_data, MatchDataDeleter>;
using Context = std::unique_ptr<pcre2_match_context, ContextDeleter>;

absl::StatusOr<Code> Compile(absl::string_view pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                          pattern.size(), PCRE2_UTF | PCRE2_UCP, &error,
                          &offset, nullptr));
  if (code == nullptr) {
    return absl::InternalError(absl::StrCat(
        "pre-tokenizer expression: PCRE2 error ", error, " at ", offset));
  }
  // Without a compiler for this machine the interpreter does the same.
  (void)pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

// The longest front of `text` that is well-formed UTF-8.
absl::string_view WellFormedFront(absl::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const Utf8Front front = ReadUtf8Front(text.substr(end));
    if (front.kind != Utf8Kind::kWhole) break;
    end += static_cast<size_t>(front.bytes);
  }
  return text.substr(0, end);
}

// The longest front of `text` that has no well-formed code point.
absl::string_view IllFormedFront(absl::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const Utf8Front front = ReadUtf8Front(text.substr(end));
    if (front.kind == Utf8Kind::kWhole) break;
    end += static_cast<size_t>(front.bytes);
  }
  return text.substr(0, end);
}

}  // namespace

class PreTokenizer::Impl {
 public:
  using Visit = std::function<void(absl::string_view)>;

  absl::Status Init(absl::Span<const char* const> patterns) {
    context_.reset(pcre2_match_context_create(nullptr));
    if (context_ == nullptr) {
      return absl::ResourceExhaustedError("no memory for PCRE2");
    }
    pcre2_set_match_limit(context_.get(), kMatchLimit);
    for (const char* pattern : patterns) {
      if (pattern == nullptr) break;
      absl::StatusOr<Code> code = Compile(pattern);
      if (!code.ok()) return code.status();
      codes_.push_back(*std::move(code));
    }
    return absl::OkStatus();
  }

  // Splits well-formed `text` by the expressions from number `pass` on: each
  // match and each gap between matches goes to the next one.
  absl::Status Split(absl::string_view text, size_t pass,
                     pcre2_match_data* match, const Visit& visit) const {
    if (text.empty()) return absl::OkStatus();
    if (pass == codes_.size()) {
      visit(text);
      return absl::OkStatus();
    }
    size_t gap = 0;
    while (gap < text.size()) {
      const int count = Match(*codes_[pass], text, gap, match);
      if (count == PCRE2_ERROR_NOMATCH) break;
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match);
      if (count < 0 || ends[1] <= ends[0]) {
        return absl::InternalError(absl::StrCat("pre-tokenizer: PCRE2 gave ",
                                                count, " at byte ", gap));
      }
      const size_t begin = ends[0];
      const size_t end = ends[1];
      absl::Status status =
          Split(text.substr(gap, begin - gap), pass + 1, match, visit);
      if (!status.ok()) return status;
      status = Split(text.substr(begin, end - begin), pass + 1, match, visit);
      if (!status.ok()) return status;
      gap = end;
    }
    return Split(text.substr(gap), pass + 1, match, visit);
  }

  int64_t MemoryBytes() const {
    size_t bytes = sizeof(*this) + codes_.capacity() * sizeof(Code);
    for (const Code& code : codes_) {
      size_t part = 0;
      if (pcre2_pattern_info(code.get(), PCRE2_INFO_SIZE, &part) == 0) {
        bytes += part;
      }
      if (pcre2_pattern_info(code.get(), PCRE2_INFO_JITSIZE, &part) == 0) {
        bytes += part;
      }
    }
    return static_cast<int64_t>(bytes);
  }

 private:
  int Match(const pcre2_code& code, absl::string_view text, size_t begin,
            pcre2_match_data* match) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    // Checking all of the text at every match would take quadratic time.
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int count = pcre2_match(&code, subject, text.size(), begin, options, match,
                            context_.get());
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
      options |= PCRE2_NO_JIT;
      count = pcre2_match(&code, subject, text.size(), begin, options, match,
                          context_.get());
    }
    return count;
  }

  Context context_;
  std::vector<Code> codes_;
};

PreTokenizer::PreTokenizer(std::unique_ptr<const Impl> impl,
                           const Traits& traits)
    : impl_(std::move(impl)), traits_(traits) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

absl::StatusOr<PreTokenizer> PreTokenizer::Create(absl::string_view name) {
  for (const Family& family : kFamilies) {
    if (family.name != name) continue;
    auto impl = std::make_unique<Impl>();
    RETURN_IF_ERROR(impl->Init(family.patterns));
    return PreTokenizer(std::move(impl), family.traits);
  }
  return absl::UnimplementedError(absl::StrCat(
      "tokenizer.ggml.pre is '", name,
      "'; the pre-tokenizers known are gpt-2, smollm, llama-bpe, qwen2 and "
      "other names of these"));
}

absl::Status PreTokenizer::Split(
    absl::string_view text,
    const std::function<void(absl::string_view)>& visit) const {
  // Only the ends of a whole match are read.
  const MatchData match(pcre2_match_data_create(1, nullptr));
  if (match == nullptr) {
    return absl::ResourceExhaustedError("no memory for PCRE2");
  }
  while (!text.empty()) {
    const absl::string_view good = WellFormedFront(text);
    absl::Status status = impl_->Split(good, 0, match.get(), visit);
    if (!status.ok()) return status;
    text.remove_prefix(good.size());
    const absl::string_view bad = IllFormedFront(text);
    if (!bad.empty()) visit(bad);
    text.remove_prefix(bad.size());
  }
  return absl::OkStatus();
}

int64_t PreTokenizer::MemoryBytes() const {
  return static_cast<int64_t>(sizeof(*this)) + impl_->MemoryBytes();
}

}  // namespace plimsoll::worker
