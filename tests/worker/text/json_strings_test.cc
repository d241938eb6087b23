#include "worker/text/json_strings.h"

#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace plimsoll::worker {
namespace {

// The bytes that are of strings, others as dots.
std::string OfStrings(absl::string_view text) {
  JsonStrings strings;
  std::string shown;
  for (const char byte : text) shown += strings.Take(byte) ? byte : '.';
  return shown;
}

TEST(JsonStringsTest, QuotesAreOfTheirStrings) {
  EXPECT_EQ(OfStrings(R"({"a": ["b{", 1]})"), R"(."a"..."b{".....)");
  EXPECT_EQ(OfStrings(R"("""")"), R"("""")");
}

TEST(JsonStringsTest, AnEscapedQuoteEndsNoString) {
  EXPECT_EQ(OfStrings(R"("\"x"y)"), R"("\"x".)");
  EXPECT_EQ(OfStrings(R"("\\"y)"), R"("\\".)");
  EXPECT_EQ(OfStrings(R"("\\\""y)"), R"("\\\"".)");
  EXPECT_EQ(OfStrings(R"(\"y")"), R"(."y")") << "outside, it escapes nothing";
}

TEST(JsonStringsTest, TellsWhetherAStringIsOpen) {
  JsonStrings strings;
  EXPECT_FALSE(strings.is_inside());
  strings.Take('"');
  EXPECT_TRUE(strings.is_inside());
  strings.Take('\\');
  strings.Take('"');
  EXPECT_TRUE(strings.is_inside());
  strings.Take('"');
  EXPECT_FALSE(strings.is_inside());
}

}  // namespace
}  // namespace plimsoll::worker
