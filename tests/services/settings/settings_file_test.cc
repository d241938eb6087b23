#include "services/settings/settings_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// The entries of [worker].
std::vector<FileEntry> WorkerEntries(const std::string& lines) {
  auto file = ParseSettingsFile("a.toml", "[worker]\n" + lines);
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? file->sections["worker"] : std::vector<FileEntry>();
}

// The error of a whole file.
std::string ErrorOf(const std::string& text) {
  const auto file = ParseSettingsFile("a.toml", text);
  EXPECT_TRUE(absl::IsInvalidArgument(file.status())) << text;
  return std::string(file.status().message());
}

TEST(SettingsFileTest, ReadsTextsNumbersSwitchesAndLists) {
  const auto entries = WorkerEntries(
      "listen = \"0.0.0.0:7070\"\n"
      "slots = 8\n"
      "prompt-share = 0.47\n"
      "lazy = true\n"
      "pin = ['a', 'b']\n"
      "device-memory = [1_024, 2]\n");
  ASSERT_THAT(entries, SizeIs(6));
  EXPECT_THAT(entries[0].values, ElementsAre("0.0.0.0:7070"));
  EXPECT_EQ(entries[0].kind, SettingKind::kSingle);
  EXPECT_THAT(entries[1].values, ElementsAre("8"));
  EXPECT_THAT(entries[2].values, ElementsAre("0.47"));
  EXPECT_THAT(entries[3].values, ElementsAre("true"));
  EXPECT_EQ(entries[3].kind, SettingKind::kSwitch);
  EXPECT_THAT(entries[4].values, ElementsAre("a", "b"));
  EXPECT_EQ(entries[4].kind, SettingKind::kList);
  EXPECT_THAT(entries[5].values, ElementsAre("1024", "2"));
}

TEST(SettingsFileTest, EntriesHaveTheirLinesAndAreInTheirOrder) {
  const auto entries =
      WorkerEntries("\n# a comment\nz = [\n 1\n]\na = 2 # b\n");
  ASSERT_THAT(entries, SizeIs(2));
  EXPECT_EQ(entries[0].where, "a.toml:4");
  EXPECT_EQ(entries[1].where, "a.toml:7");
  EXPECT_EQ(entries[1].key, "a");
}

TEST(SettingsFileTest, AnEmptyFileSaysNothing) {
  const auto file = ParseSettingsFile("a.toml", "");
  ASSERT_TRUE(file.ok());
  EXPECT_THAT(file->sections, IsEmpty());
}

TEST(SettingsFileTest, TextsHaveEscapesOrNone) {
  const auto entries = WorkerEntries(
      "a = \"b\\b t\\t n\\n f\\f r\\r q\\\" s\\\\ # \\u00e9 \\U0001F600\"\n"
      "b = 'a\\n\"# x'  # a comment\n"
      "c = \"\"\n"
      "d = \"\xc3\xa9\ttab\"\n");
  ASSERT_THAT(entries, SizeIs(4));
  EXPECT_THAT(entries[0].values,
              ElementsAre("b\b t\t n\n f\f r\r q\" s\\ # \xc3\xa9 "
                          "\xf0\x9f\x98\x80"));
  EXPECT_THAT(entries[1].values, ElementsAre("a\\n\"# x"));
  EXPECT_THAT(entries[2].values, ElementsAre(""));
  EXPECT_THAT(entries[3].values, ElementsAre("\xc3\xa9\ttab"));
}

TEST(SettingsFileTest, NumbersAreThoseOfToml) {
  const std::pair<const char*, const char*> numbers[] = {
      {"0", "0"},
      {"+7", "7"},
      {"-17", "-17"},
      {"1_000", "1000"},
      {"9223372036854775807", "9223372036854775807"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"3.50", "3.5"},
      {"-0.5", "-0.5"},
      {"5e+22", "5e+22"},
      {"1E06", "1e+06"},
      {"6.6_6e-3", "0.00666"},
      {"inf", "inf"},
      {"-inf", "-inf"},
      {"+nan", "nan"}};
  for (const auto& [written, read] : numbers) {
    const auto entries = WorkerEntries(absl::StrCat("a = ", written, "\n"));
    ASSERT_THAT(entries, SizeIs(1)) << written;
    EXPECT_THAT(entries[0].values, ElementsAre(read));
  }
  for (const char* word : {"07", "1__0", "_1", "1_", "1.", ".5", "1.e3", "1e",
                           "1e+", "0x10", "--1", "+", "12GiB", "1:2",
                           "infinity", "9223372036854775808", "True"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("[worker]\na = ", word, "\n")),
                StartsWith("a.toml:2: a must be a text in quotes, a number"))
        << word;
  }
}

TEST(SettingsFileTest, AListMayHaveLinesAndComments) {
  const auto entries = WorkerEntries(
      "a = [ # one\n  'x', # two\n\n  3,\n]\nb = []\nc = ['y'] # z\n");
  ASSERT_THAT(entries, SizeIs(3));
  EXPECT_THAT(entries[0].values, ElementsAre("x", "3"));
  EXPECT_THAT(entries[1].values, IsEmpty());
  EXPECT_THAT(entries[2].values, ElementsAre("y"));
}

TEST(SettingsFileTest, LinesMayEndAsOnOtherSystems) {
  const auto file =
      ParseSettingsFile("a.toml", "\xef\xbb\xbf[worker]\r\na = 1\r\n# b\r\n");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->sections.at("worker"), SizeIs(1));
}

