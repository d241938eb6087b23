#include "worker/cache/fair_ages.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace plimsoll::worker {
namespace {

using Ages = FairAges<int>;

class FairAgesTest : public ::testing::Test {
 protected:
  FairAgesTest() {
    for (int& item : items_) {
      item = static_cast<int>(&item - items_.data());
      entries_.push_back(Ages::NewEntry(&item));
    }
  }
  // Every owner's items are off the list when it ends.
  ~FairAgesTest() override {
    for (const auto& [age, item] : listed_) {
      ages_.Unlist(owners_[OwnerOf(item)], age, entries_[item]);
    }
  }

  static size_t OwnerOf(size_t item) { return item % 3; }
  // Item i is of owner i % 3.
  void List(size_t item, int64_t age) {
    ages_.Count(owners_[OwnerOf(item)], 1);
    ages_.List(owners_[OwnerOf(item)], age, entries_[item]);
    listed_[age] = item;
  }
  void Remove(int64_t age) {
    const size_t item = listed_.at(age);
    ages_.Unlist(owners_[OwnerOf(item)], age, entries_[item]);
    ages_.Count(owners_[OwnerOf(item)], -1);
    listed_.erase(age);
  }
  int First() const { return ages_.First() == nullptr ? -1 : *ages_.First(); }
  int FirstFor(size_t owner, int64_t n_new) const {
    const int* const item = ages_.FirstFor(owners_[owner], n_new);
    return item == nullptr ? -1 : *item;
  }

  // What FirstFor is to return, by looking at every item.
  int Expected(size_t owner, int64_t n_new) const {
    int64_t most = 0;
    for (const auto& [age, item] : listed_) {
      most = std::max(most, owners_[OwnerOf(item)].n_items());
    }
    const bool is_own = owners_[owner].n_items() + n_new > most;
    for (const auto& [age, item] : listed_) {
      const bool is_of = is_own ? OwnerOf(item) == owner
                                : owners_[OwnerOf(item)].n_items() == most;
      if (is_of) return static_cast<int>(item);
    }
    return -1;
  }

  std::array<int, 30> items_;
  std::vector<Ages::Entry> entries_;
  std::array<Ages::Owner, 3> owners_;
  Ages ages_;
  std::map<int64_t, size_t> listed_;  // items by their ages
};

TEST_F(FairAgesTest, TheOldestOfWhoHasMostGoesFirst) {
  EXPECT_EQ(First(), -1);
  List(0, 1);
  EXPECT_EQ(First(), 0);
  List(1, 2);
  EXPECT_EQ(First(), 0) << "of owners with equally many, the oldest item";
  List(4, 3);
  EXPECT_EQ(First(), 1);
  Remove(2);
  EXPECT_EQ(First(), 0);
}

TEST_F(FairAgesTest, ItemsThatAreNotListedCount) {
  List(0, 1);
  List(1, 2);
  ages_.Count(owners_[1], 1);
  EXPECT_EQ(owners_[1].n_items(), 2);
  EXPECT_EQ(First(), 1);
  ages_.Count(owners_[1], -1);
  EXPECT_EQ(First(), 0);
}

TEST_F(FairAgesTest, WhoWouldHaveMostGivesItsOwn) {
  EXPECT_EQ(FirstFor(2, 1), -1);
  for (int i = 0; i < 3; ++i) List(static_cast<size_t>(3 * i), 1 + i);
  List(1, 9);
  EXPECT_EQ(FirstFor(1, 2), 0) << "it would have as many as owner 0";
  EXPECT_EQ(FirstFor(1, 3), 1);
  EXPECT_EQ(FirstFor(0, 1), 0);
  EXPECT_EQ(FirstFor(2, 3), 0);
  EXPECT_EQ(FirstFor(2, 4), -1) << "it has nothing to give";
}

TEST_F(FairAgesTest, HasTheOrderOfALookAtEveryItem) {
  std::mt19937 random(1);
  int64_t age = 0;
  std::vector<size_t> free;
  for (size_t i = 0; i < items_.size(); ++i) free.push_back(i);
  for (int step = 0; step < 2'000; ++step) {
    const bool adds = listed_.empty() || (!free.empty() && random() % 2 == 0);
    if (adds) {
      std::swap(free[random() % free.size()], free.back());
      List(free.back(), ++age);
      free.pop_back();
    } else {
      const auto at = std::next(
          listed_.begin(), static_cast<ptrdiff_t>(random() % listed_.size()));
      free.push_back(at->second);
      Remove(at->first);
    }
    EXPECT_EQ(First(), Expected(0, -100)) << step;
    for (size_t owner = 0; owner < owners_.size(); ++owner) {
      for (const int64_t n : {1, 3, 20}) {
        EXPECT_EQ(FirstFor(owner, n), Expected(owner, n))
            << step << ' ' << owner << ' ' << n;
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::worker
