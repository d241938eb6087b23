// Colour, locale and text that is safe to print.
#include "services/cli/terminal/terminal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace plimsoll::cli {
namespace {

TEST(LocaleIsUtf8Test, KnowsBothSpellings) {
  EXPECT_TRUE(LocaleIsUtf8("C.UTF-8"));
  EXPECT_TRUE(LocaleIsUtf8("de_DE.utf8"));
  EXPECT_TRUE(LocaleIsUtf8("de_DE.UTF-8@euro"));
  EXPECT_FALSE(LocaleIsUtf8("C"));
  EXPECT_FALSE(LocaleIsUtf8("de_DE.ISO-8859-1"));
}

TEST(StyleOfTest, ColoursOnlyWhereWanted) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  unsetenv("NO_COLOR");
  unsetenv("CLICOLOR_FORCE");
  EXPECT_FALSE(StyleOf(pipe_fds[1]).color);
  setenv("CLICOLOR_FORCE", "1", 1);
  EXPECT_TRUE(StyleOf(pipe_fds[1]).color);
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(StyleOf(pipe_fds[1]).color);
  unsetenv("NO_COLOR");
  unsetenv("CLICOLOR_FORCE");
  EXPECT_EQ(StyleOf(pipe_fds[1]).width, kDefaultWidth);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

TEST(PrintableTest, ControlCharactersCannotReachTheTerminal) {
  EXPECT_EQ(Printable("a\033[31mb\r\x7F\n"), "a?[31mb??\n");
  EXPECT_EQ(Printable("gr\xC3\xBC\xC3\x9F"), "gr\xC3\xBC\xC3\x9F");
}

}  // namespace
}  // namespace plimsoll::cli
