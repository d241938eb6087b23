#include "worker/text/grammar/token_mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>

#include "tests/sanitized.h"
#include "tests/worker/text/tokenizer/gguf_fixture.h"
#include "worker/text/grammar/gbnf.h"
#include "worker/text/grammar/grammar_builder.h"
#include "worker/text/schema/schema_grammar.h"

namespace plimsoll::worker {
namespace {

using ::testing::HasSubstr;

// Bytes of a text as byte-level BPE stores them.
std::string Mapped(absl::string_view text) {
  std::string mapped;
  for (const char c : text) {
    mapped += MappedByteText(static_cast<unsigned char>(c));
  }
  return mapped;
}

// All bytes, tokens that share beginnings, split code points, tokens of other
// kinds, and an end token.
std::unique_ptr<Tokenizer> SmallTokenizer() {
  std::vector<FixtureToken> more;
  for (const char* text :
       {"ab",    "abc",        "abd",   "ab",       "b\"",      "{\"",
        "\":",   "\": ",       "\",",   "\"}",      "\"a\"",    "null",
        "tru",   "true",       "12",    "123",      "-1",       "\n",
        "\n  ",  "  ",         ", ",    "}}",       "[[",       "]]",
        "]}",    "\xC3",       "\xA9",  "\xC3\xA9", "\xF0\x9F", "\x98\x80",
        "x\xF0", "{\"a\": 1}", "[1, 2]"}) {
    more.push_back({Mapped(text)});
  }
  more.push_back({"<user>", TokenType::kUserDefined});
  more.push_back({"<unused>", TokenType::kUnused});
  more.push_back({"<control>", TokenType::kControl});
  more.push_back({"<end>", TokenType::kControl});
  return ByteTokenizer(more);
}

// Vocabularies of SPM have byte tokens and spaces of their own.
std::unique_ptr<Tokenizer> SmallSpmTokenizer() {
  std::vector<FixtureToken> tokens = {{"<unk>", TokenType::kUnknown},
                                      {"<s>", TokenType::kControl},
                                      {"</s>", TokenType::kControl}};
  for (int b = 0; b < 256; ++b) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", static_cast<unsigned>(b));
    tokens.push_back({text, TokenType::kByte});
  }
  for (const char* text : {"▁", "▁a", "a", "b", "ab", "▁ab", "\"", "é"}) {
    tokens.push_back({text});
  }
  GgufFixture fixture;
  auto tokenizer = AddVocab(fixture, tokens)
                       .String("tokenizer.ggml.model", "llama")
                       .U32("tokenizer.ggml.eos_token_id", 2)
                       .Load();
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

bool IsSet(std::span<const uint64_t> bits, int32_t id) {
  return (bits[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
}

// What may follow `said`, without any sharing.
bool MayFollow(const std::shared_ptr<const Grammar>& grammar,
               const Tokenizer& tokenizer, const std::string& said,
               int32_t id) {
  GrammarState state(grammar);
  EXPECT_TRUE(state.Advance(said));
  if (tokenizer.IsEnd(id)) return state.Accepts(state.current());
  std::string bytes;
  tokenizer.AppendBytes(id, RenderSpecial::kNo, bytes);
  return !bytes.empty() && state.Advance(bytes);
}

// Walks at random and compares every token at every state.
void ExpectExact(const std::shared_ptr<const Grammar>& grammar,
                 const Tokenizer& tokenizer, int n_walks) {
  const TokenIndex index(tokenizer);
  std::mt19937 random(3);
  for (int walk = 0; walk < n_walks; ++walk) {
    TokenMask mask(grammar, index);
    std::string said;
    for (int step = 0; step < 40; ++step) {
      mask.BeginStep();
      const auto bits = mask.AllowedTokens();
      ASSERT_TRUE(bits.ok()) << bits.status() << " after " << said;
      std::vector<int32_t> allowed;
      for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
        const bool expected = MayFollow(grammar, tokenizer, said, id);
        ASSERT_EQ(IsSet(*bits, id), expected) << id << " after " << said;
        ASSERT_EQ(mask.Allows(id), expected) << id << " after " << said;
        if (expected) allowed.push_back(id);
      }
      const int32_t id = allowed[random() % allowed.size()];
      ASSERT_TRUE(mask.Accept(id).ok());
      if (tokenizer.IsEnd(id)) break;
      tokenizer.AppendBytes(id, RenderSpecial::kNo, said);
    }
  }
}

TEST(TokenMaskTest, EveryTokenIsAsIfItWereLookedAtAlone) {
  const auto tokenizer = SmallTokenizer();
  const int n_walks = testing::kIsSanitized ? 3 : 8;
  for (const char* text :
       {"root ::= [a-c]* \"é\"?", "root ::= .{0,9}",
        "root ::= \"ab\" root \"]\" | \"[\" root | \"12\""}) {
    SCOPED_TRACE(text);
    ExpectExact(*CompileGbnf(text), *tokenizer, n_walks);
  }
  for (const char* text :
       {"{}", R"({"properties":{"a":{"type":"integer"},"ab":{}}})",
        R"({"type":"string","maxLength":6})"}) {
    SCOPED_TRACE(text);
    ExpectExact(*CompileJsonSchema(text), *tokenizer, n_walks);
  }
}

TEST(TokenMaskTest, ByteTokensCountAsTheirByte) {
  const auto tokenizer = SmallSpmTokenizer();
  ExpectExact(*CompileGbnf("root ::= (\" \" [aéb]+){0,5}"), *tokenizer, 20);
}

TEST(TokenMaskTest, TheEndIsAllowedWhereTheTextIsComplete) {
  const auto tokenizer = SmallTokenizer();
  const TokenIndex index(*tokenizer);
  const int32_t end = tokenizer->end_tokens().at(0);
  TokenMask mask(*CompileGbnf("root ::= \"a\" \"b\"?"), index);
  EXPECT_FALSE(mask.Allows(end));
  EXPECT_FALSE(mask.Accept(end).ok());
  ASSERT_TRUE(mask.Accept('a').ok());
  EXPECT_TRUE(mask.Allows(end));
  ASSERT_TRUE(mask.Accept('b').ok());
  const auto bits = mask.AllowedTokens();
  ASSERT_TRUE(bits.ok());
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    EXPECT_EQ(IsSet(*bits, id), id == end);
  }
  EXPECT_TRUE(mask.Accept(end).ok());
}

// "a", then the control token or the end token, then "b".
TEST(TokenMaskTest, AControlTokenIsAllowedWhereTheGrammarAsksForIt) {
  const auto tokenizer = SmallTokenizer();
  const TokenIndex index(*tokenizer);
  const int32_t control = *tokenizer->Find("<control>");
  const int32_t end = tokenizer->end_tokens().at(0);
  GrammarBuilder builder;
  builder.AddMark({.text = "<1>", .id = control, .is_free = true});
  builder.AddMark({.text = "<2>", .id = end, .is_free = false});
  const int32_t root = builder.NewRule("root");
  builder.Define(
      root, builder.Sequence(
                {builder.Literal("a"),
                 builder.Choice({builder.Marked("<1>"), builder.Marked("<2>")}),
                 builder.Literal("b")}));
  const auto grammar = builder.Build(root);
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  TokenMask mask(*grammar, index);
  const auto expect_only = [&](const std::vector<int32_t>& ids) {
    mask.BeginStep();
    const auto bits = mask.AllowedTokens();
    ASSERT_TRUE(bits.ok()) << bits.status();
    for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
      const bool is_expected = std::ranges::count(ids, id) > 0;
      EXPECT_EQ(IsSet(*bits, id), is_expected) << id;
      EXPECT_EQ(mask.Allows(id), is_expected) << id;
    }
  };
  expect_only({'a'});
  EXPECT_FALSE(mask.Accept(control).ok());
  ASSERT_TRUE(mask.Accept('a').ok());
  expect_only({control, end});
  ASSERT_TRUE(mask.Accept(control).ok());
  expect_only({'b'});
  ASSERT_TRUE(mask.Accept('b').ok());
  expect_only({end});
}

TEST(TokenMaskTest, ATokenThatIsForbiddenIsNotAccepted) {
  const auto tokenizer = SmallTokenizer();
  const TokenIndex index(*tokenizer);
  TokenMask mask(*CompileGbnf("root ::= \"a\""), index);
  EXPECT_EQ(mask.Accept('b').code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(mask.Accept('a').ok());
}

TEST(TokenMaskTest, WhatNoTokenSpellsIsAnError) {
  std::vector<FixtureToken> tokens = {{"a"}, {"b"}};
  GgufFixture fixture;
  const auto tokenizer = AddBpeVocab(fixture, tokens).Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const TokenIndex index(**tokenizer);
  TokenMask mask(*CompileGbnf("root ::= \"ac\""), index);
  EXPECT_TRUE(mask.AllowedTokens().ok());
  ASSERT_TRUE(mask.Accept(0).ok());
  const auto bits = mask.AllowedTokens();
  EXPECT_EQ(bits.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bits.status().message()),
              HasSubstr("vocabulary cannot spell"));
}

// What is allowed is accepted, whatever was asked before it, and stays within
// the language.
TEST(TokenMaskTest, HoweverAmbiguousEveryTokenThatIsAllowedIsAccepted) {
  const auto tokenizer = SmallTokenizer();
  const TokenIndex index(*tokenizer);
  std::mt19937 random(6);
  for (const char* text :
       {"root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"x\"",
        "root ::= [a-d] root [a-d]{1,30} | \"ab\" root \"bc\" | \"b\"",
        "root ::= s\ns ::= \"a\" s s | \"ab\" s | \"b\" | [abc] s \"d\"",
        "root ::= (([a-c]{1,40} ){0,40} [b-d]{0,90}){1,30}"}) {
    SCOPED_TRACE(text);
    const auto grammar = *CompileGbnf(text);
    TokenMask mask(grammar, index);
    for (int step = 0; step < 60; ++step) {
      mask.BeginStep();
      for (int i = 0; i < 20; ++i) {
        mask.Allows(static_cast<int32_t>(random() % 290));
      }
      const auto bits = mask.AllowedTokens();
      ASSERT_TRUE(bits.ok()) << bits.status() << step;
      std::vector<int32_t> allowed;
      for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
        if (IsSet(*bits, id)) allowed.push_back(id);
      }
      const int32_t id = allowed[random() % allowed.size()];
      ASSERT_TRUE(mask.Accept(id).ok());
      if (tokenizer->IsEnd(id)) break;
    }
  }
}

