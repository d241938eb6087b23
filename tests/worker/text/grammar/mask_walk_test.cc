#include "worker/text/grammar/mask_walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "tests/sanitized.h"
#include "tests/worker/text/tokenizer/gguf_fixture.h"
#include "worker/text/grammar/gbnf.h"
#include "worker/text/grammar/grammar_builder.h"
#include "worker/text/grammar/regex_grammar.h"
#include "worker/text/grammar/text_before.h"
#include "worker/text/schema/schema_grammar.h"

namespace plimsoll::worker {
namespace {

using Compiled = std::shared_ptr<const Grammar>;

// All bytes, and some hundred texts of pieces: words, characters of two to four
// bytes and parts of these, and what ends or escapes strings. Some texts come
// twice, and some are longer than any plain token that is counted.
std::unique_ptr<Tokenizer> MixedTokenizer() {
  const std::vector<std::string> pieces = {"a",
                                           "b",
                                           "na",
                                           "me",
                                           "name",
                                           " ",
                                           "  ",
                                           "1",
                                           "23",
                                           ".",
                                           "-",
                                           ":",
                                           ",",
                                           "{",
                                           "}",
                                           "[",
                                           "]",
                                           "\"",
                                           "\"",
                                           "\\",
                                           "\\u00",
                                           "\n",
                                           "\t",
                                           "<",
                                           "\x7F",
                                           "\xC3",
                                           "\xC3\xA9",
                                           "\xE4\xB8\xAD",
                                           "\xE0\xA4\x85",
                                           "\xE4\xB8",
                                           "\xED\x95\x9C",
                                           "\xA9",
                                           "\xF0\x9F\x98\x80",
                                           "\xF4\x8F\xBF\xBF",
                                           "\xF0\x9F",
                                           "true",
                                           "null",
                                           "\":",
                                           "id",
                                           "x",
                                           "\xC2\xA0",
                                           "\",\""};
  std::mt19937 random(11);
  std::vector<std::string> texts = pieces;
  const size_t n = testing::kIsSanitized ? 300 : 900;
  while (texts.size() < n) {
    std::string text;
    // Mostly short ones.
    for (auto left = 1 + random() % (1 + random() % 8); left > 0; --left) {
      text += pieces[random() % pieces.size()];
    }
    texts.push_back(text);
  }
  for (const size_t length : {15u, 16u, 17u, 18u, 40u}) {
    std::string wide;
    for (size_t i = 0; i < length; ++i) wide += i % 2 == 0 ? "\xC3\xA9" : "n";
    texts.push_back(wide);
    texts.push_back(std::string(length, 'a'));
    texts.push_back(std::string(length, ' '));
  }
  std::vector<FixtureToken> more;
  for (const std::string& text : texts) {
    std::string mapped;
    for (const char c : text) {
      mapped += MappedByteText(static_cast<unsigned char>(c));
    }
    more.push_back({mapped});
  }
  more.push_back({"<mark>", TokenType::kControl});
  more.push_back({"<end>", TokenType::kControl});
  return ByteTokenizer(more);
}

// Every token looked at on its own, byte by byte.
std::vector<bool> OneByOne(GrammarState& grammar,
                           const std::vector<std::string>& texts) {
  std::vector<bool> allowed;
  allowed.reserve(texts.size());
  for (const std::string& text : texts) {
    grammar.GrantWork();
    GrammarState::State state = grammar.current();
    for (const char byte : text) {
      state = grammar.Next(state, static_cast<uint8_t>(byte));
    }
    allowed.push_back(!text.empty() && state != GrammarState::kDead);
  }
  return allowed;
}

class MaskWalkTest : public ::testing::Test {
 protected:
  MaskWalkTest() : tokenizer_(MixedTokenizer()), index_(*tokenizer_) {
    for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
      std::string text;
      if (!tokenizer_->IsEnd(id))
        tokenizer_->AppendBytes(id, RenderSpecial::kNo, text);
      texts_.push_back(text);
    }
  }

  // Walks at random, and compares all tokens at each step.
  void ExpectSame(const Compiled& grammar, int n_walks, int n_steps) {
    MaskWalk walk(index_);
    std::vector<uint64_t> bits((texts_.size() + 63) / 64);
    for (int i = 0; i < n_walks; ++i) {
      GrammarState fast(grammar);
      GrammarState slow(grammar);
      std::string said;
      for (int step = 0; step < n_steps; ++step) {
        fast.BeginStep();
        slow.BeginStep();
        // What was there before must not matter.
        std::ranges::fill(bits, step % 2 == 0 ? ~uint64_t{0} : 0);
        const bool is_any = walk.Fill(fast, bits);
        if (fast.is_exhausted()) break;
        const std::vector<bool> expected = OneByOne(slow, texts_);
        std::vector<size_t> allowed;
        for (size_t id = 0; id < texts_.size(); ++id) {
          const bool is_set = (bits[id / 64] >> (id % 64) & 1) != 0;
          ASSERT_EQ(is_set, expected[id])
              << id << " '" << texts_[id] << "' after '" << said << "'";
          if (is_set) allowed.push_back(id);
        }
        ASSERT_EQ(is_any, !allowed.empty());
        ++n_compared_;
        if (allowed.empty()) break;
        const std::string& next = texts_[allowed[random_() % allowed.size()]];
        ASSERT_TRUE(fast.Advance(next));
        ASSERT_TRUE(slow.Advance(next));
        said += next;
      }
    }
  }
  void ExpectSameForSchema(const std::string& schema,
                           const SchemaOptions& options, int n_walks,
                           int n_steps) {
    SCOPED_TRACE(schema.substr(0, 200));
    const auto made = CompileSchema(schema, options);
    if (made.ok()) ExpectSame(made->grammar, n_walks, n_steps);
  }

