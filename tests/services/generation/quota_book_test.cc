#include "services/generation/quota_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "services/wire/errors.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;
using Hold = std::unique_ptr<QuotaBook::Hold>;

// What a request takes.
struct Cost {
  int64_t n_prompt = 1;
  int64_t n_reply = 1;
  int64_t kv_bytes = 1;
};

class QuotaBookTest : public ::testing::Test {
 protected:
  void Write(const std::string& json) const { std::ofstream(path_) << json; }
  // Opens a book with these limits for everybody.
  void Open(const std::string& limits) {
    Write(nlohmann::json{{"default", nlohmann::json::parse(limits)}}.dump());
    auto book = QuotaBook::Open(path_, [this] { return now_; });
    ASSERT_TRUE(book.ok()) << book.status();
    book_ = *std::move(book);
  }
  // A request that must be admitted.
  Hold Take(QuotaBook::Request request) {
    auto hold = book_->Admit(std::move(request));
    EXPECT_TRUE(hold.ok()) << hold.status();
    return hold.ok() ? *std::move(hold) : nullptr;
  }
  // What a request is refused with.
  ErrorDetails Refused(QuotaBook::Request request) {
    const auto hold = book_->Admit(std::move(request));
    EXPECT_EQ(hold.status().code(), absl::StatusCode::kResourceExhausted);
    ErrorDetails details = DetailsOf(hold.status());
    EXPECT_EQ(details.reason, v1::ERROR_REASON_QUOTA_EXCEEDED);
    return details;
  }
  static QuotaBook::Request Of(const std::string& tenant) {
    return OfCost(tenant, {});
  }
  static QuotaBook::Request OfCost(const std::string& tenant,
                                   const Cost& cost) {
    return {.tenant = tenant,
            .n_prompt = cost.n_prompt,
            .n_reply = cost.n_reply,
            .kv_bytes = cost.kv_bytes};
  }

  testing::TemporaryFolder folder_;
  const std::string path_ = folder_.File("quotas.json");
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  std::unique_ptr<QuotaBook> book_;
};

TEST_F(QuotaBookTest, WithoutLimitsEverythingIsAdmitted) {
  Open("{}");
  std::vector<Hold> holds;
  for (int i = 0; i < 100; ++i) {
    holds.push_back(Take(OfCost("a", {.n_prompt = 1 << 20,
                                      .n_reply = 1 << 20,
                                      .kv_bytes = int64_t{1} << 40})));
  }
}

TEST_F(QuotaBookTest, SoManyRequestsAreAdmittedAtOnce) {
  Open(R"({"requests": 2})");
  const Hold first = Take(Of("a"));
  Hold second = Take(Of("a"));
  const ErrorDetails refused = Refused(Of("a"));
  EXPECT_EQ(refused.metadata.at("quota"), "requests");
  EXPECT_EQ(refused.metadata.at("limit"), "2");
  EXPECT_EQ(refused.metadata.at("taken"), "2");
  EXPECT_EQ(refused.metadata.at("wanted"), "1");
  EXPECT_TRUE(refused.retry_after.has_value());
  const Hold of_another = Take(Of("b"));
  second = nullptr;
  second = Take(Of("a"));
}

TEST_F(QuotaBookTest, ARequestWaitsUntilItHasAToken) {
  Open(R"({"waiting": 1})");
  const Hold first = Take(Of("a"));
  EXPECT_EQ(Refused(Of("a")).metadata.at("quota"), "waiting");
  first->AddGenerated(0);
  EXPECT_EQ(Refused(Of("a")).metadata.at("quota"), "waiting");
  first->AddGenerated(1);
  first->AddGenerated(1);
  Hold second = Take(Of("a"));
  EXPECT_EQ(Refused(Of("a")).metadata.at("quota"), "waiting");
  second = nullptr;
  second = Take(Of("a"));
}

TEST_F(QuotaBookTest, ContextsTakeSoManyBytes) {
  Open(R"({"kv_bytes": 100})");
  Hold most = Take(OfCost("a", {.kv_bytes = 100}));
  EXPECT_TRUE(Refused(Of("a")).retry_after.has_value());
  most = nullptr;
  const ErrorDetails never = Refused(OfCost("a", {.kv_bytes = 101}));
  EXPECT_EQ(never.metadata.at("wanted"), "101");
  EXPECT_FALSE(never.retry_after.has_value());
}

TEST_F(QuotaBookTest, TokensAreChargedAndComeBackWithTime) {
  Open(R"({"tokens_per_second": 10, "burst_tokens": 100})");
  const Hold first = Take(OfCost("a", {.n_prompt = 60, .n_reply = 40}));
  const ErrorDetails refused =
      Refused(OfCost("a", {.n_prompt = 15, .n_reply = 5}));
  EXPECT_EQ(refused.metadata.at("quota"), "tokens_per_second");
  EXPECT_EQ(refused.retry_after, absl::Seconds(2));
  now_ += absl::Seconds(2) - absl::Milliseconds(1);
  Refused(OfCost("a", {.n_prompt = 15, .n_reply = 5}));
  now_ += absl::Milliseconds(1);
  const Hold second = Take(OfCost("a", {.n_prompt = 15, .n_reply = 5}));
  const Hold of_another = Take(OfCost("b", {.n_prompt = 60, .n_reply = 40}));
}

TEST_F(QuotaBookTest, WithoutABurstAMinuteOfTokensMayBeTakenAtOnce) {
  Open(R"({"tokens_per_second": 10})");
  const Hold all = Take(OfCost("a", {.n_prompt = 300, .n_reply = 300}));
  EXPECT_EQ(Refused(OfCost("a", {.n_prompt = 0})).retry_after,
            absl::Milliseconds(100));
}

