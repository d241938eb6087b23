#include "services/http/dialects/reply_deltas.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/services/http/dialects/named_events_fixture.h"

namespace plimsoll::services {
namespace {

class ReplyDeltasTest : public NamedEventsTest {
 protected:
  static std::string Show(const std::vector<DeltaOrder::Step>& steps) {
    std::string shown;
    for (const DeltaOrder::Step& step : steps) {
      if (step.piece != nullptr) {
        absl::StrAppend(&shown, step.piece->name(), step.piece->arguments());
      } else {
        absl::StrAppend(&shown, step.had_pieces ? ";" : "!");
      }
    }
    return shown;
  }
  // A part's steps before its text, the text, and its steps behind it.
  std::string Show(const Delta& delta) {
    const DeltaOrder::Ordered ordered = order_.Of(delta);
    return absl::StrCat(Show(ordered.first), "|", ordered.text, "|",
                        Show(ordered.then));
  }

  DeltaOrder order_;
};

TEST_F(ReplyDeltasTest, TextComesBeforeTheCallsOfADelta) {
  Delta delta = Text("a");
  delta.MergeFrom(Piece(0, "f", "{}"));
  delta.MergeFrom(Call("f", "{}"));
  delta.MergeFrom(Call("g", "{}"));
  delta.MergeFrom(Piece(2, "h", "{"));
  EXPECT_EQ(Show(delta), "|a|f{};!h{");
}

TEST_F(ReplyDeltasTest, NothingStandsBetweenThePiecesOfACall) {
  EXPECT_EQ(Show(Piece(0, "f", "{")), "||f{");
  EXPECT_EQ(Show(Text("")), "||");
  EXPECT_EQ(Show(Piece(0, "", "1")), "1||");
  Delta delta = Text("a");
  delta.MergeFrom(Piece(0, "", "}"));
  delta.MergeFrom(Call("f", "{1}"));
  delta.MergeFrom(Piece(1, "g", "{}"));
  delta.MergeFrom(Call("g", "{}"));
  EXPECT_EQ(Show(delta), "};|a|g{};");
  EXPECT_EQ(Show(Text("b")), "|b|");
}

TEST_F(ReplyDeltasTest, ALoadIsAComment) {
  std::string events = "data: x\n\n";
  AppendLoadComment(42, events);
  EXPECT_EQ(events, "data: x\n\n: loading 42 %\n\n");
}

TEST_F(ReplyDeltasTest, ABrokenCallIsTextUnlessItHadPieces) {
  EXPECT_EQ(Show(BrokenCall()), "|call:f{|!");
  EXPECT_EQ(Show(Piece(1, "f", "{")), "||f{");
  EXPECT_EQ(Show(BrokenCall()), ";||");
  EXPECT_EQ(PlainText(BrokenCall()), "call:f{");
}

}  // namespace
}  // namespace plimsoll::services
