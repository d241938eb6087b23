#include "worker/text/grammar/grammar_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/text/grammar/grammar_match.h"

namespace plimsoll::worker {
namespace {

using ::testing::HasSubstr;
using Expr = GrammarBuilder::Expr;

absl::StatusOr<std::shared_ptr<const Grammar>> BuildOf(GrammarBuilder& builder,
                                                       Expr definition) {
  const int32_t root = builder.NewRule("root");
  builder.Define(root, definition);
  return builder.Build(root);
}

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

TEST(GrammarBuilderTest, BytesThatNothingTellsApartAreOneClass) {
  GrammarBuilder builder;
  const auto grammar = BuildOf(
      builder,
      builder.Sequence({builder.Chars({{'a', 'f'}}),
                        builder.Chars({{'c', 'z'}}), builder.Literal("!")}));
  ASSERT_TRUE(grammar.ok());
  // a-b, c-f, g-z, ! and all others.
  EXPECT_EQ((*grammar)->class_bytes.size(), 5u);
  EXPECT_EQ((*grammar)->class_of['d'], (*grammar)->class_of['c']);
  EXPECT_NE((*grammar)->class_of['a'], (*grammar)->class_of['c']);
}

TEST(GrammarBuilderTest, AMarkIsItsTokenAndTheLongestOneCounts) {
  GrammarBuilder builder;
  builder.AddMark({.text = "<a", .id = 7, .is_free = true});
  builder.AddMark({.text = "<a>", .id = 9, .is_free = true});
  const auto grammar = BuildOf(builder, builder.Marked("x<a><a<b"));
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  EXPECT_THAT((*grammar)->tokens, ::testing::ElementsAre(7, 9));
  EXPECT_TRUE(Takes(*grammar, {'x', -2, -1, '<', 'b'}));
  EXPECT_FALSE(Takes(*grammar, {'x', '<', 'a', '>', -1, '<', 'b'}));
  EXPECT_FALSE(Takes(*grammar, {'x', -1, '>', -1, '<', 'b'}));
  EXPECT_FALSE(Takes(*grammar, {'x', -2, -1, '<'}));
}

TEST(GrammarBuilderTest, MarksAreLimited) {
  for (const size_t n : {Grammar::kMaxTokens, Grammar::kMaxTokens + 1}) {
    GrammarBuilder builder;
    for (size_t i = 0; i < n; ++i) {
      builder.AddMark({.text = absl::StrCat("<", i, ">"),
                       .id = static_cast<int32_t>(i),
                       .is_free = true});
    }
    const auto grammar = BuildOf(builder, builder.Marked("<63>"));
    EXPECT_EQ(grammar.ok(), n == Grammar::kMaxTokens);
    if (grammar.ok()) {
      EXPECT_TRUE(Takes(*grammar, {-64}));
    } else {
      EXPECT_THAT(Message(grammar.status()), HasSubstr("more than 64 tokens"));
    }
  }
}

TEST(GrammarBuilderTest, ARuleWithoutADefinitionIsNamed) {
  GrammarBuilder builder;
  const int32_t lost = builder.NewRule("lost");
  EXPECT_THAT(Message(BuildOf(builder, builder.Rule(lost)).status()),
              HasSubstr("'lost' is not defined"));
}

TEST(GrammarBuilderTest, AChoiceOfNothingCanNeverEnd) {
  GrammarBuilder builder;
  EXPECT_THAT(Message(BuildOf(builder, builder.Choice({})).status()),
              HasSubstr("can never end"));
  GrammarBuilder other;
  const auto grammar =
      BuildOf(other, other.Choice({other.Choice({}), other.Literal("a")}));
  ASSERT_TRUE(grammar.ok());
  EXPECT_TRUE(Matches(*grammar, "a"));
}

TEST(GrammarBuilderTest, AWayThatCannotEndIsNotTaken) {
  GrammarBuilder builder;
  const auto grammar =
      BuildOf(builder, builder.Choice({builder.Sequence({builder.Literal("ab"),
                                                         builder.Choice({})}),
                                       builder.Literal("ac")}));
  ASSERT_TRUE(grammar.ok());
  EXPECT_TRUE(MayBegin(*grammar, "a"));
  EXPECT_FALSE(MayBegin(*grammar, "ab"));
  EXPECT_TRUE(Matches(*grammar, "ac"));
}

TEST(GrammarBuilderTest, LeftRecursionIsFoundBehindWhatMayBeEmpty) {
  GrammarBuilder builder;
  const int32_t a = builder.NewRule("a");
  const int32_t b = builder.NewRule("b");
  const int32_t empty = builder.NewRule("empty");
  builder.Define(empty, builder.Optional(builder.Literal("x")));
  builder.Define(
      a,
      builder.Choice({builder.Sequence({builder.Rule(empty), builder.Rule(b)}),
                      builder.Literal("y")}));
  builder.Define(b, builder.Sequence({builder.Rule(a), builder.Literal("z")}));
  const auto grammar = BuildOf(builder, builder.Rule(a));
  EXPECT_THAT(Message(grammar.status()), HasSubstr("begins with itself"));
  // Not the rule that only leads there.
  EXPECT_THAT(Message(grammar.status()), ::testing::Not(HasSubstr("'root'")));
}

TEST(GrammarBuilderTest, ExpressionsHaveALimit) {
  GrammarBuilder builder;
  const Expr a = builder.Literal("a");
  for (size_t i = 1; i < GrammarBuilder::kMaxExpressions; ++i) {
    builder.Literal("b");
  }
  EXPECT_TRUE(BuildOf(builder, a).ok());
  GrammarBuilder other;
  const Expr b = other.Literal("a");
  for (size_t i = 0; i < GrammarBuilder::kMaxExpressions; ++i) {
    other.Literal("b");
  }
  EXPECT_THAT(Message(BuildOf(other, b).status()),
              HasSubstr("more than 262144 parts"));
}

TEST(GrammarBuilderTest, DepthHasALimit) {
  const auto nested = [](int depth) {
    GrammarBuilder builder;
    Expr expr = builder.Literal("a");
    for (int i = 1; i < depth; ++i) expr = builder.Optional(expr);
    return BuildOf(builder, expr).status();
  };
  EXPECT_TRUE(nested(GrammarBuilder::kMaxDepth).ok());
  EXPECT_THAT(Message(nested(GrammarBuilder::kMaxDepth + 1)),
              HasSubstr("nested more than 512 deep"));
}

TEST(GrammarBuilderTest, CountsHaveALimit) {
  const auto repeated = [](int64_t min, int64_t max) {
    GrammarBuilder builder;
    return BuildOf(builder, builder.Repeat(builder.Literal("a"), min, max))
        .status();
  };
  EXPECT_TRUE(repeated(0, GrammarBuilder::kUnlimited).ok());
  EXPECT_THAT(Message(repeated(Grammar::kMaxRepeat, Grammar::kMaxRepeat)),
              HasSubstr("instructions"));
  EXPECT_THAT(Message(repeated(0, Grammar::kMaxRepeat + 1)),
              HasSubstr("at most 65536"));
  EXPECT_THAT(Message(repeated(2, 1)), HasSubstr("in order"));
}

}  // namespace
}  // namespace plimsoll::worker
