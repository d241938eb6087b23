// `plimsoll what-if` and `plimsoll models describe`: maps, tables and pictures.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "services/cli/commands/cli.h"
#include "services/cli/views/what_if_svg.h"
#include "services/cli/views/what_if_view.h"
#include "tests/planner/tiny_models.h"
#include "tests/read_file.h"
#include "tests/services/cli/run_cli.h"

namespace plimsoll::cli {
namespace {

using ::plimsoll::testing::ReadFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::vector<std::string> LinesOf(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

// A tiny model's file.
class WhatIfCliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              absl::StrCat("plimsoll-what-if-", ::getpid());
    std::filesystem::create_directories(folder_);
    model_ = (folder_ / "tiny.gguf").string();
    planner::TinyModel tiny;
    tiny.n_ctx = 16'384;
    tiny.n_heads = 2;
    tiny.n_kv_heads = 1;
    tiny.head_dim = 32;
    std::ofstream(model_, std::ios::binary) << planner::BuilderOf(tiny).Build();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  CliResult WhatIf(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"what-if", model_});
    return RunCli(flags);
  }

  std::filesystem::path folder_;
  std::string model_;
};

TEST_F(WhatIfCliTest, AMapHasARowForEachContextAndAColumnForEachSlots) {
  const CliResult result = WhatIf({"--device-memory", "40MiB", "--n-ctx",
                                   "2048,16384,auto", "--slots", "1,4"});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  const std::vector<std::string> lines = LinesOf(result.out);
  EXPECT_EQ(lines[0], "tiny.gguf");
  EXPECT_THAT(lines[1], HasSubstr("device 40.0 MiB"));
  EXPECT_THAT(lines[2], HasSubstr("n-ctx \\ slots"));
  EXPECT_THAT(lines[3], HasSubstr("2,048"));
  EXPECT_THAT(lines[4], HasSubstr("16,384"));
  EXPECT_THAT(lines[5], HasSubstr("auto"));
  EXPECT_THAT(result.out, HasSubstr("over the load line"));
  EXPECT_THAT(result.out, HasSubstr("Nothing in the grid beats these"));
}

TEST_F(WhatIfCliTest, EveryLineFitsIn80ColumnsHoweverManyValues) {
  const CliResult result = WhatIf(
      {"--device-memory", "40MiB,48MiB", "--slots",
       "1,2,3,4,5,6,7,8,9,10,11,12,1000,4096", "--n-ctx", "64,16384,auto",
       "--kv-type", "f16,f32/q8_0", "--weights", "file,f32,q4_0"});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  for (const std::string& line : LinesOf(result.out)) {
    EXPECT_THAT(Columns(line), Le(80)) << line;
    EXPECT_NE(line.back(), ' ') << line;
  }
  // 2 devices, 3 types of weights, 2 of keys and values.
  EXPECT_THAT(result.out,
              HasSubstr("device 48.0 MiB, weights q4_0, kv-type f32/q8_0"));
}

TEST_F(WhatIfCliTest, TheAxesOfTheMapCanBeChosen) {
  const CliResult chosen = WhatIf({"--device-memory", "40MiB,1GiB", "--rows",
                                   "device", "--columns", "n-ctx"});
  EXPECT_THAT(chosen.out, HasSubstr("device \\ n-ctx"));
  // An axis of one value makes room for one that has more.
  const CliResult moved = WhatIf(
      {"--device-memory", "1GiB", "--slots", "2", "--kv-type", "f16,f32"});
  EXPECT_THAT(moved.out, HasSubstr("n-ctx \\ kv-type"));
  const CliResult twice = WhatIf({"--rows", "slots", "--columns", "slots"});
  EXPECT_EQ(twice.code, kExitUsage);
  EXPECT_THAT(twice.err, HasSubstr("both slots"));
  const CliResult single = WhatIf({"--n-ctx", "64", "--slots", "1"});
  EXPECT_THAT(single.out, HasSubstr("n-ctx \\ slots"));
}

TEST_F(WhatIfCliTest, CsvHasALineForEachPoint) {
  const CliResult result =
      WhatIf({"--device-memory", "30MiB,1GiB", "--n-ctx", "64,auto",
              "--weights", "file,q4_0", "-o", "csv"});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  const std::vector<std::string> lines = LinesOf(result.out);
  ASSERT_THAT(lines, SizeIs(1 + 2 * 2 * 4 * 2));
  const std::vector<std::string> header = absl::StrSplit(lines[0], ',');
  EXPECT_EQ(header.front(), "device");
  EXPECT_EQ(header.back(), "frontier");
  for (const std::string& line : lines) {
    EXPECT_THAT(std::vector<std::string>(absl::StrSplit(line, ',')),
                SizeIs(header.size()))
        << line;
  }
  EXPECT_THAT(lines[1], StartsWith("30.0 MiB,31457280,file,f16,f16,512,1,64,"));
  EXPECT_THAT(lines.back(),
              StartsWith("1.0 GiB,1073741824,q4_0,f16,f16,512,8,auto,16384,"));
}

