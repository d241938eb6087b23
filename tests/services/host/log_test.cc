#include "services/host/log.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::services {
namespace {

TEST(LogTest, ALineHasItsLevelItsMessageAndItsFields) {
  EXPECT_EQ(LogLine(LogLevel::kInfo, "draining", {}), "INFO draining");
  EXPECT_EQ(LogLine(LogLevel::kWarning, "a lease was lost",
                    {{"model", "gemma"}, {"bytes", "1024"}}),
            "WARNING a lease was lost model=gemma bytes=1024");
}

TEST(LogTest, AValueThatIsNotOneWordIsQuoted) {
  EXPECT_EQ(LogLine(LogLevel::kError, "m", {{"error", "no such file"}}),
            "ERROR m error=\"no such file\"");
  EXPECT_EQ(LogLine(LogLevel::kError, "m", {{"tenant", ""}}),
            "ERROR m tenant=\"\"");
  EXPECT_EQ(LogLine(LogLevel::kError, "m", {{"file", R"(a "b" \c)"}}),
            R"(ERROR m file="a \"b\" \\c")");
  EXPECT_EQ(LogLine(LogLevel::kError, "m", {{"file", "a=b"}}),
            "ERROR m file=\"a=b\"");
}

TEST(LogTest, NobodyForgesALine) {
  const std::string line =
      LogLine(LogLevel::kInfo, "m\n2026 ERROR", {{"request_id", "x\ny"}});
  EXPECT_EQ(line, R"(INFO m\x0a2026 ERROR request_id=x\x0ay)");
}

}  // namespace
}  // namespace plimsoll::services
