// What an engine promises to streams with a constraint, and to those beside
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/engine/engine.h"
#include "worker/text/grammar/gbnf.h"
#include "worker/text/grammar/grammar_state.h"
#include "worker/text/grammar/regex_grammar.h"
#include "worker/text/grammar/token_mask.h"
#include "worker/text/schema/schema_grammar.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::kPrompt;
using ::plimsoll::testing::SameBits;
using ::testing::HasSubstr;

std::shared_ptr<const Grammar> Gbnf(absl::string_view text) {
  auto grammar = CompileGbnf(text);
  EXPECT_TRUE(grammar.ok()) << grammar.status();
  return grammar.value_or(nullptr);
}

// A request without biases that ends with its constraint.
GenerateOptions Constrained(std::shared_ptr<const Grammar> constraint,
                            const SamplingOptions& sampling) {
  GenerateOptions options = Greedy(kPrompt, 120);
  options.ignore_eos = false;
  options.sampling = sampling;
  options.constraint = std::move(constraint);
  return options;
}

class ConstrainedTest : public plimsoll::testing::EngineFixture,
                        public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { Load(GetParam(), {.n_slots = 4}); }

  std::string BytesOf(const Generated& got) const {
    std::string bytes;
    for (const int32_t id : got.ids()) {
      engine_->tokenizer().AppendBytes(id, RenderSpecial::kNo, bytes);
    }
    return bytes;
  }
};

INSTANTIATE_TEST_SUITE_P(Models, ConstrainedTest,
                         ::testing::Values("llama_half", "gemma_k"));

TEST_P(ConstrainedTest, WhateverIsDrawnTheGrammarAccepts) {
  const std::vector<std::shared_ptr<const Grammar>> grammars = {
      Gbnf("root ::= [a-f]{3,9} (\" \" [0-9é]+){1,2} | \"x\""),
      Gbnf("root ::= \"(\" root \")\" | [a-z]{2}"),
      *CompileRegex("(yes|no)[.!]{0,3}"),
      *CompileJsonSchema(
          R"({"type":"object","properties":{"name":{"type":"string",
          "maxLength":8},"n":{"type":"integer"},"tags":{"type":"array",
          "items":{"enum":["a","b"]},"maxItems":3}},"required":["name"],
          "additionalProperties":false})"),
  };
  const SamplingOptions kinds[] = {
      {.temperature = 0.0f},
      {.temperature = 1.0f, .top_k = 40},
      {.temperature = 1.5f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f},
      {.temperature = 2.0f, .top_k = 100, .typical_p = 0.9f},
  };
  int n_complete = 0;
  for (size_t g = 0; g < grammars.size(); ++g) {
    for (const SamplingOptions& kind : kinds) {
      for (uint64_t seed = 0; seed < 3; ++seed) {
        SamplingOptions sampling = kind;
        sampling.seed = seed;
        GenerateOptions options = Constrained(grammars[g], sampling);
        if (seed == 2) options.logit_bias.biases = {{70, -100}, {100, 3}};
        const Generated got = Generate(*engine_, options);
        ASSERT_TRUE(got.status.ok()) << got.status;
        const std::string bytes = BytesOf(got);
        EXPECT_EQ(got.text.substr(0, bytes.size()), got.text);
        GrammarState state(grammars[g]);
        for (const char byte : bytes) {
          state.BeginStep();
          ASSERT_TRUE(state.Advance(absl::string_view(&byte, 1))) << bytes;
        }
        if (got.info.reason == FinishReason::kEndToken) {
          ++n_complete;
          EXPECT_TRUE(state.Accepts(state.current())) << bytes;
        } else {
          EXPECT_EQ(got.info.reason, FinishReason::kMaxTokens);
        }
      }
    }
  }
  EXPECT_GT(n_complete, 20);
}

// By the raw distribution, which candidates report.
TEST_P(ConstrainedTest, GreedyTakesTheLikeliestTokenThatIsAllowed) {
  const auto grammar = Gbnf("root ::= ([a-m]{2} | [0-9.]{3} \" \")+ \"!\"");
  GenerateOptions options = Constrained(grammar, {.temperature = 0.0f});
  options.max_tokens = 40;
  options.top_logprobs = 64;
  const Generated got = Generate(*engine_, options);
  ASSERT_TRUE(got.status.ok()) << got.status;
  const TokenIndex index(engine_->tokenizer());
  TokenMask mask(grammar, index);
  for (const TokenOutput& token : got.tokens) {
    mask.BeginStep();
    const auto best =
        std::find_if(token.candidates.begin(), token.candidates.end(),
                     [&](const Candidate& one) { return mask.Allows(one.id); });
    if (best != token.candidates.end()) {
      EXPECT_EQ(best->id, token.id);
      EXPECT_EQ(best->logprob, token.logprob);
      EXPECT_EQ(token.rank, best - token.candidates.begin());
    } else {
      EXPECT_GE(token.rank, 64);
    }
    ASSERT_TRUE(mask.Accept(token.id).ok());
  }
}

