#include "services/host/log_line.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"

namespace plimsoll::services {
namespace {

const absl::Time kTime = absl::FromUnixMillis(1'700'000'000'012);

std::string Text(LogLevel level, absl::string_view message,
                 const std::vector<LogField>& fields) {
  return LogLine(LogFormat::kText, {kTime, level, message, fields});
}

nlohmann::json Json(LogLevel level, absl::string_view message,
                    const std::vector<LogField>& fields) {
  const std::string line =
      LogLine(LogFormat::kJson, {kTime, level, message, fields});
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  return nlohmann::json::parse(line);
}

TEST(LogLineTest, ALineHasItsTimeItsLevelItsMessageAndItsFields) {
  EXPECT_EQ(Text(LogLevel::kInfo, "draining", {}),
            "2023-11-14T22:13:20.012Z INFO draining");
  EXPECT_EQ(Text(LogLevel::kWarning, "a lease was lost",
                 {{"model", "gemma"}, {"bytes", 1024}}),
            "2023-11-14T22:13:20.012Z WARNING a lease was lost model=gemma "
            "bytes=1024");
}

TEST(LogLineTest, AValueThatIsNotOneWordIsQuoted) {
  const auto tail = [](std::string value) {
    const std::string line =
        Text(LogLevel::kError, "m", {{"f", std::move(value)}});
    return line.substr(line.find("m f="));
  };
  EXPECT_EQ(tail("no such file"), "m f=\"no such file\"");
  EXPECT_EQ(tail(""), "m f=\"\"");
  EXPECT_EQ(tail(R"(a "b" \c)"), R"(m f="a \"b\" \\c")");
  EXPECT_EQ(tail("a=b"), "m f=\"a=b\"");
}

TEST(LogLineTest, NobodyForgesALineOfText) {
  EXPECT_EQ(
      Text(LogLevel::kInfo, "m\n2026 ERROR", {{"request_id", "x\ny"}}),
      R"(2023-11-14T22:13:20.012Z INFO m\x0a2026 ERROR request_id=x\x0ay)");
}

TEST(LogLineTest, ALineOfJsonIsOneObjectWhoseNumbersAreNumbers) {
  const nlohmann::json line =
      Json(LogLevel::kError, "a \"message\"\n",
           {{"model", "a\nb"}, {"bytes", int64_t{1} << 60}, {"id", "17"}});
  EXPECT_EQ(line["time"], "2023-11-14T22:13:20.012Z");
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["message"], "a \"message\"\n");
  EXPECT_EQ(line["model"], "a\nb");
  EXPECT_EQ(line["bytes"], int64_t{1} << 60);
  EXPECT_EQ(line["id"], "17");
  EXPECT_EQ(line.size(), 6u);
}

TEST(LogLineTest, JsonTakesAnyBytes) {
  const nlohmann::json line = Json(LogLevel::kInfo, "m\xff", {{"f", "\xc3"}});
  EXPECT_EQ(line["message"], "m\uFFFD");
  EXPECT_EQ(line["f"], "\uFFFD");
}

TEST(LogLineTest, ALongValueIsCut) {
  const std::string most(LogField::kMaxValueBytes, 'x');
  EXPECT_EQ(Json(LogLevel::kInfo, "m", {{"f", most}})["f"], most);
  EXPECT_EQ(Json(LogLevel::kInfo, "m", {{"f", most + "y"}})["f"], most + "...");
  const std::string text = Text(LogLevel::kInfo, "m", {{"f", most + "y"}});
  EXPECT_TRUE(text.ends_with("xx...")) << text;
}

}  // namespace
}  // namespace plimsoll::services
