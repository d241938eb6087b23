#include "services/host/request_scope.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace plimsoll::services {
namespace {

TEST(RequestScopeTest, TheInnermostCountsUntilItEnds) {
  EXPECT_EQ(RequestScope::Id(), "");
  {
    const RequestScope outer("outer");
    EXPECT_EQ(RequestScope::Id(), "outer");
    {
      const RequestScope inner("inner");
      EXPECT_EQ(RequestScope::Id(), "inner");
      const RequestScope none("");
      EXPECT_EQ(RequestScope::Id(), "");
    }
    EXPECT_EQ(RequestScope::Id(), "outer");
  }
  EXPECT_EQ(RequestScope::Id(), "");
}

TEST(RequestScopeTest, EachThreadHasItsOwn) {
  const RequestScope scope("here");
  std::string elsewhere = "unset";
  std::thread([&elsewhere] {
    elsewhere = RequestScope::Id();
    const RequestScope other("there");
  }).join();
  EXPECT_EQ(elsewhere, "");
  EXPECT_EQ(RequestScope::Id(), "here");
}

}  // namespace
}  // namespace plimsoll::services
