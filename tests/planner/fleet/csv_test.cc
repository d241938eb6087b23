#include "planner/fleet/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "absl/strings/str_cat.h"

namespace plimsoll::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::array<absl::string_view, 3> kColumns = {"name", "size", "note"};
constexpr int64_t kMaxRows = 2;

absl::StatusOr<std::vector<CsvRow>> ParseRows(absl::string_view text) {
  return ParseCsv(text, kColumns, kMaxRows);
}

std::string RefusalOf(absl::string_view text) {
  const auto rows = ParseRows(text);
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(rows.status().message());
}

TEST(ParseCsvTest, SkipsCommentsAndBlankLinesAndTrimsCells) {
  const auto rows =
      ParseRows("# about\n\nname,size,note\r\n a , 1 ,x\n  \n#b,2,y\nc,3,\n");
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_THAT((*rows)[0].cells, ElementsAre("a", "1", "x"));
  EXPECT_EQ((*rows)[0].line, 4);
  EXPECT_THAT((*rows)[1].cells, ElementsAre("c", "3", ""));
  EXPECT_EQ((*rows)[1].line, 7);
}

TEST(ParseCsvTest, TheLastColumnTakesTheRestOfTheLine) {
  const auto rows = ParseRows("name,size,note\na,1,x, y, \"z\"");
  ASSERT_TRUE(rows.ok());
  EXPECT_THAT((*rows)[0].cells, ElementsAre("a", "1", "x, y, \"z\""));
}

TEST(ParseCsvTest, ErrorsNameLineAndColumn) {
  EXPECT_EQ(RefusalOf("name,size,note\n,1,x"),
            "line 2, column name: nothing is there");
  EXPECT_EQ(RefusalOf("name,size,note\na,,x"),
            "line 2, column size: nothing is there");
  EXPECT_EQ(RefusalOf("name,size,note\na,1"),
            "line 2, column note: nothing is there");
  EXPECT_EQ(RefusalOf("name,size,note\na,1,\xc3\xa4"),
            "line 2, column note: only plain ASCII is allowed");
  EXPECT_THAT(RefusalOf("name,size,note\na,1,x\ty"), HasSubstr("column note"));
}

TEST(ParseCsvTest, ANotherOrNoFirstLineIsRefused) {
  EXPECT_EQ(RefusalOf("\nname,note\na,1"),
            "line 2: the first line must be 'name,size,note'");
  EXPECT_EQ(RefusalOf("# nothing\n"),
            "the first line 'name,size,note' is not there");
}

TEST(ParseCsvTest, WorksAtEachLimitAndRefusesOneMore) {
  const std::string header = "name,size,note\n";
  EXPECT_TRUE(ParseRows(header + "a,1,x\nb,2,y").ok());
  EXPECT_EQ(RefusalOf(header + "a,1,x\nb,2,y\nc,3,z"),
            "line 4: more than 2 rows");

  const std::string longest(CsvRow::kMaxCellBytes, 'x');
  EXPECT_TRUE(ParseRows(absl::StrCat(header, "a,1,", longest)).ok());
  EXPECT_EQ(RefusalOf(absl::StrCat(header, "a,1,x", longest)),
            "line 2, column note: longer than 256 characters");

  const std::string blanks(
      static_cast<size_t>(CsvRow::kMaxTextBytes) - header.size(), '\n');
  EXPECT_TRUE(ParseRows(header + blanks).ok());
  EXPECT_EQ(RefusalOf(header + blanks + "\n"),
            "the table has more than 1048576 bytes");
}

CsvRow RowOf(absl::string_view name, absl::string_view size) {
  return {7, kColumns, {name, size, ""}};
}

TEST(CsvRowTest, NumbersAreWholeAndInTheirRange) {
  EXPECT_EQ(*RowOf("a", "1").Number(1, 1, 9), 1);
  EXPECT_EQ(*RowOf("a", "9").Number(1, 1, 9), 9);
  for (const char* bad :
       {"0", "10", "x", "1.5", "2 GiB", "-1", "99999999999999999999"}) {
    EXPECT_EQ(RowOf("a", bad).Number(1, 1, 9).status().message(),
              absl::StrCat("line 7, column size: '", bad,
                           "' is not a whole number from 1 to 9"));
  }
}

TEST(CsvRowTest, NamesAreOfFewCharacters) {
  EXPECT_EQ(*RowOf("rtx-4090_a.b/1", "1").Name(0), "rtx-4090_a.b/1");
  for (const char* bad : {"", "a b", "a:1", "a,b", "@"}) {
    EXPECT_THAT(std::string(RowOf(bad, "1").Name(0).status().message()),
                HasSubstr("line 7, column name: '"));
  }
}

}  // namespace
}  // namespace plimsoll::planner