  const std::unique_ptr<Tokenizer> tokenizer_;
  const TokenIndex index_;
  std::vector<std::string> texts_;  // by id
  std::mt19937 random_{5};
  int n_compared_ = 0;
};

TEST_F(MaskWalkTest, SchemasAllowWhatEachTokenAloneWould) {
  std::vector<std::string> schemas = {
      "{}", R"({"type":"string"})",
      R"({"enum":["name","na","né","name of a name"]})",
      R"({"type":"string","pattern":"^[a-z]+$"})",
      R"({"type":"string","pattern":"^[^b]*$"})",
      R"({"type":"string","pattern":"name"})",
      R"({"type":"string","pattern":"name.*é|na+x"})",
      // It has more states than PlainRoom looks at.
      R"({"type":"string","pattern":"n.{7}x"})",
      R"({"type":"string","pattern":"^(na|é)*$","minLength":3})",
      R"({"type":"string","format":"date-time"})",
      R"({"properties":{"name":{"type":"string"},"na":{},"né":{}}})",
      R"({"properties":{"name":{"maxLength":3}},
          "additionalProperties":{"type":"integer"}})",
      R"({"patternProperties":{"^na":{"type":"string"}},
          "properties":{"id":{"type":"integer"}}})",
      R"({"properties":{"a":{"type":"string"},"b":{"type":"string"}},
          "additionalProperties":false,"required":["b"]})",
      R"({"type":"array","items":{"anyOf":[{"type":"string","maxLength":7},
          {"type":"string","pattern":"^x"}]}})"};
  for (const int n : {0, 1, 2, 15, 16, 17, 18, 33, 600}) {
    nlohmann::ordered_json schema = {{"type", "string"}, {"maxLength", n}};
    schemas.push_back(schema.dump());
    schema = {{"items", {{"type", "string"}, {"minLength", n}}}};
    schemas.push_back(schema.dump());
    schema = {{"type", "string"},
              {"pattern", absl::StrCat("^[^<é]{0,", n, "}n?$")}};
    schemas.push_back(schema.dump());
  }
  const int n_walks = testing::kIsSanitized ? 1 : 3;
  for (const std::string& schema : schemas) {
    ExpectSameForSchema(schema, {}, n_walks, 15);
    ExpectSameForSchema(schema, {.any_spelling = true}, 1, 10);
  }
  EXPECT_GT(n_compared_, 500);
}

TEST_F(MaskWalkTest, RegexesAllowWhatEachTokenAloneWould) {
  for (const char* pattern :
       {".*", "[^\"\\\\]*", "[^\"\\\\]{0,20}", "[^\"\\\\<]{3,16}", "[^<]*<a>.*",
        "[^é]*", "([^\"]*\"){2}", "(.{1,5} ?)*", "(a|[^a]{0,17})*", "[a-z ]*",
        "(.|..|...)*b", ".{0,5}|[^a]{9}", "[\\x20-\\x7E]*",
        "([^\"<\\\\]{0,16}x)?y"}) {
    SCOPED_TRACE(pattern);
    const auto grammar = CompileRegex(pattern);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    ExpectSame(*grammar, testing::kIsSanitized ? 2 : 5, 15);
  }
  EXPECT_GT(n_compared_, 300);
}

// Stacks that differ, rules that nest, and bytes that are no UTF-8.
TEST_F(MaskWalkTest, GrammarsAllowWhatEachTokenAloneWould) {
  for (const char* text :
       {"root ::= \"\\\"\" [^\"\\\\\\n]* \"\\\"\" root?",
        "root ::= . root \"b\" | \"x\"", "root ::= (. root)?",
        "root ::= e*\ne ::= . | \"(\" e \")\"",
        "root ::= [^a]* (\"a\" [^b]* | [^c]{0,20})"}) {
    SCOPED_TRACE(text);
    const auto grammar = CompileGbnf(text);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    ExpectSame(*grammar, testing::kIsSanitized ? 2 : 5, 15);
  }
  for (const char* trigger : {"<a", "name", "\xC3\xA9", "<mark>"}) {
    SCOPED_TRACE(trigger);
    GrammarBuilder builder;
    builder.AddMark(
        {.text = "<mark>", .id = *tokenizer_->Find("<mark>"), .is_free = true});
    const int32_t root = builder.NewRule("root");
    const TextEnd end = {.trigger = trigger,
                         .never = {"na\""},
                         .is_needed = false,
                         .has_marks = true};
    builder.Define(root, TextBefore(end, builder.Literal("x"), builder));
    const auto grammar = builder.Build(root);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    ExpectSame(*grammar, testing::kIsSanitized ? 2 : 5, 15);
  }
  EXPECT_GT(n_compared_, 150);
}

TEST_F(MaskWalkTest, SchemasFromTheWildAllowWhatEachTokenAloneWould) {
  std::ifstream in("../shared/suites/schemas.jsonl");
  if (!in) GTEST_SKIP() << "no shared data: ../shared/suites/schemas.jsonl";
  int n = 0;
  for (std::string line; std::getline(in, line); ++n) {
    if (testing::kIsSanitized && n % 10 != 0) continue;
    ExpectSameForSchema(nlohmann::ordered_json::parse(line)["schema"].dump(),
                        {}, 1, 12);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(n_compared_, 300);
}

}  // namespace
}  // namespace plimsoll::worker
