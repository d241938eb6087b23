#include "services/gateway/gateway_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(WorkerSetOptions options) {
  const absl::Status status = CheckWorkers(options);
  return std::string(status.message());
}

TEST(GatewayFlagsTest, ThereHasToBeAWorker) {
  EXPECT_THAT(ErrorOf({}), HasSubstr("there is no worker"));
  EXPECT_EQ(ErrorOf({.workers = {"a:1", "b:1"}}), "");
  EXPECT_THAT(ErrorOf({.workers = {"a"}}), HasSubstr("--worker"));
  EXPECT_THAT(ErrorOf({.workers = {"a:1", "a:1"}}), HasSubstr("twice"));
}

TEST(GatewayFlagsTest, ANameMayHaveItsScheme) {
  for (const char* name : {"dns:///workers.ns:7071", "workers.ns:7071"}) {
    WorkerSetOptions options{.workers = {}, .name = name};
    ASSERT_TRUE(CheckWorkers(options).ok());
    EXPECT_EQ(options.name, "workers.ns:7071");
  }
  EXPECT_THAT(ErrorOf({.workers = {}, .name = "dns:///workers"}),
              HasSubstr("--workers"));
}

TEST(GatewayFlagsTest, WorkersAreLimited) {
  WorkerSetOptions options;
  for (size_t i = 0; i < WorkerBook::kMaxWorkers; ++i) {
    options.workers.push_back(absl::StrCat("w", i, ":1"));
  }
  EXPECT_EQ(ErrorOf(options), "");
  options.workers.push_back("one-more:1");
  EXPECT_THAT(ErrorOf(options), HasSubstr("at most 256"));
}

TEST(GatewayFlagsTest, ATokenGoesToLoopbackOnlyWithoutTls) {
  WorkerSetOptions options{.workers = {"10.1.2.3:7071"}};
  options.security.token = "secret-of-a-worker";
  EXPECT_NE(ErrorOf(options), "");
  options.workers = {"127.0.0.1:7071"};
  EXPECT_EQ(ErrorOf(options), "");
}

TEST(GatewayFlagsTest, LooksUpEveryAddressOfAName) {
  const auto found = LookUpAll("127.0.0.1:7071");
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(*found, ::testing::ElementsAre("127.0.0.1:7071"));
  const auto local = LookUpAll("localhost:81");
  ASSERT_TRUE(local.ok());
  EXPECT_FALSE(local->empty());
  EXPECT_EQ(LookUpAll("no-such-name.invalid:1").status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace plimsoll::services