// A vocabulary without single bytes has to look further, within a limit.
TEST(TokenMaskTest, WithoutTokensOfOneByteOneIsStillFound) {
  GgufFixture fixture;
  const std::vector<FixtureToken> tokens = {{"aaaaaaaaaaaa"}};
  const auto tokenizer = AddBpeVocab(fixture, tokens).Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const TokenIndex index(**tokenizer);
  TokenMask mask(
      *CompileGbnf("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"x\""),
      index);
  for (int step = 0; step < 20; ++step) {
    mask.BeginStep();
    const auto bits = mask.AllowedTokens();
    ASSERT_TRUE(bits.ok()) << bits.status() << step;
    EXPECT_TRUE(IsSet(*bits, 0));
    ASSERT_TRUE(mask.Accept(0).ok());
  }
  GgufFixture far;
  const auto too_long = AddBpeVocab(far, {{std::string(500, 'a')}}).Load();
  ASSERT_TRUE(too_long.ok()) << too_long.status();
  const TokenIndex far_index(**too_long);
  TokenMask searching(
      *CompileGbnf("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"x\""),
      far_index);
  const auto none = searching.AllowedTokens();
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("cannot spell"));
}

TEST(TokenMaskTest, MemoryStaysWithinItsLimits) {
  const auto tokenizer = SmallTokenizer();
  const TokenIndex index(*tokenizer);
  TokenMask mask(*CompileGbnf("root ::= [a-z]{0,9999}"), index);
  const int64_t mask_bytes = tokenizer->vocab_size() / 8 + 8;
  for (int i = 0; i < 9'000; ++i) {
    mask.BeginStep();
    ASSERT_TRUE(mask.AllowedTokens().ok());
    ASSERT_TRUE(mask.Accept('q').ok());
    ASSERT_LT(mask.MemoryBytes(),
              static_cast<int64_t>(GrammarState::kMemoBytes) * 2 +
                  static_cast<int64_t>(TokenMask::kMaxMasks) * mask_bytes);
  }
}