TEST_F(WhatIfCliTest, JsonIsTheMessage) {
  const CliResult result = WhatIf({"--device-memory", "1GiB", "-o", "json"});
  v1::WhatIfResponse all;
  ASSERT_TRUE(
      google::protobuf::util::JsonStringToMessage(result.out, &all).ok());
  EXPECT_EQ(all.n_points(), static_cast<uint32_t>(all.points_size()));
  // 2,048, 8,192 and auto times 4.
  EXPECT_EQ(all.points_size(), 12);
  EXPECT_THAT(all.frontier(), Not(IsEmpty()));
}

TEST_F(WhatIfCliTest, NothingThatFitsIsExitCodeThree) {
  const CliResult table = WhatIf({"--device-memory", "1MiB"});
  EXPECT_EQ(table.code, kExitDoesNotFit);
  EXPECT_THAT(table.out, HasSubstr("Nothing fits"));
  const CliResult csv = WhatIf({"--device-memory", "1MiB", "-o", "csv"});
  EXPECT_EQ(csv.code, kExitDoesNotFit);
  EXPECT_THAT(csv.err, HasSubstr("none of the plans fits"));
}

TEST_F(WhatIfCliTest, BadListsAreUsageErrors) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> lines = {
      {{"--n-ctx", "64,,128"}, "--n-ctx"},
      {{"--slots", "1,4097"}, "from 1 to 4096"},
      {{"--n-ubatch", "0"}, "--n-ubatch"},
      {{"--kv-type", "f16/f16/f16"}, "KEYS/VALUES"},
      {{"--kv-type", "f17"}, "f17"},
      {{"--weights", "file,q9"}, "q9"},
      {{"--device-memory", "1GiB,2GB"}, "GiB"},
      {{"--device", "cpu"}, "--planner"},
      {{"--device", "a,,b"}, "empty"},
      {{"--address", "localhost:1"}, "--planner"},
      {{"--rows", "height"}, "n-ctx"}};
  for (const auto& [flags, text] : lines) {
    const CliResult result = WhatIf(flags);
    EXPECT_EQ(result.code, kExitUsage) << absl::StrJoin(flags, " ");
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_THAT(result.out, IsEmpty());
  }
  EXPECT_THAT(RunCli({"what-if"}).err, HasSubstr("there is no model"));
}

TEST_F(WhatIfCliTest, ThePictureIsWrittenBesideTheTable) {
  const std::string path = (folder_ / "map.svg").string();
  const CliResult result = WhatIf({"--device-memory", "40MiB", "--svg", path});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  EXPECT_THAT(result.out, HasSubstr("load line"));
  const std::string svg = ReadFile(path);
  EXPECT_THAT(svg, StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr("tiny.gguf"));
  const CliResult missing =
      WhatIf({"--svg", (folder_ / "no" / "map.svg").string()});
  EXPECT_EQ(missing.code, kExitError);
  EXPECT_THAT(missing.err, HasSubstr("could not be written"));
}

TEST_F(WhatIfCliTest, ModelsAreDescribed) {
  const CliResult page = RunCli({"models", "describe", model_});
  EXPECT_EQ(page.code, kExitOk) << page.err;
  EXPECT_THAT(page.out, HasSubstr("16,384 tokens of context"));
  EXPECT_THAT(page.out, HasSubstr("q8_0"));
  for (const std::string& line : LinesOf(page.out)) {
    EXPECT_THAT(Columns(line), Le(80)) << line;
  }
  const CliResult json = RunCli({"models", "describe", model_, "-o", "json"});
  EXPECT_THAT(json.out, HasSubstr("\"n_ctx_train\": 16384"));
  EXPECT_EQ(RunCli({"models", "describe"}).code, kExitUsage);
  EXPECT_EQ(RunCli({"models", "describe", "no/such"}).code, kExitError);
  EXPECT_EQ(RunCli({"models", "describe", "m", "--address", "x:1"}).code,
            kExitUsage);
  EXPECT_THAT(RunCli({"models", "describe", "--help"}).out,
              HasSubstr("Usage: plimsoll models describe FILE"));
}

