#include "services/host/memory_guard.h"

#include <gtest/gtest.h>

#include <new>
#include <string>

#include "absl/status/statusor.h"

namespace plimsoll::services {
namespace {

TEST(MemoryGuardTest, AnAllocationThatFailsIsAnError) {
  const auto status =
      WithinMemory([]() -> absl::Status { throw std::bad_alloc(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const auto value = WithinMemory([]() -> absl::StatusOr<std::string> {
    throw std::bad_array_new_length();
  });
  EXPECT_EQ(value.status(), NoMemory());
}

TEST(MemoryGuardTest, OtherResultsStayAsTheyAre) {
  EXPECT_TRUE(WithinMemory([] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(WithinMemory([] { return absl::DataLossError("x"); }),
            absl::DataLossError("x"));
  EXPECT_EQ(*WithinMemory([] { return absl::StatusOr<int>(3); }), 3);
}

}  // namespace
}  // namespace plimsoll::services
