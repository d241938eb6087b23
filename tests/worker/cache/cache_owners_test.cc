// The book of who wrote each place, against a plain list.
#include "worker/cache/cache_owners.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace plimsoll::worker {
namespace {

TEST(CacheOwnersTest, WhatNobodyWroteIsNobodyElses) {
  CacheOwners owners(2);
  EXPECT_FALSE(owners.IsOthers(0, "a"));
  EXPECT_FALSE(owners.IsOthersThan(0, 1));
  EXPECT_EQ(owners.NameOf(0), "");
  owners.Give(0, "a");
  EXPECT_FALSE(owners.IsOthers(0, "a"));
  EXPECT_TRUE(owners.IsOthers(0, "b"));
  EXPECT_TRUE(owners.IsOthers(0, "")) << "that is an owner like any other";
  EXPECT_TRUE(owners.IsOthersThan(0, 1)) << "nobody is not the owner";
  EXPECT_FALSE(owners.IsOthersThan(1, 0));
}

TEST(CacheOwnersTest, ANameGoesWithItsLastPlace) {
  CacheOwners owners(2);
  owners.Give(0, "a");
  owners.Give(1, "a");
  owners.Give(0, "b");
  EXPECT_EQ(owners.n_names(), 2);
  owners.GiveLike(1, 0);
  EXPECT_EQ(owners.n_names(), 1);
  EXPECT_EQ(owners.NameOf(1), "b");
  for (int i = 0; i < 100'000; ++i) {
    owners.Give(i % 2, std::to_string(i));
    ASSERT_LE(owners.n_names(), 2);
  }
}

TEST(CacheOwnersTest, RandomUseAgreesWithAPlainList) {
  constexpr int64_t kPlaces = 12;
  std::mt19937 random(7);
  const auto draw = [&](uint32_t n) {
    return static_cast<int64_t>(random() % n);
  };
  CacheOwners owners(kPlaces);
  std::vector<std::optional<std::string>> wanted(kPlaces);
  for (int round = 0; round < 20'000; ++round) {
    const int64_t place = draw(kPlaces);
    const int64_t like = draw(kPlaces);
    const std::string name(1, static_cast<char>('a' + draw(20)));
    auto& here = wanted[static_cast<size_t>(place)];
    const auto& there = wanted[static_cast<size_t>(like)];
    ASSERT_EQ(owners.IsOthers(place, name), here && *here != name);
    ASSERT_EQ(owners.IsOthersThan(place, like), here && here != there);
    ASSERT_EQ(owners.NameOf(place), here.value_or(""));
    if (draw(2) == 0) {
      owners.Give(place, name);
      here = name;
    } else {
      owners.GiveLike(place, like);
      here = there;
    }
    std::set<std::string> names;
    for (const auto& owner : wanted) {
      if (owner) names.insert(*owner);
    }
    ASSERT_EQ(owners.n_names(), std::ssize(names));
  }
}

}  // namespace
}  // namespace plimsoll::worker
