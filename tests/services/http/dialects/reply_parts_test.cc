#include "services/http/dialects/reply_parts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/services/http/dialects/named_events_fixture.h"

namespace plimsoll::services {
namespace {

class ReplyPartsTest : public NamedEventsTest {
 protected:
  static std::string Show(const std::vector<PartOrder::Step>& steps) {
    std::string shown;
    for (const PartOrder::Step& step : steps) {
      if (step.piece != nullptr) {
        absl::StrAppend(&shown, step.piece->name(), step.piece->arguments());
      } else {
        absl::StrAppend(&shown, step.had_pieces ? ";" : "!");
      }
    }
    return shown;
  }
  // A part's steps before its text, the text, and its steps behind it.
  std::string Show(const Part& part) {
    const PartOrder::Parts parts = order_.Of(part);
    return absl::StrCat(Show(parts.first), "|", parts.text, "|",
                        Show(parts.then));
  }

  PartOrder order_;
};

TEST_F(ReplyPartsTest, TextComesBeforeTheCallsOfAPart) {
  Part part = Text("a");
  part.MergeFrom(Piece(0, "f", "{}"));
  part.MergeFrom(Call("f", "{}"));
  part.MergeFrom(Call("g", "{}"));
  part.MergeFrom(Piece(2, "h", "{"));
  EXPECT_EQ(Show(part), "|a|f{};!h{");
}

TEST_F(ReplyPartsTest, NothingStandsBetweenThePiecesOfACall) {
  EXPECT_EQ(Show(Piece(0, "f", "{")), "||f{");
  EXPECT_EQ(Show(Text("")), "||");
  EXPECT_EQ(Show(Piece(0, "", "1")), "1||");
  Part part = Text("a");
  part.MergeFrom(Piece(0, "", "}"));
  part.MergeFrom(Call("f", "{1}"));
  part.MergeFrom(Piece(1, "g", "{}"));
  part.MergeFrom(Call("g", "{}"));
  EXPECT_EQ(Show(part), "};|a|g{};");
  EXPECT_EQ(Show(Text("b")), "|b|");
}

TEST_F(ReplyPartsTest, ALoadIsAComment) {
  std::string events = "data: x\n\n";
  AppendLoadComment(42, events);
  EXPECT_EQ(events, "data: x\n\n: loading 42 %\n\n");
}

TEST_F(ReplyPartsTest, ABrokenCallIsTextUnlessItHadPieces) {
  EXPECT_EQ(Show(BrokenCall()), "|call:f{|!");
  EXPECT_EQ(Show(Piece(1, "f", "{")), "||f{");
  EXPECT_EQ(Show(BrokenCall()), ";||");
  EXPECT_EQ(PlainText(BrokenCall()), "call:f{");
}

}  // namespace
}  // namespace plimsoll::services
