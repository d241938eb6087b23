// What a client hears of a planner that is not there.
#include "services/gateway/remote_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/stop_check.h"
#include "plimsoll/v1/planner.pb.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

TEST(RemotePlannerTest, APlannerThatIsNotThereIsNoAddressAndATimeToRetry) {
  RemotePlanner planner("127.0.0.1:1", {});  // nobody listens there
  const HttpRequest request;
  ByteBudget::Share held;
  v1::ListDevicesResponse response;
  const absl::Status status =
      planner.Ask("ListDevices", v1::ListDevicesRequest(), response,
                  {request, NeverStop, held});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.reason, v1::ERROR_REASON_PLANNER_UNAVAILABLE);
  EXPECT_TRUE(details.retry_after.has_value());
  EXPECT_THAT(std::string(status.message()),
              ::testing::Not(::testing::HasSubstr("127.0.0.1")));
}

}  // namespace
}  // namespace plimsoll::services
