// Completion scripts, and bash itself completing with one.
#include "services/cli/commands/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/cli/commands/cli.h"
#include "tests/services/cli/run_cli.h"

namespace plimsoll::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

TEST(HintOfTest, ReadsTheHelpsTypeNames) {
  EXPECT_THAT(HintOf("N|auto|max").values, ElementsAre("auto", "max"));
  EXPECT_FALSE(HintOf("N|auto|max").is_list);
  EXPECT_TRUE(HintOf("N|auto|max,...").is_list);
  EXPECT_TRUE(HintOf("FILE").is_file);
  EXPECT_THAT(HintOf("HOST:PORT").values, IsEmpty());
  EXPECT_THAT(HintOf("TYPE[/TYPE],...").values, Contains("q8_0").Times(1));
  EXPECT_THAT(HintOf("").values, IsEmpty());
}

TEST(CompletionTest, KnowsTheThreeShells) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const CliResult result = RunCli({"completion", shell});
    EXPECT_EQ(result.code, kExitOk);
    for (const char* word : {"what-if", "describe", "n-ubatch", "completion"}) {
      EXPECT_THAT(result.out, HasSubstr(word)) << shell;
    }
  }
  const CliResult other = RunCli({"completion", "tcsh"});
  EXPECT_EQ(other.code, kExitUsage);
  EXPECT_THAT(other.err, HasSubstr("bash, zsh and fish"));
  EXPECT_EQ(RunCli({"completion"}).code, kExitUsage);
}

// A shell's standard output, or nothing if it cannot be run.
std::optional<std::string> OutputOf(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string out;
  std::array<char, 4'096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) {
    out.append(buffer.data(), n);
  }
  if (pclose(pipe) != 0) return std::nullopt;
  return out;
}

class ShellTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              absl::StrCat("plimsoll-completion-", ::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  }

  std::filesystem::path folder_;
};

class BashTest : public ShellTest {
 protected:
  void SetUp() override {
    ShellTest::SetUp();
    if (!OutputOf("bash -c true")) GTEST_SKIP() << "there is no bash";
    script_ = Write("plimsoll.bash", RunCli({"completion", "bash"}).out);
    Write("some model.gguf", "");
  }

  // What bash offers for the last of `words`.
  std::vector<std::string> Complete(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) {
      absl::StrAppend(&line, " '", word, "'");
    }
    const std::string test =
        Write("test.bash",
              absl::StrCat("set -u\ncd '", folder_.string(), "'\nsource ",
                           script_, "\nCOMP_WORDS=(plimsoll", line,
                           ")\nCOMP_CWORD=", words.size(),
                           "\n_plimsoll\nprintf '%s\\n' ${COMPREPLY[@]+\"${"
                           "COMPREPLY[@]}\"}\n"));
    const auto out = OutputOf(absl::StrCat("bash ", test));
    EXPECT_TRUE(out.has_value()) << line;
    return absl::StrSplit(out.value_or(""), '\n', absl::SkipEmpty());
  }

  std::string script_;
};

TEST_F(BashTest, CompletesCommands) {
  EXPECT_THAT(Complete({""}),
              IsSupersetOf({"plan", "what-if", "models", "--planner"}));
  EXPECT_THAT(Complete({"wh"}), ElementsAre("what-if"));
  EXPECT_THAT(Complete({"models", "d"}), ElementsAre("describe"));
  EXPECT_THAT(Complete({"nosuch"}), IsEmpty());
}

TEST_F(BashTest, CompletesFlagsOfTheCommandAndOfAll) {
  EXPECT_THAT(Complete({"plan", "--n-"}), ElementsAre("--n-ctx", "--n-ubatch"));
  EXPECT_THAT(Complete({"plan", "--pl"}), ElementsAre("--planner"));
  EXPECT_THAT(Complete({"plan", "--sv"}), IsEmpty());
  EXPECT_THAT(Complete({"--planner", "x:1", "what-if", "--sv"}),
              ElementsAre("--svg"));
  EXPECT_THAT(Complete({"models", "describe", "--he"}), ElementsAre("--help"));
}

TEST_F(BashTest, CompletesValues) {
  EXPECT_THAT(Complete({"plan", "--n-ctx", ""}), ElementsAre("auto", "max"));
  EXPECT_THAT(Complete({"plan", "-o", ""}), Contains("json"));
  EXPECT_THAT(Complete({"what-if", "--output", "c"}), ElementsAre("csv"));
  EXPECT_THAT(Complete({"what-if", "--rows", "kv"}), ElementsAre("kv-type"));
  EXPECT_THAT(Complete({"completion", "f"}), ElementsAre("fish"));
  EXPECT_THAT(Complete({"plan", "--slots", ""}), IsEmpty());
}

TEST_F(BashTest, CompletesTheLastOfAList) {
  EXPECT_THAT(Complete({"what-if", "--n-ctx", "4096,a"}),
              ElementsAre("4096,auto"));
  EXPECT_THAT(Complete({"what-if", "--weights", "file,q8_"}),
              Contains("file,q8_0"));
}

TEST_F(BashTest, CompletesAfterAnEqualsSign) {
  EXPECT_THAT(Complete({"plan", "--n-ctx", "=", "a"}), ElementsAre("auto"));
  EXPECT_THAT(Complete({"plan", "--n-ctx", "="}), ElementsAre("auto", "max"));
}

TEST_F(BashTest, CompletesFilesWithBlanks) {
  EXPECT_THAT(Complete({"plan", "some"}), ElementsAre("some model.gguf"));
  EXPECT_THAT(Complete({"what-if", "--svg", "some"}),
              ElementsAre("some model.gguf"));
  EXPECT_THAT(Complete({"version", "some"}), IsEmpty());
  EXPECT_THAT(Complete({"plan", "--"}), Not(Contains("some model.gguf")));
}

TEST_F(ShellTest, ZshAndFishReadTheirScripts) {
  for (const std::string shell : {"zsh", "fish"}) {
    if (!OutputOf(absl::StrCat(shell, " -c true 2>/dev/null"))) continue;
    const std::string script = Write(shell, RunCli({"completion", shell}).out);
    EXPECT_TRUE(OutputOf(absl::StrCat(shell, " -n ", script)).has_value())
        << shell;
  }
}

}  // namespace
}  // namespace plimsoll::cli
