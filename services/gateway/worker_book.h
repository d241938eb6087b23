// Chooses the worker for a request, from facts about the workers and from the
// running requests.
#ifndef PLIMSOLL_SERVICES_GATEWAY_WORKER_BOOK_H_
#define PLIMSOLL_SERVICES_GATEWAY_WORKER_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace plimsoll::services {

// The requirements of a request for a worker.
struct WorkerWish {
  std::string model;
  // Requests with the same key go to the same worker unless that worker has too
  // many bytes in flight. A request with an empty key goes to the worker with
  // the least bytes in flight.
  std::string key = "";
  int64_t bytes = 0;  // bytes of the request; see WorkerBook::kRequestBytes
  std::set<std::string> tried = {};  // workers that it must not go to
};

// How a request to a worker has ended.
enum class WorkerEnd {
  kAnswered,  // the worker answered, also by an error
  kGone,      // there was no answer, or it broke off
  kLeft,      // the client went away, which says nothing about the worker
};

// Two books with the same workers send the same key to the same worker, also in
// two processes. Not thread-safe; the time is an argument.
class WorkerBook {
 public:
  static constexpr size_t kMaxWorkers = 256;
  // Each request counts as this many bytes in addition to its own.
  static constexpr int64_t kRequestBytes = 1 << 10;
  // A worker with up to this many bytes in flight is not busy, even if the
  // others have less.
  static constexpr int64_t kFreeBytes = 16 << 10;
  // A request is not sent to a worker because of its key if that worker has
  // more than kMaxShare times the bytes in flight that the workers to which the
  // request may go have on average.
  static constexpr double kMaxShare = 1.25;
  // A worker that was gone gets no requests for kEjectTime if there are other
  // workers. The time doubles with each further failure in a row, up to
  // kMaxEjectTime.
  static constexpr absl::Duration kEjectTime = absl::Seconds(2);
  static constexpr absl::Duration kMaxEjectTime = absl::Seconds(30);

  // A worker's report about itself.
  struct Facts {
    bool is_ready = false;
    std::set<std::string> models = {};  // all that are configured
    std::set<std::string> loaded = {};  // those that are ready
  };
  struct Worker {
    Facts facts = {};
    int64_t in_flight = 0;        // requests
    int64_t in_flight_bytes = 0;  // with kRequestBytes for each
    int64_t n_requests = 0;       // requests that it ever got
    int64_t n_gone = 0;           // requests that it did not answer
    int n_gone_in_row = 0;
    absl::Time ejected_until = absl::InfinitePast();
    uint64_t last_turn = 0;
  };

  // Sets the workers, of which at most kMaxWorkers count; the others are left
  // out. Known workers keep their state. Calls about requests of a removed
  // worker are still allowed.
  void SetWorkers(const std::vector<std::string>& ids);
  // Does nothing for a worker that it does not know.
  void SetFacts(const std::string& id, Facts facts);

  // Returns the worker that `wish` goes to, and counts the request as in flight
  // there. Workers that are not ready get no requests. Workers that were just
  // gone get none if there are others. Workers that have loaded the model are
  // preferred to workers that must load it first.
  // Errors: kUnavailable, with a retry delay, if no worker is left.
  absl::StatusOr<std::string> Enter(const WorkerWish& wish, absl::Time now);
  // The request with these bytes has ended at that worker.
  void Release(const std::string& id, int64_t bytes, WorkerEnd end,
               absl::Time now);

  // Requests that did not go to the worker of their key because of its share.
  int64_t n_given_way() const { return n_given_way_; }
  bool has_ready() const;
  const std::map<std::string, Worker>& workers() const { return workers_; }

 private:
  using Entry = std::map<std::string, Worker>::value_type;

  std::vector<Entry*> Allowed(const WorkerWish& wish, absl::Time now);
  Entry& Choose(const WorkerWish& wish, std::vector<Entry*>& allowed);

  std::map<std::string, Worker> workers_;
  uint64_t turn_ = 0;
  int64_t n_given_way_ = 0;
};

// The weight with which a key prefers a worker. Every process computes the same
// number.
uint64_t KeyScore(absl::string_view key, absl::string_view worker);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GATEWAY_WORKER_BOOK_H_