TEST_P(ConstrainedTest, StreamsBesideItAreTheSameBits) {
  const Generated alone = Generate(*engine_, Greedy(kPrompt, 40));
  GenerateOptions drawn = Greedy({7, 8, 9}, 40);
  drawn.sampling = {.temperature = 1.0f, .seed = 5};
  const Generated drawn_alone = Generate(*engine_, drawn);
  std::vector<std::shared_ptr<CollectSink>> sinks;
  for (int i = 0; i < 4; ++i) {
    sinks.push_back(std::make_shared<CollectSink>());
    GenerateOptions options = Constrained(Gbnf("root ::= [a-z ]{30,90}"),
                                          {.temperature = 1.0f, .seed = 1});
    if (i == 1) options = Greedy(kPrompt, 40);
    if (i == 3) options = drawn;
    ASSERT_TRUE(engine_->Submit(options, sinks.back()).ok());
  }
  std::vector<Generated> all;
  for (const auto& sink : sinks) all.push_back(sink->Await());
  EXPECT_TRUE(SameBits(all[1], alone));
  EXPECT_TRUE(SameBits(all[3], drawn_alone));
  EXPECT_TRUE(all[0].status.ok());
  EXPECT_TRUE(SameBits(all[0], all[2]));
}

// Every byte doubles the ways that led there.
TEST_P(ConstrainedTest, HoweverAmbiguousAReplyGoesOnAndKeepsItsForm) {
  std::string doubling = "root ::= r0\n";
  for (int i = 0; i < 24; ++i) {
    absl::StrAppend(&doubling, "r", i, " ::= \"a\" r", i + 1,
                    " \"b\" | \"a\" r", i + 1, " \"c\"\n");
  }
  doubling += "r24 ::= \"x\"";
  for (const std::string& text :
       {doubling,
        std::string("root ::= (((((\"a\"{0,30}){0,30}){0,30}){0,30})"
                    "{0,30}){0,30} \"b\""),
        std::string("root ::= s\ns ::= [a-z] s s | [a-z]")}) {
    SCOPED_TRACE(text);
    const auto grammar = Gbnf(text);
    const Generated got =
        Generate(*engine_, Constrained(grammar, {.temperature = 0.0f}));
    ASSERT_TRUE(got.status.ok()) << got.status;
    // Reading the text again leaves out the same readings.
    GrammarState state(grammar);
    for (const char byte : BytesOf(got)) {
      state.BeginStep();
      ASSERT_TRUE(state.Advance({&byte, 1})) << BytesOf(got);
    }
    if (got.info.reason == FinishReason::kEndToken) {
      EXPECT_TRUE(state.Accepts(state.current()));
    } else {
      EXPECT_EQ(got.info.reason, FinishReason::kMaxTokens);
    }
  }
}

TEST_P(ConstrainedTest, TheWholeReplyMayBeEmpty) {
  const Generated got =
      Generate(*engine_, Constrained(Gbnf("root ::= \"\""), {}));
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.text, "");
  EXPECT_EQ(got.info.reason, FinishReason::kEndToken);
  EXPECT_EQ(got.info.n_generated, 1);
}

TEST_P(ConstrainedTest, IgnoringTheEndIsRefused) {
  GenerateOptions options = Constrained(Gbnf("root ::= \"a\""), {});
  options.ignore_eos = true;
  const Generated got = Generate(*engine_, options);
  EXPECT_EQ(got.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(got.status.message()), HasSubstr("ignore_eos"));
}

TEST_P(ConstrainedTest, AStopStringStillEnds) {
  GenerateOptions options =
      Constrained(Gbnf("root ::= \"abcdef\""), {.temperature = 0.0f});
  options.stop_strings = {"de"};
  const Generated got = Generate(*engine_, options);
  ASSERT_TRUE(got.status.ok());
  EXPECT_EQ(got.text, "abc");
  EXPECT_EQ(got.info.reason, FinishReason::kStopString);
}

}  // namespace
}  // namespace plimsoll::worker
