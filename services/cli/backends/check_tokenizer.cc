#include "services/cli/backends/check_tokenizer.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "services/cli/terminal/bytes.h"

namespace plimsoll::cli {
namespace {

struct SampleText {
  absl::string_view kind;
  absl::string_view text;
};

constexpr std::array<SampleText, 8> kSampleTexts = {{
    {"ASCII", "Load no more than the line allows: 3.14 * (x + 42) != \"y\"."},
    {"accents",
     "Der K\u00E4se, \u00E0 c\u00F4t\u00E9, ma\u00F1ana, "
     "\u0141\u00F3d\u017A, e\u0301"},
    {"Greek and Cyrillic", "\u03B1\u03B2\u03B3 \u0441\u0443\u0434\u043D\u043E"},
    {"CJK",
     "\u8239\u306E\u55AB\u6C34\u7DDA \uD55C\uAD6D\uC5B4 "
     "\u6D77\u6D0B\u3002"},
    {"emoji", "\U0001F6A2 \U0001F468\u200D\U0001F4BB \u2764\uFE0F"},
    {"newlines", "one\ntwo\n\nthree\r\n\tfour\n"},
    {"runs of spaces", "a  b   c        d    "},
    {"code", "def f(x):\n    return [x[i] for i in range(10)]\n"},
}};

// Words for the special tokens, with their ids.
std::string SpecialTokensOf(const worker::Tokenizer& tokenizer) {
  std::string text = tokenizer.bos()
                         ? absl::StrCat("BOS ", *tokenizer.bos(),
                                        tokenizer.add_bos() ? "" : " (unused)")
                         : "no BOS";
  const std::vector<int32_t>& ends = tokenizer.end_tokens();
  if (ends.empty()) return absl::StrCat(text, ", no end token");
  return absl::StrCat(text, ends.size() == 1 ? ", end token " : ", end tokens ",
                      absl::StrJoin(ends, " "));
}

void CheckSpecialTokens(const worker::Tokenizer& tokenizer, Check& check) {
  const auto in_range = [&](int32_t id) {
    return id >= 0 && id < tokenizer.vocab_size();
  };
  const auto find = [&check](CheckState state, std::string what) {
    check.Worsen(state);
    check.findings.push_back(std::move(what));
  };
  if (tokenizer.add_bos() && !tokenizer.bos()) {
    find(CheckState::kNote,
         "texts should begin with BOS, but the file has no such token");
  }
  if (tokenizer.bos() && !in_range(*tokenizer.bos())) {
    find(CheckState::kFailed,
         absl::StrCat("BOS ", *tokenizer.bos(), " is not in the vocabulary"));
  }
  for (const int32_t id : tokenizer.end_tokens()) {
    if (in_range(id)) continue;
    find(CheckState::kFailed,
         absl::StrCat("end token ", id, " is not in the vocabulary"));
  }
  if (tokenizer.end_tokens().empty()) {
    find(CheckState::kNote,
         "no token ends a reply; replies end at --max-tokens or with a full "
         "context");
  }
}

// Returns the number of texts that come back.
int64_t CheckRoundTrips(const worker::Tokenizer& tokenizer, Check& check) {
  int64_t n_back = 0;
  for (const SampleText& sample : kSampleTexts) {
    const auto ids = tokenizer.Encode(sample.text, worker::ParseSpecial::kNo);
    const std::string back =
        ids.ok() ? tokenizer.Decode(*ids, worker::RenderSpecial::kNo) : "";
    if (back == sample.text) {
      ++n_back;
      continue;
    }
    check.Worsen(CheckState::kFailed);
    check.findings.push_back(
        absl::StrCat("the text with ", sample.kind, " does not come back: \"",
                     sample.text, "\" becomes \"", back, "\""));
  }
  return n_back;
}

}  // namespace

TokenizerCheck CheckTokenizer(worker::ModelFile& file) {
  TokenizerCheck result;
  Check& check = result.check;
  check.name = "tokenizer";
  if (file.shape().vocab.model == "no_vocab") {
    check.state = CheckState::kNote;
    check.text = "left out: the file has no vocabulary";
    return result;
  }
  auto tokenizer = worker::LoadTokenizer(file.header(), file);
  if (!tokenizer.ok()) {
    const bool is_unknown = absl::IsUnimplemented(tokenizer.status());
    check.state = is_unknown ? CheckState::kNote : CheckState::kFailed;
    check.text = absl::StrCat(is_unknown ? "left out: " : "",
                              tokenizer.status().message());
    return result;
  }
  result.tokenizer = *std::move(tokenizer);
  const int64_t n_back = CheckRoundTrips(*result.tokenizer, check);
  CheckSpecialTokens(*result.tokenizer, check);
  check.text =
      absl::StrCat(FormatCount(result.tokenizer->vocab_size()), " tokens; ",
                   n_back, " of ", kSampleTexts.size(), " texts come back; ",
                   SpecialTokensOf(*result.tokenizer));
  check.figures = {
      {"vocabulary", static_cast<double>(result.tokenizer->vocab_size())},
      {"texts", static_cast<double>(kSampleTexts.size())},
      {"texts_back", static_cast<double>(n_back)}};
  return result;
}

}  // namespace plimsoll::cli