TEST(SettingsFileTest, AMistakeHasItsLine) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"[worker]\nslots 8\n", "2: a line is [SECTION], KEY = VALUE, or"},
      {"[worker]\nslots: 8\n", "2: a line is [SECTION], KEY = VALUE, or"},
      {"[worker]\n= 8\n", "2: a line is [SECTION], KEY = VALUE, or"},
      {"[worker]\n\"a\" = 8\n", "2: a line is [SECTION], KEY = VALUE, or"},
      {"[worker]\na =\n", "2: a must be a text in quotes"},
      {"[worker]\na = b\n", "2: a must be a text in quotes"},
      {"[worker]\na = 1 2\n", "2: one line has one section or one value"},
      {"[worker] a = 1\n", "1: one line has one section or one value"},
      {"[worker]\na = 1\rb = 2\n", "2: one line has one section or one value"},
      {"[worker]\na = 'b\n'\n", "2: a text ends with its quote on the same"},
      {"[worker]\na = \"b", "2: a text ends with its quote on the same"},
      {"[worker]\na = \"\"\"b\"\"\"\n", "2: a text has one line"},
      {"[worker]\na = '''b'''\n", "2: a text has one line"},
      {"[worker]\na = '\x1b'\n", "2: a text has control characters as"},
      {"[worker]\na = \"\\x\"\n", "2: after \\ comes"},
      {"[worker]\na = \"\\", "2: after \\ comes"},
      {"[worker]\na = \"\\u00e\"\n", "2: after \\ comes"},
      {"[worker]\na = \"\\uD800\"\n", "2: after \\ comes"},
      {"[worker]\na = \"\\U00110000\"\n", "2: after \\ comes"},
      {"[worker]\na = [1\n2]\n", "3: the list of a has values with commas"},
      {"[worker]\na = [1,,2]\n", "2: a must be a text in quotes"},
      {"[worker]\na = [1,\n2", "3: the list of a has values with commas"},
      {"[worker]\na = [1,\n", "3: the list of a has no end"},
      {"[worker\n", "1: a section begins with its name in brackets"},
      {"[\n", "1: a section begins with its name in brackets"},
      {"[]\n", "1: a section begins with its name in brackets"},
      {"[[worker]]\n", "1: a section begins with its name in brackets"},
      {"[worker]\na = 1\nb = 2\na = 3\n", "4: a is there already, at a.toml:2"},
      {"[worker]\n[planner]\na = 1\n[worker]\n",
       "4: [worker] is there already, at a.toml:1"}};
  for (const auto& [text, error] : mistakes) {
    EXPECT_THAT(ErrorOf(text), StartsWith(absl::StrCat("a.toml:", error)))
        << text;
  }
  EXPECT_THAT(ErrorOf("[worker]\npin = " + std::string(100'000, '[')),
              StartsWith("a.toml:2: pin must be"));
  EXPECT_EQ(ErrorOf("[worker]\na = '\xff'\n"), "a.toml: is not text in UTF-8");
}

TEST(SettingsFileTest, TheSameKeyMayBeInTwoSections) {
  EXPECT_TRUE(
      ParseSettingsFile("a.toml", "[worker]\na = 1\n[planner]\na = 1\n").ok());
}

TEST(SettingsFileTest, AnUnknownSectionHasTheNearest) {
  EXPECT_EQ(ErrorOf("\n[wroker]\n"),
            "a.toml:2: there is no section [wroker]; did you mean worker?");
  EXPECT_EQ(ErrorOf("[worker.a]\n"),
            "a.toml:1: there is no section [worker.a]; did you mean worker?");
}

TEST(SettingsFileTest, AKeyOutsideOfASectionIsRefused) {
  EXPECT_EQ(ErrorOf("listen = 'a'\n[worker]\n"),
            "a.toml:1: listen stands outside of a section; put it below "
            "[planner] or [worker] or [serve] or [gateway]");
}

TEST(SettingsFileTest, OtherValuesAreRefusedInEverySection) {
  constexpr char kAllowed[] =
      " must be a text in quotes, a number, true or false, or a list of texts "
      "and numbers";
  for (const char* value : {"1979-05-27", "07:32:00", "{ b = 1 }"}) {
    EXPECT_EQ(ErrorOf(absl::StrCat("[planner]\na = ", value, "\n")),
              absl::StrCat("a.toml:2: a", kAllowed));
  }
  EXPECT_EQ(ErrorOf("[worker]\na = [\n'x',\ntrue]\n"),
            absl::StrCat("a.toml:4: a", kAllowed));
  EXPECT_EQ(ErrorOf("[worker]\na = [['x']]\n"),
            absl::StrCat("a.toml:2: a", kAllowed));
}

TEST(SettingsFileTest, AMessageShowsTheBeginningOfALongKey) {
  const std::string key(200, 'k');
  EXPECT_THAT(ErrorOf(key + " = 1\n"),
              StartsWith("a.toml:1: " + std::string(64, 'k') + " stands"));
}

TEST(SettingsFileTest, ReadsFilesUpToTheLimit) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.File("a.toml");
  const std::string text = "[worker]\nslots = 8\n#";
  const auto write = [&](size_t bytes) {
    std::ofstream(path) << text << std::string(bytes - text.size(), 'x');
  };
  write(kMaxSettingsBytes);
  const auto whole = ReadSettingsFile(path);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_THAT(whole->sections.at("worker"), SizeIs(1));
  write(kMaxSettingsBytes + 1);
  EXPECT_EQ(ReadSettingsFile(path).status().message(),
            absl::StrCat(path, ": has more than 1048576 bytes"));
}

TEST(SettingsFileTest, AMissingFileIsNamed) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(
      ReadSettingsFile(folder.File("no.toml")).status().message(),
      absl::StrCat(folder.File("no.toml"), ": No such file or directory"));
  EXPECT_EQ(ReadSettingsFile(folder.File("")).status().message(),
            absl::StrCat(folder.File(""), ": Is a directory"));
}

}  // namespace
}  // namespace plimsoll::services
