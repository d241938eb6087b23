// Receipts as lines of JSON.
#include "services/generation/usage_receipt.h"

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "tests/services/json_object.h"

namespace plimsoll::services {
namespace {

UsageReceipt SomeReceipt() {
  UsageReceipt receipt;
  receipt.time = absl::FromUnixMillis(1'700'000'000'123);
  receipt.request_id = "r-1";
  receipt.tenant = "team \"a\" {b}";
  receipt.model = "m";
  receipt.status = "OK";
  receipt.prompt_tokens = 5;
  receipt.cached_tokens = 64;
  receipt.generated_tokens = 7;
  receipt.kv_bytes = 1'234;
  receipt.seconds = 0.25;
  return receipt;
}

// A receipt with more fields, which are the text of an object.
std::string With(const std::string& more) {
  return testing::WithMembers(
             R"({"time":"2026-01-02T03:04:05.678Z","tenant":"a","status":"OK"})",
             more)
      .dump();
}

TEST(UsageReceiptTest, ARequestComesBackFromItsLine) {
  const std::string line = FormatReceipt(SomeReceipt());
  EXPECT_EQ(line,
            R"({"time":"2023-11-14T22:13:20.123Z","request":"r-1",)"
            R"("tenant":"team \"a\" {b}","model":"m","status":"OK",)"
            R"("prompt_tokens":5,"cached_tokens":64,"generated_tokens":7,)"
            R"("kv_bytes":1234,"seconds":0.25})");
  const auto read = ParseReceipt(line);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, SomeReceipt());
}

TEST(UsageReceiptTest, SumsComeBackFromTheirLines) {
  UsageReceipt refused;
  refused.time = absl::FromUnixMillis(1'000);
  refused.tenant = "a";
  refused.refused = 3;
  EXPECT_EQ(FormatReceipt(refused),
            R"({"time":"1970-01-01T00:00:01.000Z","tenant":"a","refused":3})");
  EXPECT_EQ(*ParseReceipt(FormatReceipt(refused)), refused);
  UsageReceipt lost;
  lost.time = absl::FromUnixMillis(1'000);
  lost.lost = 9;
  EXPECT_EQ(*ParseReceipt(FormatReceipt(lost)), lost);
}

TEST(UsageReceiptTest, APartOfALineIsNoReceipt) {
  const std::string line = FormatReceipt(SomeReceipt());
  for (size_t n = 0; n < line.size(); ++n) {
    EXPECT_FALSE(ParseReceipt(line.substr(0, n)).ok()) << n;
  }
}

TEST(UsageReceiptTest, BadValuesAreNoReceipt) {
  for (const char* rest :
       {R"({"kv_bytes":-1})", R"({"kv_bytes":1.5})", R"({"kv_bytes":"1"})",
        R"({"kv_bytes":1125899906842625})",
        R"({"kv_bytes":18446744073709551615})", R"({"seconds":-1})",
        R"({"seconds":1e300})", R"({"model":1})", R"({"refused":1})",
        R"({"lost":1})"}) {
    EXPECT_FALSE(ParseReceipt(With(rest)).ok()) << rest;
  }
  for (const char* line : {"[]", "1", R"({"tenant":"a","status":"OK"})",
                           R"({"time":"yesterday","tenant":"a","status":"OK"})",
                           R"({"time":"2026-01-02T03:04:05Z","tenant":"a"})"}) {
    EXPECT_FALSE(ParseReceipt(line).ok()) << line;
  }
}

TEST(UsageReceiptTest, TheLargestNumberIsTaken) {
  const auto read = ParseReceipt(With(R"({"kv_bytes":1125899906842624})"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->kv_bytes, kMaxReceiptCount);
}

TEST(UsageReceiptTest, UnknownFieldsAreIgnored) {
  const auto read = ParseReceipt(With(R"({"new":{"deep":[[1]]},"x":2})"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->tenant, "a");
}

TEST(UsageReceiptTest, LinesAreBoundedAndDeepOnesHarmless) {
  const auto with_text = [](size_t n_bytes) {
    const nlohmann::json text = {{"new", std::string(n_bytes, 'x')}};
    return With(text.dump());
  };
  const size_t most = kMaxReceiptBytes - with_text(0).size();
  EXPECT_TRUE(ParseReceipt(with_text(most)).ok());
  EXPECT_FALSE(ParseReceipt(with_text(most + 1)).ok());
  EXPECT_FALSE(ParseReceipt(std::string(kMaxReceiptBytes, '[')).ok());
}

}  // namespace
}  // namespace plimsoll::services
