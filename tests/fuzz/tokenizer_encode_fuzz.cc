// Any text through both kinds of tokenizer: it comes back, and no control token
// appears that was not asked for.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tests/worker/text/tokenizer/gguf_fixture.h"
#include "worker/text/utf8.h"

namespace plimsoll::worker {
namespace {

const std::vector<FixtureToken> kSpecial = {
    {"<s>", TokenType::kControl},      {"</s>", TokenType::kControl},
    {"<ss>", TokenType::kControl},     {"s>s>", TokenType::kControl},
    {"\n\n", TokenType::kUserDefined}, {"  ", TokenType::kUserDefined},
    {"<b>", TokenType::kUserDefined},  {"b><", TokenType::kUserDefined},
};

std::unique_ptr<Tokenizer> MakeSpm() {
  std::vector<FixtureToken> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back({absl::StrFormat("<0x%02X>", byte), TokenType::kByte});
  }
  tokens.insert(tokens.end(), kSpecial.begin(), kSpecial.end());
  float score = 0;
  for (const char* text : {"\xE2\x96\x81", "s", "<", ">", "/", "\xE2\x96\x81s",
                           "<s", "s>", ">s", "\xE2\x96\x81\xE2\x96\x81", "aa",
                           "a", "aaa", "s\xE2\x96\x81", "\xC3\xA9"}) {
    tokens.push_back({text, TokenType::kNormal, score});
    score -= 1;
  }
  GgufFixture fixture;
  return *AddVocab(fixture, tokens)
              .String("tokenizer.ggml.model", "llama")
              .Bool("tokenizer.ggml.add_space_prefix", false)
              .Load();
}

std::unique_ptr<Tokenizer> MakeBpe(absl::string_view pre) {
  std::vector<FixtureToken> tokens = ByteLevelVocab(kSpecial);
  for (const char* text : {"aa", "aaaa", "<s", "s>", "\xC4\xA0s"}) {
    tokens.push_back({text});
  }
  GgufFixture fixture;
  return *AddVocab(fixture, tokens)
              .String("tokenizer.ggml.model", "gpt2")
              .String("tokenizer.ggml.pre", pre)
              .Strings("tokenizer.ggml.merges",
                       {"a a", "aa aa", "< s", "<s >", "s >", "\xC4\xA0 s"})
              .Load();
}

void Check(const Tokenizer& tokenizer, const std::string& text) {
  for (const bool parse_special : {false, true}) {
    const auto ids = tokenizer.Encode(text, ParseSpecialIf(parse_special));
    PLIMSOLL_CHECK(ids.ok(), "any bytes are accepted");
    std::string back;
    for (const int32_t id : *ids) {
      PLIMSOLL_CHECK(id >= 0 && id < tokenizer.vocab_size(), "ids are valid");
      PLIMSOLL_CHECK(parse_special || tokenizer.Type(id) != TokenType::kControl,
                     "control text stays text");
      tokenizer.AppendBytes(id, RenderSpecial::kYes, back);
    }
    // A literal mark of a space comes back as a space, and in ill-formed text a
    // lead byte may swallow part of a mark.
    if (IsValidUtf8(text) && text.find("\xE2\x96\x81") == std::string::npos) {
      PLIMSOLL_CHECK(back == text, "the text comes back");
    }
    (void)tokenizer.Decode(*ids, RenderSpecialIf(parse_special));
  }
}

using Tokenizers = std::vector<std::unique_ptr<Tokenizer>>;

const Tokenizers& AllTokenizers() {
  static const auto& all = *new Tokenizers([] {
    Tokenizers made;
    made.push_back(MakeSpm());
    for (const char* pre : {"smollm", "qwen35", "gpt-4o", "kimi-k2", "falcon",
                            "deepseek-v3", "deepseek-llm", "viking"}) {
      made.push_back(MakeBpe(pre));
    }
    return made;
  }());
  return all;
}

}  // namespace
}  // namespace plimsoll::worker

// Builds the tokenizers, which takes seconds, before the first input is timed.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  (void)plimsoll::worker::AllTokenizers();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto& one : plimsoll::worker::AllTokenizers()) {
    plimsoll::worker::Check(*one, text);
  }
  return 0;
}
