#include "services/generation/quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& json) {
  const auto quotas = ParseQuotas(json);
  EXPECT_EQ(quotas.status().code(), absl::StatusCode::kInvalidArgument) << json;
  return std::string(quotas.status().message());
}

TEST(QuotaTest, NothingIsLimitedByAnEmptyFile) {
  const auto quotas = ParseQuotas("{}");
  ASSERT_TRUE(quotas.ok()) << quotas.status();
  EXPECT_EQ(quotas->Of("anybody"), Quota());
}

TEST(QuotaTest, EveryLimitIsRead) {
  const auto quotas = ParseQuotas(
      R"({"default": {"requests": 1, "waiting": 2, "tokens_per_second": 3,
                      "burst_tokens": 4, "kv_bytes": 5, "sessions": 6,
                      "prompt_bytes": 7, "max_tokens": 8}})");
  ASSERT_TRUE(quotas.ok()) << quotas.status();
  EXPECT_EQ(quotas->Of("anybody"), (Quota{.requests = 1,
                                          .waiting = 2,
                                          .tokens_per_second = 3,
                                          .burst_tokens = 4,
                                          .kv_bytes = 5,
                                          .sessions = 6,
                                          .prompt_bytes = 7,
                                          .max_tokens = 8}));
}

TEST(QuotaTest, ATenantHasTheDefaultForWhatItDoesNotName) {
  const auto quotas = ParseQuotas(
      R"({"tenants": {"a": {"requests": 9, "max_tokens": null}, "b": {}},
          "default": {"requests": 1, "sessions": 2, "max_tokens": 3}})");
  ASSERT_TRUE(quotas.ok()) << quotas.status();
  EXPECT_EQ(quotas->Of("a"), (Quota{.requests = 9, .sessions = 2}));
  EXPECT_EQ(quotas->Of("b"),
            (Quota{.requests = 1, .sessions = 2, .max_tokens = 3}));
  EXPECT_EQ(quotas->Of("c"), quotas->Of("b"));
}

TEST(QuotaTest, AValueIsAWholeNumberInItsBounds) {
  const auto with = [](const nlohmann::json& value) {
    return nlohmann::json{{"default", {{"requests", value}}}}.dump();
  };
  EXPECT_TRUE(ParseQuotas(with(1)).ok());
  EXPECT_TRUE(ParseQuotas(with(kMaxQuota)).ok());
  const nlohmann::json bad_values = {0,   -1,   kMaxQuota + 1,        1.5,
                                     "1", true, 18446744073709551615u};
  for (const nlohmann::json& bad : bad_values) {
    EXPECT_THAT(ErrorOf(with(bad)),
                HasSubstr("default: requests: must be a whole number from 1"));
  }
}

TEST(QuotaTest, MistakesAreNamed) {
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("is not JSON of the form"));
  EXPECT_THAT(ErrorOf("{"), HasSubstr("is not JSON of the form"));
  EXPECT_THAT(ErrorOf(R"({"defaults": {}})"),
              HasSubstr("defaults: is neither"));
  EXPECT_THAT(ErrorOf(R"({"default": 1})"),
              HasSubstr("default: must be an object"));
  EXPECT_THAT(ErrorOf(R"({"tenants": []})"),
              HasSubstr("tenants: must be an object"));
  EXPECT_THAT(ErrorOf(R"({"tenants": {"a": {"request": 1}}})"),
              HasSubstr("tenants.a: request: is no limit; there are requests"));
  EXPECT_THAT(ErrorOf(R"({"default": {"burst_tokens": 1}})"),
              HasSubstr("means nothing without tokens_per_second"));
}

TEST(QuotaTest, AFileHasSoManyTenantsAndNoMore) {
  const auto with = [](size_t n_tenants) {
    nlohmann::json json;
    for (size_t i = 0; i < n_tenants; ++i) {
      json["tenants"][absl::StrCat(i)] = nlohmann::json::object();
    }
    return json.dump();
  };
  EXPECT_TRUE(ParseQuotas(with(kMaxQuotaTenants)).ok());
  EXPECT_THAT(ErrorOf(with(kMaxQuotaTenants + 1)), HasSubstr("more than 4096"));
}

TEST(QuotaTest, AnErrorOfAFileNamesIt) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.File("quotas.json");
  EXPECT_THAT(ReadQuotas(path).status().message(), HasSubstr(path));
  std::ofstream(path) << "{}" << std::string(kMaxQuotaFileBytes - 2, ' ');
  EXPECT_TRUE(ReadQuotas(path).ok());
  std::ofstream(path, std::ios::app) << ' ';
  EXPECT_FALSE(ReadQuotas(path).ok());
  std::ofstream(path) << "{\"x\": 1}";
  EXPECT_THAT(ReadQuotas(path).status().message(), HasSubstr(path + ": x: "));
}

}  // namespace
}  // namespace plimsoll::services
