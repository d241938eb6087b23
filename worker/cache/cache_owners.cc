#include "worker/cache/cache_owners.h"

namespace plimsoll::worker {

CacheOwners::CacheOwners(int64_t n_places)
    : numbers_(static_cast<size_t>(n_places), kNobody), owners_(1) {}

bool CacheOwners::IsOthers(int64_t place, const std::string& owner) const {
  const Number number = At(place);
  return number != kNobody &&
         owners_[static_cast<size_t>(number)].name->first != owner;
}

void CacheOwners::Give(int64_t place, const std::string& owner) {
  Set(place, NumberOf(owner));
}

const std::string& CacheOwners::NameOf(int64_t place) const {
  static const std::string* const nobody = new std::string();
  const Number number = At(place);
  return number == kNobody ? *nobody
                           : owners_[static_cast<size_t>(number)].name->first;
}

CacheOwners::Number CacheOwners::NumberOf(const std::string& owner) {
  const auto [name, is_new] = names_.try_emplace(owner, kNobody);
  if (!is_new) return name->second;
  if (free_numbers_.empty()) {
    free_numbers_.push_back(static_cast<Number>(owners_.size()));
    owners_.emplace_back();
    // Set, which gives numbers back, has room for all of them.
    free_numbers_.reserve(owners_.capacity());
  }
  name->second = free_numbers_.back();
  free_numbers_.pop_back();
  owners_[static_cast<size_t>(name->second)].name = name;
  return name->second;
}

void CacheOwners::Set(int64_t place, Number number) {
  const Number before = At(place);
  if (before == number) return;
  numbers_[static_cast<size_t>(place)] = number;
  if (number != kNobody) ++owners_[static_cast<size_t>(number)].n_places;
  if (before == kNobody) return;
  Owner& owner = owners_[static_cast<size_t>(before)];
  if (--owner.n_places > 0) return;
  names_.erase(owner.name);
  free_numbers_.push_back(before);
}

}  // namespace plimsoll::worker
