#include "services/server/call_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>

#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using Code = absl::StatusCode;

constexpr char kHealth[] = "/grpc.health.v1.Health/Check";
constexpr char kReflection[] =
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
constexpr char kList[] = "/plimsoll.v1.ModelService/ListModels";
constexpr char kGenerate[] = "/plimsoll.v1.GenerationService/Generate";
constexpr char kReserve[] = "/plimsoll.v1.PlannerService/Reserve";
constexpr char kDrain[] = "/plimsoll.v1.AdminService/Drain";

class CallGuardTest : public ::testing::Test {
 protected:
  CallGuardTest() {
    std::ofstream(path_) << FormatTokenList(
        {{"v", HashToken("viewer"), "", Role::kViewer},
         {"u", HashToken("user"), "t", Role::kUser},
         {"w", HashToken("worker"), "", Role::kWorker},
         {"a", HashToken("admin"), "", Role::kAdmin}});
    guard_ = std::make_unique<CallGuard>(*TokenFile::Open(path_, Now), Now);
  }

  static absl::Time Now() { return absl::FromUnixSeconds(1'800'000'000); }

  Code CodeOf(const char* path, const std::string& authorization) {
    return guard_->Check(path, authorization).code();
  }

  testing::TemporaryFolder folder_;
  const std::string path_ = folder_.File("tokens.json");
  std::unique_ptr<CallGuard> guard_;
};

TEST_F(CallGuardTest, HealthNeedsNoToken) {
  EXPECT_EQ(CodeOf(kHealth, ""), Code::kOk);
  EXPECT_EQ(CodeOf(kHealth, "Bearer wrong"), Code::kOk);
}

TEST_F(CallGuardTest, EverythingElseNeedsAValidOne) {
  for (const char* path : {kReflection, kList, kGenerate, kReserve, kDrain,
                           "/plimsoll.v1.NewService/NewMethod", ""}) {
    EXPECT_EQ(CodeOf(path, ""), Code::kUnauthenticated) << path;
    EXPECT_EQ(CodeOf(path, "Bearer wrong"), Code::kUnauthenticated) << path;
    EXPECT_EQ(CodeOf(path, "Basic admin"), Code::kUnauthenticated) << path;
  }
}

TEST_F(CallGuardTest, EachRoleMayDoWhatTheOnesBeforeItMay) {
  const char* const tokens[] = {"viewer", "user", "worker", "admin"};
  const char* const paths[] = {kList, kGenerate, kReserve, kDrain};
  for (int role = 0; role < 4; ++role) {
    for (int least = 0; least < 4; ++least) {
      EXPECT_EQ(CodeOf(paths[least], std::string("Bearer ") + tokens[role]),
                role >= least ? Code::kOk : Code::kPermissionDenied)
          << tokens[role] << " " << paths[least];
    }
  }
  EXPECT_EQ(CodeOf(kReflection, "Bearer viewer"), Code::kOk);
}

TEST_F(CallGuardTest, AMethodWithoutARuleIsForNobody) {
  for (const char* path : {"/plimsoll.v1.AdminService/Restart", "/", "x"}) {
    EXPECT_EQ(CodeOf(path, "Bearer admin"), Code::kPermissionDenied) << path;
  }
}

TEST_F(CallGuardTest, RefusalsAreCountedByTheirReason) {
  EXPECT_EQ(guard_->failures(), (AuthFailureCounts{0, 0, 0, 0}));
  guard_->Check(kHealth, "").IgnoreError();
  guard_->Check(kList, "Bearer viewer").IgnoreError();
  guard_->Check(kList, "").IgnoreError();
  guard_->Check(kList, "Bearer wrong").IgnoreError();
  guard_->Check(kList, "Basic viewer").IgnoreError();
  guard_->Check(kDrain, "Bearer viewer").IgnoreError();
  EXPECT_EQ(guard_->failures(), (AuthFailureCounts{1, 2, 0, 1}));
  guard_->OnRefused(AuthFailure::kNoGrant, "");
  EXPECT_EQ(guard_->failures(), (AuthFailureCounts{1, 2, 1, 1}));
}

TEST_F(CallGuardTest, OnlyWhoShowedAWrongTokenWaitsForTheAnswer) {
  bool is_given = false;
  const auto answer = [&is_given] { is_given = true; };
  guard_->Answer(absl::OkStatus(), "Bearer viewer", answer);
  EXPECT_TRUE(std::exchange(is_given, false));
  guard_->Answer(absl::UnauthenticatedError("none"), "", answer);
  EXPECT_TRUE(std::exchange(is_given, false));
  guard_->Answer(absl::PermissionDeniedError("low"), "Bearer viewer", answer);
  EXPECT_TRUE(std::exchange(is_given, false));
  guard_->Answer(absl::UnauthenticatedError("bad"), "Bearer x", answer);
  EXPECT_FALSE(is_given);
  guard_ = nullptr;  // what waits is given at the end
  EXPECT_TRUE(is_given);
}

TEST_F(CallGuardTest, MessagesNeverHaveTheToken) {
  for (const char* token : {"sesame-7", "viewer-7"}) {
    const absl::Status status =
        guard_->Check(kDrain, std::string("Bearer ") + token);
    EXPECT_THAT(std::string(status.message()),
                ::testing::Not(::testing::HasSubstr(token)));
  }
  const absl::Status low = guard_->Check(kDrain, "Bearer viewer");
  EXPECT_THAT(std::string(low.message()), ::testing::HasSubstr("admin"));
}

}  // namespace
}  // namespace plimsoll::services
