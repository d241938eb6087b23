#include "worker/text/tokenizer/char_classes.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "worker/text/code_points.h"

namespace plimsoll::worker {
namespace {

// PCRE2's own \s adds U+180E, which lost that property in Unicode 6.3.
constexpr CodePointRange kWhiteSpace[] = {
    {0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
    {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
    {0x205F, 0x205F}, {0x3000, 0x3000}};

constexpr CodePointRange kSurrogateRange = {0xD800, 0xDFFF};

bool IsSurrogate(uint32_t code_point) {
  return code_point >= kSurrogateRange.first &&
         code_point <= kSurrogateRange.last;
}

struct PropertyCodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct PropertyMatchDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

// Finds runs of code points that have a Unicode property.
class PropertyRuns {
 public:
  absl::Status Init(absl::string_view pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                              pattern.size(), PCRE2_UTF, &error, &offset,
                              nullptr));
    match_.reset(pcre2_match_data_create(1, nullptr));
    if (code_ == nullptr || match_ == nullptr) {
      return absl::InternalError(
          absl::StrCat("PCRE2 refuses ", pattern, ": error ", error));
    }
    // If PCRE2 has no compiler for this machine, its interpreter does the same.
    (void)pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
    return absl::OkStatus();
  }

  // Sets `to` for the code points of `text`, which begins with `first`.
  void Mark(absl::string_view text, uint32_t first, CharClass to,
            std::vector<CharClass>& classes) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    size_t begin = 0;
    while (begin < text.size() &&
           pcre2_match(code_.get(), subject, text.size(), begin,
                       PCRE2_NO_UTF_CHECK, match_.get(), nullptr) > 0) {
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match_.get());
      absl::string_view run = text.substr(ends[0], ends[1] - ends[0]);
      while (!run.empty()) {
        classes[TakeCodePoint(run).value_or(first) - first] = to;
      }
      begin = ends[1];
    }
  }

 private:
  std::unique_ptr<pcre2_code, PropertyCodeDeleter> code_;
  std::unique_ptr<pcre2_match_data, PropertyMatchDeleter> match_;
};

}  // namespace

void CharClasses::Append(const std::vector<CharClass>& block) {
  const size_t n = classes_.size() / kBlock;
  size_t same = 0;
  while (same < n && !std::equal(block.begin(), block.end(),
                                 classes_.begin() + static_cast<std::ptrdiff_t>(
                                                        same * kBlock))) {
    ++same;
  }
  if (same == n) classes_.insert(classes_.end(), block.begin(), block.end());
  blocks_.push_back(static_cast<uint8_t>(same));
}

absl::StatusOr<CharClasses> CharClasses::Make() {
  constexpr uint32_t kAtOnce = 1 << 16;
  PropertyRuns letters;
  PropertyRuns numbers;
  RETURN_IF_ERROR(letters.Init("\\p{L}+"));
  RETURN_IF_ERROR(numbers.Init("\\p{N}+"));
  CharClasses made;
  std::vector<CharClass> some;
  for (uint32_t first = 0; first <= kMaxCodePoint; first += kAtOnce) {
    std::string text;
    for (uint32_t c = first; c < first + kAtOnce; ++c) {
      if (!IsSurrogate(c)) AppendUtf8(c, text);
    }
    some.assign(kAtOnce, CharClass::kOther);
    letters.Mark(text, first, CharClass::kLetter, some);
    numbers.Mark(text, first, CharClass::kNumber, some);
    for (const CodePointRange& range : kWhiteSpace) {
      for (uint32_t c = range.first; c <= range.last && first == 0; ++c) {
        some[c] = CharClass::kSpace;
      }
    }
    for (auto at = some.begin(); at != some.end(); at += kBlock) {
      made.Append({at, at + kBlock});
    }
    if (made.classes_.size() / kBlock > 256) {
      return absl::InternalError("more kinds of code points than expected");
    }
  }
  made.classes_.shrink_to_fit();
  return made;
}

absl::StatusOr<const CharClasses*> CharClasses::Get() {
  // Never destroyed: other threads may use it until the process ends.
  static const auto* const made = new absl::StatusOr<CharClasses>(Make());
  if (!made->ok()) return made->status();
  return &**made;
}

}  // namespace plimsoll::worker
