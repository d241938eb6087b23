// The planner's queries over HTTP, answered in this process.
#include "services/http/planner_queries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "services/http/json.h"
#include "tests/services/http/front_fixture.h"
#include "tests/services/http/http_client.h"

namespace plimsoll::services {
namespace {

using PlannerQueriesTest = FrontTest;
using ::testing::HasSubstr;

TEST_F(PlannerQueriesTest, ThePlannerAnswersItsQueries) {
  const std::string path = "/plimsoll.v1.PlannerService/";
  const Json plan = PostJson(
      path + "Plan",
      R"({"source":{"model":"a"},"device_id":"cpu","options":{"n_ctx":256}})");
  EXPECT_EQ(plan.at("plan").at("n_ctx"), 256);
  EXPECT_EQ(plan.at("plan").at("fits"), true);
  const Json model =
      PostJson(path + "DescribeModel", R"({"source":{"model":"b"}})");
  EXPECT_EQ(model.at("n_layers"), 2);
  const Json devices = PostJson(path + "ListDevices", "{}");
  EXPECT_EQ(devices.at("devices")[0].at("profile").at("id"), "cpu");
  const Json catalogue = PostJson(path + "ListCatalogue", "{}");
  EXPECT_GT(catalogue.at("devices").size(), 10u);
}

TEST_F(PlannerQueriesTest, MessagesThatBecomeLargeInMemoryAreRefused) {
  const auto batch = [](size_t n) {
    Json body;
    body["requests"] = std::vector<Json>(n, Json::object());
    return body.dump();
  };
  const std::string path = "/plimsoll.v1.PlannerService/BatchPlan";
  // 256 plans are the most of one call, and each of them may fail by itself.
  EXPECT_EQ(Post(path, batch(256)).status, 200);
  const ClientReply too_many = Post(path, batch(257));
  EXPECT_EQ(too_many.status, 400);
  EXPECT_THAT(too_many.body, HasSubstr("256"));
  const ClientReply too_large = Post(path, batch(650'000));
  EXPECT_EQ(too_large.status, 413);
  EXPECT_THAT(too_large.body, HasSubstr("make it smaller"));
  EXPECT_EQ(Post(path, batch(1)).status, 200);
}

TEST_F(PlannerQueriesTest, OtherCallsOfThePlannerAreNotThere) {
  const std::string path = "/plimsoll.v1.PlannerService/";
  for (const char* method : {"Reserve", "RegisterDevice", "WhatIf", "plan"}) {
    const ClientReply reply = Post(path + method, "{}");
    EXPECT_EQ(reply.status, 404) << method;
    EXPECT_THAT(reply.body, HasSubstr("BatchPlan")) << method;
  }
  const ClientReply unknown = Post(path + "Plan", R"({"sails":3})");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_THAT(unknown.body, HasSubstr("sails"));
  EXPECT_EQ(Post(path + "Plan", R"({"source":{"model":"c"}})").status, 404);
  EXPECT_EQ(Post(path + "Plan", "[]").status, 400);
  LocalModels bare(*registry_);
  const auto front = *Front::Start({}, {bare, gate_, *pool_, responses_});
  EXPECT_EQ(HttpClient(front->address()).Post(path + "Plan", "{}").status, 404);
}

}  // namespace
}  // namespace plimsoll::services
