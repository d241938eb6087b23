// Chooses which item of many owners is given up next.
#ifndef PLIMSOLL_WORKER_CACHE_FAIR_AGES_H_
#define PLIMSOLL_WORKER_CACHE_FAIR_AGES_H_

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace plimsoll::worker {

// The next item is the oldest one of the owner that has most items. If several
// owners have equally many, it is the oldest item of them all. Every operation
// takes time that is logarithmic in the number of owners and of items. Only
// NewEntry and the constructor of Owner allocate.
template <class Item>
class FairAges {
  using Ages = std::map<int64_t, Item*>;

 public:
  // An item's place in the order, while it is not listed.
  using Entry = typename Ages::node_type;
  static Entry NewEntry(Item* item) {
    Ages one;
    one.emplace(0, item);
    return one.extract(one.begin());
  }

  // An Owner cannot be moved. None of its items may be listed when it is
  // destroyed.
  class Owner;

 private:
  // An owner with more items ranks higher, and among equal ones the owner with
  // the older item.
  struct Rank {
    int64_t n_items;
    int64_t oldest;  // ages are unique
    Owner* owner;
    bool operator<(const Rank& other) const {
      return std::tie(other.n_items, oldest) < std::tie(n_items, other.oldest);
    }
  };
  using Ranks = std::set<Rank>;

 public:
  class Owner {
   public:
    Owner() {
      Ranks one;
      one.insert({0, 0, this});
      rank_ = one.extract(one.begin());
    }
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;

    int64_t n_items() const { return n_items_; }

   private:
    friend class FairAges;
    int64_t n_items_ = 0;
    Ages listed_;
    typename Ranks::node_type rank_;  // while nothing is listed
  };

  // Changes how many items the owner has, listed or not.
  void Count(Owner& owner, int64_t change) {
    Change(owner, [&] { owner.n_items_ += change; });
  }
  // Lists an item, which may go from now on. Requires an age that no other item
  // has; a larger one is younger.
  void List(Owner& owner, int64_t age, Entry& entry) {
    entry.key() = age;
    Change(owner, [&] { owner.listed_.insert(std::move(entry)); });
  }
  // Takes an item off the list.
  void Unlist(Owner& owner, int64_t age, Entry& entry) {
    Change(owner, [&] { entry = owner.listed_.extract(age); });
  }

  // The item that goes next; null if none is listed.
  Item* First() const {
    return ranks_.empty() ? nullptr : OldestOf(*ranks_.begin()->owner);
  }
  // The item that is given up so that `owner` can have `n_new` more. It is one
  // of the owner's own items if the owner then has most. Null if nothing is
  // listed, or if only owners with fewer items have a listed one.
  Item* FirstFor(const Owner& owner, int64_t n_new) const {
    if (ranks_.empty()) return nullptr;
    if (owner.n_items_ + n_new <= ranks_.begin()->n_items) return First();
    return owner.listed_.empty() ? nullptr : OldestOf(owner);
  }

 private:
  static Item* OldestOf(const Owner& owner) {
    return owner.listed_.begin()->second;
  }
  template <class Function>
  void Change(Owner& owner, const Function& change) {
    if (!owner.listed_.empty()) owner.rank_ = ranks_.extract(RankOf(owner));
    change();
    if (owner.listed_.empty()) return;
    owner.rank_.value() = RankOf(owner);
    ranks_.insert(std::move(owner.rank_));
  }
  static Rank RankOf(Owner& owner) {
    return {owner.n_items_, owner.listed_.begin()->first, &owner};
  }

  Ranks ranks_;  // owners that have a listed item
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_CACHE_FAIR_AGES_H_