TEST_F(QuotaBookTest, WhatARequestDoesNotUseIsGivenBack) {
  Open(R"({"tokens_per_second": 1, "burst_tokens": 100})");
  Hold hold = Take(OfCost("a", {.n_prompt = 50, .n_reply = 50}));
  hold->AddGenerated(10);
  hold->SetPrompt(/*n_computed=*/20, /*n_cached=*/30);
  hold = nullptr;
  // 30 were used.
  Refused(OfCost("a", {.n_prompt = 0, .n_reply = 71}));
  hold = Take(OfCost("a", {.n_prompt = 0, .n_reply = 70}));
  // A request that never ran costs nothing.
  hold = nullptr;
  hold = Take(OfCost("a", {.n_prompt = 0, .n_reply = 70}));
}

TEST_F(QuotaBookTest, WhatWasTakenBeyondTheChargeIsOwed) {
  Open(R"({"tokens_per_second": 1, "burst_tokens": 100})");
  // More than may be taken at once: it needs all of that, and no more.
  Hold hold = Take(OfCost("a", {.n_prompt = 500, .n_reply = 500}));
  hold->AddGenerated(150);
  hold = nullptr;
  EXPECT_EQ(Refused(OfCost("a", {.n_prompt = 0})).retry_after,
            absl::Seconds(51));
  now_ += absl::Hours(1);
  hold = Take(OfCost("a", {.n_prompt = 100, .n_reply = 0}));
  EXPECT_EQ(Refused(OfCost("a", {.n_prompt = 0})).retry_after,
            absl::Seconds(1));
}

TEST_F(QuotaBookTest, APartOfACallThatWasAdmittedIsNotRefused) {
  Open(R"({"requests": 1, "tokens_per_second": 1, "burst_tokens": 10})");
  const Hold first = Take(OfCost("a", {.n_prompt = 5, .n_reply = 5}));
  QuotaBook::Request part = OfCost("a", {.n_prompt = 5, .n_reply = 5});
  part.is_admitted = true;
  Hold second = Take(part);
  second->SetPrompt(5, 0);
  second = nullptr;
  // The part of the call is charged all the same.
  EXPECT_EQ(Refused(OfCost("a", {.n_prompt = 0})).metadata.at("quota"),
            "requests");
}

TEST_F(QuotaBookTest, TheFileIsReadAgain) {
  Open(R"({"requests": 1})");
  const Hold first = Take(Of("a"));
  Write(R"({"default": {"requests": 2}})");
  Refused(Of("a"));
  now_ += PollTimer::kInterval;
  const Hold second = Take(Of("a"));
  // A bad file changes nothing.
  Write(R"({"default": {"requests": 0}})");
  now_ += PollTimer::kInterval;
  EXPECT_EQ(Refused(Of("a")).metadata.at("limit"), "2");
  EXPECT_EQ(book_->QuotaOf("a").requests, 2);
}

TEST_F(QuotaBookTest, AFileThatComesToLimitTokensBeginsWithAll) {
  Open("{}");
  Hold hold = Take(OfCost("a", {.n_prompt = 1'000, .n_reply = 1'000}));
  hold->AddGenerated(1'000);
  Write(R"({"default": {"tokens_per_second": 1, "burst_tokens": 100}})");
  now_ += PollTimer::kInterval;
  const Hold all = Take(OfCost("a", {.n_prompt = 100, .n_reply = 0}));
  hold = nullptr;  // it was not charged, so nothing is owed
  EXPECT_EQ(Refused(OfCost("a", {.n_prompt = 0})).retry_after,
            absl::Seconds(1));
}

TEST_F(QuotaBookTest, ABadFileIsAnErrorAtTheStart) {
  Write("[]");
  const auto book = QuotaBook::Open(path_, [this] { return now_; });
  EXPECT_EQ(book.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(book.status().message(), HasSubstr(path_));
}

TEST_F(QuotaBookTest, UsageIsCountedByTenant) {
  Open(R"({"requests": 1})");
  {
    const Hold hold = Take(OfCost("a", {.n_prompt = 30, .n_reply = 10}));
    Refused(Of("a"));
    hold->AddGenerated(3);
    hold->AddGenerated(2);
    hold->SetPrompt(20, 10);
  }
  { const Hold hold = Take(Of("b")); }
  const auto usage = book_->Usage();
  ASSERT_EQ(usage.size(), 2u);
  const TenantUsage& a = usage.at("a");
  EXPECT_EQ(a.requests, 1);
  EXPECT_EQ(a.refused, 1);
  EXPECT_EQ(a.prompt_tokens, 20);
  EXPECT_EQ(a.cached_tokens, 10);
  EXPECT_EQ(a.generated_tokens, 5);
  EXPECT_EQ(usage.at("b").requests, 1);
  EXPECT_EQ(usage.at("b").prompt_tokens, 0);
}

TEST_F(QuotaBookTest, ManyTenantsTakeBoundedMemory) {
  Open(R"({"requests": 1})");
  for (size_t i = 0; i < QuotaBook::kMaxTenants; ++i) {
    Take(Of(std::to_string(i)));
  }
  EXPECT_EQ(book_->Usage().count(QuotaBook::kOtherTenants), 0u);
  const Hold one_more = Take(Of("new"));
  Refused(Of("newer"));  // they are counted as one
  EXPECT_EQ(book_->Usage().at(QuotaBook::kOtherTenants).requests, 1);
  EXPECT_EQ(book_->Usage().size(), QuotaBook::kMaxTenants + 1);
}

}  // namespace
}  // namespace plimsoll::services
