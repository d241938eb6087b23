#include "base/status_macros.h"

#include <memory>

#include "gtest/gtest.h"

namespace plimsoll {
namespace {

absl::Status Counted(const absl::Status& status, int& n) {
  ++n;
  return status;
}

absl::Status Twice(const absl::Status& first, const absl::Status& second,
                   int& n) {
  RETURN_IF_ERROR(Counted(first, n));
  // As the only statement of a branch.
  if (n == 1)
    RETURN_IF_ERROR(Counted(second, n));
  else
    n = -1;
  return absl::OkStatus();
}

absl::StatusOr<int> Sum(absl::StatusOr<int> a, absl::StatusOr<int> b) {
  ASSIGN_OR_RETURN(const int first, std::move(a));
  ASSIGN_OR_RETURN(const int second, std::move(b));
  return first + second;
}

absl::StatusOr<std::unique_ptr<int>> Moved(std::unique_ptr<int> value) {
  absl::StatusOr<std::unique_ptr<int>> given = std::move(value);
  ASSIGN_OR_RETURN(std::unique_ptr<int> taken, std::move(given));
  return taken;
}

TEST(StatusMacrosTest, AnErrorReturnsAtOnceAndWhatIsOkGoesOn) {
  const absl::Status error = absl::DataLossError("lost");
  int n = 0;
  EXPECT_TRUE(Twice(absl::OkStatus(), absl::OkStatus(), n).ok());
  EXPECT_EQ(n, 2);
  n = 0;
  EXPECT_EQ(Twice(error, absl::OkStatus(), n), error);
  EXPECT_EQ(n, 1);
  n = 0;
  EXPECT_EQ(Twice(absl::OkStatus(), error, n), error);
  EXPECT_EQ(n, 2);
}

TEST(StatusMacrosTest, AValueIsAssignedAndAnErrorReturned) {
  EXPECT_EQ(*Sum(1, 2), 3);
  EXPECT_EQ(Sum(absl::NotFoundError("a"), absl::DataLossError("b")).status(),
            absl::NotFoundError("a"));
  EXPECT_EQ(Sum(1, absl::DataLossError("b")).status(),
            absl::DataLossError("b"));
  EXPECT_EQ(**Moved(std::make_unique<int>(5)), 5);
}

TEST(StatusMacrosDeathTest, ABrokenInvariantIsNamed) {
  PLIMSOLL_CHECK(1 + 1 == 2, "arithmetic holds");
  EXPECT_DEATH(PLIMSOLL_CHECK(1 + 1 == 3, "arithmetic holds"),
               "status_macros_test.cc:[0-9]+: CHECK failed: 1 \\+ 1 == 3: "
               "arithmetic holds");
}

}  // namespace
}  // namespace plimsoll
