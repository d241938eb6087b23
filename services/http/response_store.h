// Keeps responses of OpenAI's API. Clients may read them later, or continue the
// conversation that they end.
#ifndef PLIMSOLL_SERVICES_HTTP_RESPONSE_STORE_H_
#define PLIMSOLL_SERVICES_HTTP_RESPONSE_STORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace plimsoll::services {

// A response and what it answers, as JSON.
struct ResponseTexts {
  std::string input;   // a text, or an array of items
  std::string output;  // an array of items
  std::string rest;    // the response's object without its output
};

// A response with the turns before it. Other responses may share these turns:
// each turn is kept only once.
class StoredTurn {
 public:
  using Ptr = std::shared_ptr<const StoredTurn>;
  // Bytes that a turn takes beside its texts: objects, nodes and the id.
  static constexpr int64_t kFrameBytes = 512;

  // The turn's bytes count in `total` as long as the turn exists.
  StoredTurn(ResponseTexts texts, Ptr previous,
             std::shared_ptr<std::atomic<int64_t>> total);
  ~StoredTurn();
  StoredTurn(const StoredTurn&) = delete;
  StoredTurn& operator=(const StoredTurn&) = delete;

  static int64_t BytesOf(const ResponseTexts& texts);

  const ResponseTexts& texts() const { return texts_; }
  // The turn before it; null if it is the first one.
  const StoredTurn* previous() const { return previous_.get(); }

 private:
  const ResponseTexts texts_;
  const std::shared_ptr<std::atomic<int64_t>> total_;
  mutable Ptr previous_;  // the destructor of the next turn takes it
};

// The least recently used response is removed first. A response whose own id
// was removed stays as a turn of the responses that continue it. Thread-safe.
class ResponseStore {
 public:
  static constexpr size_t kMaxResponses = 4'096;
  // The bound counts all turns, also those that are only part of later
  // responses.
  static constexpr int64_t kMaxBytes = 16 << 20;

  // If `keeps` is false, the store keeps nothing, for a process without state;
  // requests that need a store are refused.
  explicit ResponseStore(bool keeps = true) : keeps_(keeps) {}

  bool keeps() const { return keeps_; }

  // Keeps a response under an id that nobody can guess. `previous` is the turn
  // before it, or null. A response that is larger than the store leaves at
  // once.
  void Keep(const std::string& tenant, const std::string& id,
            ResponseTexts texts, StoredTurn::Ptr previous)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The response of this id, which counts as used now. Null if there is none,
  // or if it is another tenant's.
  StoredTurn::Ptr Find(const std::string& tenant, const std::string& id)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Forgets a response. Returns false if Find would not find it.
  bool Remove(const std::string& tenant, const std::string& id)
      ABSL_LOCKS_EXCLUDED(mu_);

  int64_t bytes() const { return *bytes_; }

 private:
  struct Entry {
    std::string id;
    std::string tenant;
    StoredTurn::Ptr turn;
  };
  using Entries = std::list<Entry>;

  // The entry for Find, or end().
  Entries::iterator At(const std::string& tenant, const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Erase(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const bool keeps_;
  // Calls may hold turns for longer than the store exists.
  const std::shared_ptr<std::atomic<int64_t>> bytes_ =
      std::make_shared<std::atomic<int64_t>>(0);
  absl::Mutex mu_;
  Entries entries_ ABSL_GUARDED_BY(mu_);  // the most recently used first
  std::map<std::string, Entries::iterator> by_id_ ABSL_GUARDED_BY(mu_);
};

// The responses of one tenant. The store outlives it.
struct ResponseShelf {
  ResponseStore& store;
  std::string tenant;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_RESPONSE_STORE_H_
