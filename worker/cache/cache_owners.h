// Who wrote each place of the KV cache last, so that it is cleared before
// another owner gets it.
#ifndef PLIMSOLL_WORKER_CACHE_CACHE_OWNERS_H_
#define PLIMSOLL_WORKER_CACHE_CACHE_OWNERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace plimsoll::worker {

// Places are numbers in [0, n_places). At first nobody has written them. An
// owner's name is kept as long as a place is its own, so there are never more
// names than places. Pure bookkeeping: the caller clears the bytes. Not
// thread-safe.
class CacheOwners {
 public:
  // An owner has a number, which each of its places keeps.
  using Number = int32_t;

  explicit CacheOwners(int64_t n_places);
  CacheOwners(const CacheOwners&) = delete;
  CacheOwners& operator=(const CacheOwners&) = delete;

  // True if `place` may hold bytes of anybody but `owner`.
  bool IsOthers(int64_t place, const std::string& owner) const;
  // Makes `place` the owner's.
  void Give(int64_t place, const std::string& owner);

  // True if `place` may hold bytes of anybody but the owner of `like`. This
  // call and the next two allocate nothing.
  bool IsOthersThan(int64_t place, int64_t like) const {
    const Number number = At(place);
    return number != kNobody && number != At(like);
  }
  // True if one owner has both.
  bool IsSame(int64_t place, int64_t other) const {
    return At(place) == At(other);
  }
  // Makes `place` the property of the owner of `like`.
  void GiveLike(int64_t place, int64_t like) { Set(place, At(like)); }

  // The name of a place's owner; empty if nobody has written it.
  const std::string& NameOf(int64_t place) const;
  int64_t n_names() const { return static_cast<int64_t>(names_.size()); }

 private:
  static constexpr Number kNobody = 0;
  using Names = std::map<std::string, Number>;
  struct Owner {
    Names::iterator name;
    int64_t n_places = 0;  // 0: the number is free
  };

  Number At(int64_t place) const {
    return numbers_[static_cast<size_t>(place)];
  }
  // The number of a name, which has no place yet if it is new.
  Number NumberOf(const std::string& owner);
  void Set(int64_t place, Number number);

  std::vector<Number> numbers_;  // by place
  std::vector<Owner> owners_;    // by number; number 0, nobody, is unused
  std::vector<Number> free_numbers_;
  Names names_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_CACHE_CACHE_OWNERS_H_
