#include "services/http/response_store.h"

#include <iterator>
#include <utility>

namespace plimsoll::services {

StoredTurn::StoredTurn(ResponseTexts texts, Ptr previous,
                       std::shared_ptr<std::atomic<int64_t>> total)
    : texts_(std::move(texts)),
      total_(std::move(total)),
      previous_(std::move(previous)) {
  *total_ += BytesOf(texts_);
}

StoredTurn::~StoredTurn() {
  *total_ -= BytesOf(texts_);
  // One by one: a long conversation would be too deep for destructors that call
  // each other.
  while (previous_ != nullptr && previous_.use_count() == 1) {
    previous_ = std::exchange(previous_->previous_, nullptr);
  }
}

int64_t StoredTurn::BytesOf(const ResponseTexts& texts) {
  return kFrameBytes +
         static_cast<int64_t>(texts.input.size() + texts.output.size() +
                              texts.rest.size());
}

void ResponseStore::Keep(const std::string& tenant, const std::string& id,
                         ResponseTexts texts, StoredTurn::Ptr previous) {
  auto turn = std::make_shared<const StoredTurn>(std::move(texts),
                                                 std::move(previous), bytes_);
  absl::MutexLock lock(&mu_);
  if (const auto old = by_id_.find(id); old != by_id_.end()) Erase(old->second);
  entries_.push_front({id, tenant, std::move(turn)});
  by_id_[id] = entries_.begin();
  while (!entries_.empty() &&
         (entries_.size() > kMaxResponses || *bytes_ > kMaxBytes)) {
    Erase(std::prev(entries_.end()));
  }
}

StoredTurn::Ptr ResponseStore::Find(const std::string& tenant,
                                    const std::string& id) {
  absl::MutexLock lock(&mu_);
  const auto entry = At(tenant, id);
  if (entry == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, entry);
  return entry->turn;
}

bool ResponseStore::Remove(const std::string& tenant, const std::string& id) {
  absl::MutexLock lock(&mu_);
  const auto entry = At(tenant, id);
  if (entry == entries_.end()) return false;
  Erase(entry);
  return true;
}

ResponseStore::Entries::iterator ResponseStore::At(const std::string& tenant,
                                                   const std::string& id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->tenant != tenant) {
    return entries_.end();
  }
  return found->second;
}

void ResponseStore::Erase(Entries::iterator entry) {
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

}  // namespace plimsoll::services
