// Who may say something about a lease.
#include "services/planner/lease_holder.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::services {
namespace {

const std::string kSecret(kMinSecretBytes, 's');

planner::Lease LeaseWith(const std::string& secret) {
  planner::Lease lease;
  lease.holder = "dns:a host/1";
  lease.secret_hash = *HashSecret(secret);
  return lease;
}

constexpr char kNoOwner[] = "";

bool IsHolder(const planner::Lease& lease, const std::string& secret,
              const std::string& owner) {
  const absl::Status status = CheckHolder(lease, {owner, secret});
  EXPECT_TRUE(status.ok() || absl::IsPermissionDenied(status)) << status;
  return status.ok();
}

TEST(LeaseHolderTest, ASecretHasALimitedLength) {
  EXPECT_FALSE(HashSecret(std::string(kMinSecretBytes - 1, 's')).ok());
  EXPECT_TRUE(HashSecret(std::string(kMinSecretBytes, 's')).ok());
  EXPECT_TRUE(HashSecret(std::string(kMaxSecretBytes, 's')).ok());
  EXPECT_FALSE(HashSecret(std::string(kMaxSecretBytes + 1, 's')).ok());
}

TEST(LeaseHolderTest, WhatIsKeptIsNotTheSecret) {
  EXPECT_EQ(*HashSecret(""), "");
  const std::string hash = *HashSecret(kSecret);
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_EQ(hash.find(kSecret), std::string::npos);
  EXPECT_NE(hash, *HashSecret(kSecret + "s"));
}

TEST(LeaseHolderTest, OnlyTheSecretProvesTheHolder) {
  const planner::Lease lease = LeaseWith(kSecret);
  EXPECT_TRUE(IsHolder(lease, kSecret, kNoOwner));
  EXPECT_FALSE(IsHolder(lease, "", kNoOwner));
  EXPECT_FALSE(IsHolder(lease, kSecret + "s", kNoOwner));
  EXPECT_FALSE(IsHolder(lease, kSecret.substr(1), kNoOwner));
  EXPECT_FALSE(
      IsHolder(lease, std::string(kMaxSecretBytes + 1, 's'), kNoOwner));
  EXPECT_FALSE(IsHolder(lease, lease.secret_hash, kNoOwner));
}

TEST(LeaseHolderTest, ALeaseWithoutASecretTakesAny) {
  const planner::Lease lease = LeaseWith("");
  EXPECT_TRUE(IsHolder(lease, "", kNoOwner));
  EXPECT_TRUE(IsHolder(lease, kSecret, kNoOwner));
  EXPECT_TRUE(IsHolder(lease, std::string(kMaxSecretBytes + 1, 's'), kNoOwner));
}

TEST(LeaseHolderTest, AnOwnerNeedsTheSecretToo) {
  const planner::Lease lease = LeaseWith(kSecret);
  EXPECT_TRUE(IsHolder(lease, kSecret, "dns:a"));
  EXPECT_FALSE(IsHolder(lease, "", "dns:a"));
  EXPECT_FALSE(IsHolder(lease, kSecret, "dns:b"));
  EXPECT_FALSE(IsHolder(lease, kSecret, "dns:"));
}

TEST(LeaseHolderTest, AWorkerWithAnotherTokenKeepsItsLeasesByTheirSecret) {
  const planner::Lease lease = LeaseWith(kSecret);
  EXPECT_TRUE(IsHolder(lease, kSecret, "token:b"));
  EXPECT_FALSE(IsHolder(lease, "", "token:b"));
  EXPECT_FALSE(IsHolder(lease, kSecret + "s", "token:b"));
  const planner::Lease old = LeaseWith("");
  EXPECT_FALSE(IsHolder(old, "", "token:b"));
  EXPECT_FALSE(IsHolder(old, kSecret, "token:b"));
}

TEST(LeaseHolderTest, ANameIsThatOfAnyOwner) {
  EXPECT_TRUE(IsNameOf("host/1", "host/1"));
  EXPECT_TRUE(IsNameOf("token:a host/1", "host/1"));
  EXPECT_TRUE(IsNameOf(OwnedName("dns:a", "host/1"), "host/1"));
  EXPECT_FALSE(IsNameOf("token:a host/1", "ost/1"));
  EXPECT_FALSE(IsNameOf("host/1", "token:a host/1"));
}

TEST(LeaseHolderTest, NamesOfProcesses) {
  v1::ProcessIdentity process;
  EXPECT_EQ(*ProcessName(false, process), "");
  EXPECT_FALSE(ProcessName(true, process).ok());
  process.set_pid(7);
  process.set_boot_id("boot");
  EXPECT_EQ(*ProcessName(true, process), BookName(process));
  process.set_start_ticks(uint64_t{1} << 63);
  EXPECT_FALSE(ProcessName(true, process).ok());
}

}  // namespace
}  // namespace plimsoll::services