// An answer of `rows` contexts and `columns` slots whose points take from 10 %
// of the budget upwards, 10 % more each.
GridAnswer Answer(size_t rows, size_t columns) {
  GridAnswer answer;
  answer.title = "a <b> & \"c\"";
  for (auto& labels : answer.labels) labels = {"x"};
  answer.labels[4].clear();
  answer.labels[5].clear();
  for (size_t c = 0; c < columns; ++c) {
    answer.labels[4].push_back(absl::StrCat(c + 1));
  }
  for (size_t r = 0; r < rows; ++r) {
    answer.labels[5].push_back(absl::StrCat(1'000 * (r + 1)));
  }
  for (size_t i = 0; i < rows * columns; ++i) {
    v1::WhatIfPoint& point = *answer.all.add_points();
    point.set_budget_bytes(1'000);
    point.set_total_bytes(100 * (i + 1));
    point.set_fits(point.total_bytes() <= 1'000);
    point.set_can_run(true);
    point.set_wanted_ctx(64);
    point.set_n_ctx(64);
  }
  answer.all.add_frontier(0);
  return answer;
}

TEST(HeatTest, IsByTheShareOfTheBudget) {
  const GridAnswer answer = Answer(1, 11);
  std::vector<Heat> heats;
  for (const v1::WhatIfPoint& point : answer.all.points()) {
    heats.push_back(HeatOf(point));
  }
  EXPECT_THAT(heats,
              ElementsAre(Heat::kLow, Heat::kLow, Heat::kLow, Heat::kLow,
                          Heat::kLow, Heat::kMiddle, Heat::kMiddle, Heat::kHigh,
                          Heat::kHigh, Heat::kFull, Heat::kOver));
  v1::WhatIfPoint point = answer.all.points(0);
  point.set_can_run(false);
  EXPECT_EQ(HeatOf(point), Heat::kCannot);
}

TEST(CellTextTest, NeverRoundsAcrossTheLoadLine) {
  v1::WhatIfPoint point;
  point.set_wanted_ctx(64);
  point.set_n_ctx(64);
  point.set_budget_bytes(10'000);
  point.set_total_bytes(9'999);
  point.set_fits(true);
  EXPECT_EQ(CellText(point), "99%");
  point.set_total_bytes(10'001);
  point.set_fits(false);
  EXPECT_EQ(CellText(point), "101%");
  point.set_total_bytes(1'000'000);
  EXPECT_EQ(CellText(point), ">999%");
  point.set_budget_bytes(0);
  EXPECT_EQ(CellText(point), ">999%");
  point.set_wanted_ctx(0);
  point.set_fits(true);
  point.set_n_ctx(12'345);
  EXPECT_EQ(CellText(point), "12,345");
}

TEST(RenderGridTest, ToTheCharacter) {
  const GridAnswer answer = Answer(2, 6);
  const auto panels = PanelsOf(answer, {});
  ASSERT_TRUE(panels.ok());
  ASSERT_THAT(*panels, SizeIs(1));
  Style style;
  const std::vector<std::string> lines =
      LinesOf(RenderGrid(answer, {}, *panels, style));
  // The context runs fastest.
  EXPECT_EQ(lines[2],
            "  n-ctx \\ slots        1         2         3         4         5"
            "         6");
  EXPECT_EQ(lines[3],
            "           1000  ..  10%*  ..  30%   ..  50%   --  70%   ++  90%"
            "   !! 111%");
  EXPECT_EQ(lines[4],
            "           2000  ..  20%   ..  40%   --  60%   ++  80%   ## 100%"
            "   !! 121%");
  style.utf8 = true;
  EXPECT_THAT(RenderGrid(answer, {}, *panels, style), HasSubstr("██ 100%"));
  EXPECT_THAT(RenderGrid(answer, {}, *panels, style), Not(HasSubstr("\033")));
  style.color = true;
  EXPECT_THAT(RenderGrid(answer, {}, *panels, style),
              HasSubstr("\033[31m!! 111%"));
}

TEST(RenderGridTest, ManyMapsAreCut) {
  GridAnswer answer = Answer(30, 1);
  std::swap(answer.labels[0], answer.labels[5]);
  const auto panels = PanelsOf(answer, {});
  ASSERT_TRUE(panels.ok());
  ASSERT_THAT(*panels, SizeIs(30));
  EXPECT_THAT(RenderGrid(answer, {}, *panels, Style()),
              HasSubstr("and 6 more maps; -o csv has all"));
}

TEST(PanelsOfTest, AnswersThatAreNotWholeAreRefused) {
  GridAnswer few = Answer(2, 2);
  few.all.mutable_points()->RemoveLast();
  EXPECT_EQ(PanelsOf(few, {}).status().code(), absl::StatusCode::kInternal);
  GridAnswer wrong = Answer(2, 2);
  wrong.all.add_frontier(4);
  EXPECT_EQ(PanelsOf(wrong, {}).status().code(), absl::StatusCode::kInternal);
}

TEST(PanelsOfTest, AMarkOnAllThatFitsIsLeftOut) {
  GridAnswer answer = Answer(1, 2);
  EXPECT_TRUE((*PanelsOf(answer, {}))[0].rows[0][0].is_best);
  answer.all.add_frontier(1);
  EXPECT_FALSE((*PanelsOf(answer, {}))[0].rows[0][0].is_best);
}

TEST(RenderCsvTest, QuotesWhatHasCommas) {
  GridAnswer answer = Answer(1, 1);
  answer.labels[0] = {"a \"big\", old card"};
  EXPECT_THAT(RenderCsv(answer), HasSubstr("\n\"a \"\"big\"\", old card\","));
}

// Every tag that is opened is closed, and nothing looks like markup that is
// none.
void ExpectWellFormed(const std::string& xml) {
  std::vector<std::string> open;
  size_t at = 0;
  while ((at = xml.find('<', at)) != std::string::npos) {
    const size_t end = xml.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '/') {
      ASSERT_THAT(open, Not(IsEmpty()));
      ASSERT_EQ(tag.substr(1), open.back());
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end;
  }
  EXPECT_THAT(open, IsEmpty());
  for (at = 0; (at = xml.find('&', at)) != std::string::npos; ++at) {
    EXPECT_LE(xml.find(';', at) - at, 5u);
  }
}

TEST(RenderSvgTest, IsWellFormedAndSmallAtTheLimit) {
  const GridAnswer answer = Answer(20, kMaxSvgCells / 20);
  const auto svg = RenderSvg(answer, {}, *PanelsOf(answer, {}));
  ASSERT_TRUE(svg.ok()) << svg.status();
  ExpectWellFormed(*svg);
  EXPECT_LE(svg->size(), kMaxSvgBytes);
  EXPECT_THAT(*svg, HasSubstr("a &lt;b&gt; &amp; &quot;c&quot;"));
  EXPECT_THAT(*svg, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(*svg, Not(HasSubstr("script")));
}

TEST(RenderSvgTest, MoreCellsThanTheLimitAreRefused) {
  const GridAnswer answer = Answer(kMaxSvgCells + 1, 1);
  const auto svg = RenderSvg(answer, {}, *PanelsOf(answer, {}));
  EXPECT_EQ(svg.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(svg.status().message()), HasSubstr("401 cells"));
}

TEST(RenderSvgTest, MoreBytesThanTheLimitAreRefused) {
  // A map of its own for each point, with a long heading.
  GridAnswer answer = Answer(kMaxSvgCells, 1);
  std::swap(answer.labels[0], answer.labels[5]);
  for (std::string& label : answer.labels[0]) {
    label.append(kMaxSvgTextBytes, '&');
  }
  const auto svg = RenderSvg(answer, {}, *PanelsOf(answer, {}));
  EXPECT_EQ(svg.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(svg.status().message()), HasSubstr("bytes"));
}

TEST(RenderSvgTest, TheLoadLineRunsBetweenWhatFitsAndWhatDoesNot) {
  GridAnswer answer = Answer(1, 3);
  const auto lines = [&] {
    const std::string svg = *RenderSvg(answer, {}, *PanelsOf(answer, {}));
    return std::vector<std::string>(absl::StrSplit(svg, "class=\"l\"")).size() -
           1;
  };
  EXPECT_EQ(lines(), 1u);  // the legend's
  answer.all.mutable_points(2)->set_fits(false);
  EXPECT_EQ(lines(), 2u);
  answer.all.mutable_points(1)->set_fits(false);
  EXPECT_EQ(lines(), 2u);
  std::swap(answer.labels[4], answer.labels[5]);
  EXPECT_EQ(lines(), 2u);
}

TEST(RenderSvgTest, TextThatIsNoUtf8IsReplaced) {
  GridAnswer answer = Answer(1, 1);
  answer.title = "caf\xe9\x01 \xc3\xa9";
  const auto svg = RenderSvg(answer, {}, *PanelsOf(answer, {}));
  EXPECT_THAT(*svg, HasSubstr("<title>caf?"
                              "? ?"
                              "?</title>"));
  answer.title = "caf\xc3\xa9";
  EXPECT_THAT(*RenderSvg(answer, {}, *PanelsOf(answer, {})),
              HasSubstr("<title>caf\xc3\xa9</title>"));
}

}  // namespace
}  // namespace plimsoll::cli
