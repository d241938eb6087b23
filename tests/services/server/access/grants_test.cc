#include "services/server/access/grants.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace plimsoll::services {
namespace {

using Code = absl::StatusCode;

std::string MessageOf(absl::string_view text) {
  return std::string(ParseGrant(text).status().message());
}

TEST(ParseGrantTest, SaysWhoAndWhat) {
  const auto user = ParseGrant("uid:1000=user:team-a");
  ASSERT_TRUE(user.ok()) << user.status();
  EXPECT_TRUE(user->is_local());
  EXPECT_EQ(user->uid, 1000u);
  EXPECT_EQ(user->identity.role, Role::kUser);
  EXPECT_EQ(user->identity.tenant, "team-a");
  EXPECT_EQ(user->identity.name, "uid:1000");

  const auto group = ParseGrant("gid:27=admin");
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ(group->kind, Grantee::kGroup);
  EXPECT_EQ(group->gid, 27u);
  EXPECT_EQ(group->identity.tenant, "");
}

TEST(ParseGrantTest, NamesOfUsersAndGroupsAreLookedUp) {
  const passwd* me = getpwuid(0);
  const group* mine = getgrgid(0);
  ASSERT_TRUE(me != nullptr && mine != nullptr);
  const auto user = ParseGrant(std::string("user:") + me->pw_name + "=viewer");
  ASSERT_TRUE(user.ok()) << user.status();
  EXPECT_EQ(user->uid, 0u);
  EXPECT_EQ(user->identity.name, "uid:0");
  const auto of_group =
      ParseGrant(std::string("group:") + mine->gr_name + "=viewer");
  ASSERT_TRUE(of_group.ok()) << of_group.status();
  EXPECT_EQ(of_group->gid, 0u);
  EXPECT_THAT(MessageOf("user:no-such-user=viewer"),
              ::testing::HasSubstr("no user no-such-user"));
  EXPECT_THAT(MessageOf("group:no-such-group=viewer"),
              ::testing::HasSubstr("no group no-such-group"));
}

TEST(ParseGrantTest, TheLastEqualsSignEndsTheGrantee) {
  const auto grant = ParseGrant("uri:spiffe://x/y?a=b=worker");
  ASSERT_TRUE(grant.ok()) << grant.status();
  EXPECT_FALSE(grant->is_local());
  EXPECT_EQ(grant->text, "spiffe://x/y?a=b");
  EXPECT_EQ(grant->identity.role, Role::kWorker);
}

TEST(ParseGrantTest, OnlyAWorkerOwnsLeases) {
  EXPECT_EQ(ParseGrant("dns:GPU1.example=worker")->identity.lease_owner,
            "dns:gpu1.example");
  EXPECT_EQ(ParseGrant("dns:gpu1.example=admin")->identity.lease_owner, "");
}

TEST(ParseGrantTest, MistakesAreNamed) {
  for (const char* text :
       {"", "uid:1", "=viewer", "uid=viewer", "uid:=viewer", "uid:x=viewer",
        "uid:-1=viewer", "uid:4294967295=viewer", "who:1=viewer",
        "uid:1=", "uid:1=king", "uid:1=user", "uid:1=viewer:a b",
        "dns:a b=viewer", "uid:65534=viewer", "gid:65534=viewer"}) {
    EXPECT_EQ(ParseGrant(text).status().code(), Code::kInvalidArgument) << text;
  }
  EXPECT_THAT(MessageOf("uid:1=king"), ::testing::HasSubstr("king"));
  EXPECT_THAT(MessageOf("uid:65534=viewer"), ::testing::HasSubstr("nobody"));
}

TEST(ParseGrantTest, AGranteeHasABoundedName) {
  const std::string most(kMaxGranteeBytes, 'a');
  EXPECT_TRUE(ParseGrant("cn:" + most + "=viewer").ok());
  EXPECT_EQ(ParseGrant("cn:" + most + "a=viewer").status().code(),
            Code::kInvalidArgument);
}

TEST(ParseGrantsTest, TheNumberIsBounded) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < kMaxGrants; ++i) {
    texts.push_back("uid:" + std::to_string(i) + "=viewer");
  }
  EXPECT_EQ(ParseGrants(texts)->size(), kMaxGrants);
  texts.emplace_back("uid:9999=viewer");
  EXPECT_EQ(ParseGrants(texts).status().code(), Code::kInvalidArgument);
}

TEST(ParseGrantsTest, OneGranteeHasOneGrant) {
  const auto grants = ParseGrants({"uid:0=viewer", "user:root=admin"});
  EXPECT_EQ(grants.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(grants.status().message()),
              ::testing::HasSubstr("uid:0"));
}

TEST(FindGrantTest, AProcessHasAllItsGroups) {
  const auto grants =
      *ParseGrants({"gid:7=viewer", "gid:5=admin", "uid:3=viewer"});
  EXPECT_EQ(FindUserGrant(grants, {.uid = 3, .gids = {5}}), 2u);
  EXPECT_EQ(FindUserGrant(grants, {.uid = 4, .gids = {5}}), std::nullopt);
  EXPECT_EQ(FindGroupGrant(grants, {.uid = 3, .gids = {1, 5}}), 1u);
  EXPECT_EQ(FindGroupGrant(grants, {.uid = 3, .gids = {5, 7}}), 0u);
  EXPECT_EQ(FindGroupGrant(grants, {.uid = 3, .gids = {3}}), std::nullopt);
}

TEST(FindGrantTest, ACertificateHasTheFirstGrantForOneOfItsNames) {
  const auto grants =
      *ParseGrants({"uri:spiffe://x/w=worker", "dns:ada.example=user:team-a",
                    "cn:ops=admin"});
  const auto role = [&grants](const CertificateNames& names) {
    const auto identity = FindCertificateGrant(grants, names);
    return identity.has_value() ? RoleName(identity->role) : "";
  };
  EXPECT_STREQ(role({.uris = {"spiffe://x/w"}}), "worker");
  EXPECT_STREQ(role({.uris = {"spiffe://x/w2", "spiffe://x/w"}}), "worker");
  EXPECT_STREQ(role({.dns = {"ADA.example"}}), "user");
  EXPECT_STREQ(role({.common_name = "ops"}), "admin");
  EXPECT_STREQ(role({.dns = {"ada.example"}, .common_name = "ops"}), "user");
  // A name of another kind, another case, a part of a name: nothing.
  EXPECT_STREQ(role({.uris = {"ada.example", "SPIFFE://x/w"},
                     .dns = {"ops", "example", "*.example"},
                     .common_name = "ada.example"}),
               "");
  EXPECT_STREQ(role({}), "");
}

}  // namespace
}  // namespace plimsoll::services
