// The built binary: exit codes and pipes, as scripts meet them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;

struct ProcessResult {
  int code;
  std::string out;
};

// Runs `line` in a shell where $P is the binary.
ProcessResult Shell(const std::string& line) {
  setenv("P", PLIMSOLL_BINARY, 1);
  std::FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) return {-1, ""};
  std::string out;
  std::array<char, 4'096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) {
    out.append(buffer.data(), n);
  }
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out};
}

TEST(ProcessTest, ExitCodesReachTheShell) {
  EXPECT_EQ(Shell("\"$P\" version").code, 0);
  EXPECT_EQ(Shell("\"$P\" plan no/such 2>/dev/null").code, 1);
  EXPECT_EQ(Shell("\"$P\" sail 2>/dev/null").code, 2);
}

TEST(ProcessTest, ErrorsGoToStandardError) {
  EXPECT_EQ(Shell("\"$P\" plan no/such 2>/dev/null").out, "");
  EXPECT_THAT(Shell("\"$P\" plan no/such 2>&1 >/dev/null").out,
              HasSubstr("no/such"));
}

TEST(ProcessTest, PipesCarryNoColourAndAsciiWithoutAUtf8Locale) {
  const std::string out =
      Shell("LC_ALL=C \"$P\" devices; LC_ALL=C \"$P\" plan --help").out;
  for (char c : out) {
    ASSERT_TRUE(c == '\n' || (c >= ' ' && c < 127)) << out;
  }
}

TEST(ProcessTest, AFullDiskIsAnError) {
  const ProcessResult result =
      Shell("test -w /dev/full || exit 77; \"$P\" version 2>&1 >/dev/full");
  if (result.code == 77) GTEST_SKIP() << "there is no /dev/full";
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("could not be written"));
}

}  // namespace
}  // namespace plimsoll::cli
