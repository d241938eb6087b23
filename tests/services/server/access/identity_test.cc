#include "services/server/access/identity.h"

#include "gtest/gtest.h"

namespace plimsoll::services {
namespace {

TEST(IdentityTest, OnlyAnAdministratorWithoutATenantChoosesOne) {
  for (const Role role :
       {Role::kViewer, Role::kUser, Role::kWorker, Role::kAdmin}) {
    const Identity bound = {.name = "n", .tenant = "own", .role = role};
    EXPECT_EQ(TenantOf(bound, "wanted"), "own");
    EXPECT_EQ(TenantOf(bound, ""), "own");
    const Identity free = {.name = "n", .tenant = "", .role = role};
    EXPECT_EQ(TenantOf(free, "wanted"), role == Role::kAdmin ? "wanted" : "");
  }
}

}  // namespace
}  // namespace plimsoll::services
