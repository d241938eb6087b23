// Diagnoses of what planners and workers answer.
#include "services/cli/doctor/servers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Endpoint& Here() {
  static const auto* const here = new Endpoint{"localhost:7070"};
  return *here;
}

TEST(ServerCheckTest, AServerThatNobodyNamedIsSkipped) {
  const Diagnosis found = SkippedServer("planner", "--planner");
  EXPECT_EQ(found.health, Health::kSkipped);
  EXPECT_EQ(found.found, "left out; --planner HOST:PORT names one");
}

TEST(ServerCheckTest, APlannerSaysWhatItHas) {
  PlannerReadings planner;
  planner.devices.add_devices();
  planner.leases.set_journal(v1::JOURNAL_STATE_NONE);
  const Diagnosis found = CheckPlanner(Here(), planner);
  EXPECT_EQ(found.health, Health::kOk);
  EXPECT_EQ(found.found, "localhost:7070 answers: 0 leases on 1 device");
  EXPECT_THAT(found.fix, IsEmpty());
}

TEST(ServerCheckTest, APlannerThatGrantsNothingIsNotOk) {
  PlannerReadings planner;
  planner.leases.mutable_recovery_left()->set_seconds(8);
  Diagnosis found = CheckPlanner(Here(), planner);
  EXPECT_EQ(found.health, Health::kWarning);
  EXPECT_THAT(found.found, HasSubstr("grants nothing for 9 s"));
  EXPECT_THAT(found.fix, HasSubstr("--journal"));
  planner.devices.add_devices()->set_unhealthy(true);
  found = CheckPlanner(Here(), planner);
  EXPECT_EQ(found.health, Health::kWarning);
  EXPECT_THAT(found.found, HasSubstr("1 of them unhealthy"));
  planner.leases.set_journal(v1::JOURNAL_STATE_FAILED);
  found = CheckPlanner(Here(), planner);
  EXPECT_EQ(found.health, Health::kError);
  EXPECT_THAT(found.found, HasSubstr("journal"));
  EXPECT_THAT(found.fix, HasSubstr("disk"));
}

TEST(ServerCheckTest, AWorkerSaysWhatItDoes) {
  v1::GetLoadResponse worker;
  worker.add_models();
  worker.set_running_calls(2);
  Diagnosis found = CheckWorker(Here(), worker);
  EXPECT_EQ(found.health, Health::kOk);
  EXPECT_EQ(found.found,
            "localhost:7070 answers: 1 loaded model, 2 running calls");
  worker.set_draining(true);
  found = CheckWorker(Here(), worker);
  EXPECT_EQ(found.health, Health::kWarning);
  EXPECT_THAT(found.found, HasSubstr("drains"));
  EXPECT_THAT(found.fix, HasSubstr("start it again"));
}

TEST(ServerCheckTest, EachWayToFailHasItsFix) {
  struct Case {
    absl::Status status;
    const char* found;
    const char* fix;
  };
  for (const Case& at :
       {Case{absl::UnavailableError("nobody answers\n  try: start\n       it"),
             "localhost:7070: nobody answers", "start it"},
        Case{absl::UnavailableError("it drains"), "7070: it drains", "log"},
        Case{absl::UnavailableError("nobody is at localhost:7070"),
             "nobody is at localhost:7070", "log"},
        Case{absl::DeadlineExceededError("x"), "no answer within 5 s",
             "firewall"},
        Case{absl::UnauthenticatedError("no token"), "no token",
             "--token-file"},
        Case{absl::PermissionDeniedError("it takes a viewer"), "viewer",
             "role"},
        Case{absl::UnimplementedError("unknown service"), "unknown service",
             "--planner is for"}}) {
    for (const Diagnosis& found :
         {CheckPlanner(Here(), at.status), CheckWorker(Here(), at.status)}) {
      EXPECT_EQ(found.health, Health::kError);
      EXPECT_THAT(found.found,
                  AllOf(HasSubstr("localhost:7070"), HasSubstr(at.found)));
      EXPECT_THAT(found.fix, HasSubstr(at.fix));
    }
  }
}

TEST(ServerReadingsTest, NobodyAnswersAtAPortThatIsClosed) {
  const Endpoint nobody{"127.0.0.1:1"};
  EXPECT_TRUE(absl::IsUnavailable(ReadPlanner(nobody).status()));
  EXPECT_TRUE(absl::IsUnavailable(ReadWorker(nobody).status()));
}

}  // namespace
}  // namespace plimsoll::cli