TEST(TokenIndexTest, TokensAreInTheOrderOfTheirBytes) {
  const auto tokenizer = SmallTokenizer();
  const TokenIndex index(*tokenizer);
  std::string before;
  std::vector<bool> seen(static_cast<size_t>(tokenizer->vocab_size()), false);
  for (int64_t i = 0; i < index.size(); ++i) {
    const TokenIndex::Entry entry = index.At(i);
    std::string bytes;
    tokenizer->AppendBytes(entry.id, RenderSpecial::kNo, bytes);
    EXPECT_EQ(bytes,
              before.substr(0, entry.n_shared) + std::string(entry.bytes));
    EXPECT_LE(before, bytes);
    EXPECT_LE(bytes.size(), index.longest_token_bytes());
    seen[static_cast<size_t>(entry.id)] = true;
    before = bytes;
  }
  // Only the first of the last four tokens is text.
  EXPECT_EQ(std::count(seen.begin(), seen.end(), false), 3);
}

TEST(TokenIndexTest, SkippingIsAsIfOneByOne) {
  const auto tokenizer = SmallTokenizer();
  const TokenIndex index(*tokenizer);
  for (int64_t i = 1; i < index.size(); ++i) {
    for (uint32_t n_shared = 0; n_shared < 4; ++n_shared) {
      int64_t expected = i;
      while (expected < index.size() &&
             index.At(expected).n_shared > n_shared) {
        ++expected;
      }
      ASSERT_EQ(index.SkipTo(i, n_shared), expected) << i << " " << n_shared;
    }
  }
  EXPECT_EQ(index.SkipTo(index.size(), 0), index.size());
}

}  // namespace
}  // namespace plimsoll::worker
