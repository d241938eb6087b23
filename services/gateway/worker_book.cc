#include "services/gateway/worker_book.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

// When another worker may be there, or the same one again.
constexpr absl::Duration kWorkerRetry = absl::Seconds(1);

// FNV-1a, with 64 bits.
uint64_t HashOf(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

// The finalizer of MurmurHash3: each bit of the result depends on all bits.
uint64_t Mix(uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccd;
  value ^= value >> 33;
  value *= 0xc4ceb9fe1a85ec53;
  return value ^ (value >> 33);
}

}  // namespace

uint64_t KeyScore(absl::string_view key, absl::string_view worker) {
  return Mix(Mix(HashOf(key)) ^ HashOf(worker));
}

void WorkerBook::SetWorkers(const std::vector<std::string>& ids) {
  std::map<std::string, Worker> workers;
  for (const std::string& id : ids) {
    if (workers.size() == kMaxWorkers) break;
    const auto known = workers_.find(id);
    workers[id] = known == workers_.end() ? Worker() : std::move(known->second);
  }
  workers_ = std::move(workers);
}

void WorkerBook::SetFacts(const std::string& id, Facts facts) {
  const auto found = workers_.find(id);
  if (found != workers_.end()) found->second.facts = std::move(facts);
}

bool WorkerBook::has_ready() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& entry) {
    return entry.second.facts.is_ready;
  });
}

std::vector<WorkerBook::Entry*> WorkerBook::Allowed(const WorkerWish& wish,
                                                    absl::Time now) {
  // The better ones, if there are any: they have loaded the model, then they
  // were not gone.
  std::vector<Entry*> best[4];
  for (Entry& entry : workers_) {
    const Worker& worker = entry.second;
    if (!worker.facts.is_ready || wish.tried.count(entry.first) > 0 ||
        worker.facts.models.count(wish.model) == 0) {
      continue;
    }
    const bool is_loaded = worker.facts.loaded.count(wish.model) > 0;
    const bool is_ejected = now < worker.ejected_until;
    best[(is_loaded ? 0U : 2U) + (is_ejected ? 1U : 0U)].push_back(&entry);
  }
  // One that was gone, with the model, goes behind one that would load it.
  for (const size_t rank : {0U, 2U, 1U, 3U}) {
    if (!best[rank].empty()) return std::move(best[rank]);
  }
  return {};
}

WorkerBook::Entry& WorkerBook::Choose(const WorkerWish& wish,
                                      std::vector<Entry*>& allowed) {
  const auto least = *std::min_element(
      allowed.begin(), allowed.end(), [](const Entry* a, const Entry* b) {
        return std::tie(a->second.in_flight_bytes, a->second.last_turn) <
               std::tie(b->second.in_flight_bytes, b->second.last_turn);
      });
  if (wish.key.empty()) return *least;
  int64_t total = 0;
  for (const Entry* entry : allowed) total += entry->second.in_flight_bytes;
  const double most = std::max(static_cast<double>(kFreeBytes),
                               kMaxShare * static_cast<double>(total) /
                                   static_cast<double>(allowed.size()));
  std::sort(
      allowed.begin(), allowed.end(), [&wish](const Entry* a, const Entry* b) {
        return KeyScore(wish.key, a->first) > KeyScore(wish.key, b->first);
      });
  // One of them has at most the mean.
  const auto found =
      std::find_if(allowed.begin(), allowed.end(), [most](const Entry* entry) {
        return static_cast<double>(entry->second.in_flight_bytes) <= most;
      });
  if (found != allowed.begin()) ++n_given_way_;
  return found == allowed.end() ? *least : **found;
}

absl::StatusOr<std::string> WorkerBook::Enter(const WorkerWish& wish,
                                              absl::Time now) {
  std::vector<Entry*> allowed = Allowed(wish, now);
  if (allowed.empty()) {
    return WithDetails(
        absl::UnavailableError(
            wish.tried.empty()
                ? "no worker with this model is ready"
                : "the worker does not answer, and there is no other one"),
        {v1::ERROR_REASON_MODEL_NOT_READY,
         {{"model", wish.model}},
         kWorkerRetry});
  }
  auto& [name, worker] = Choose(wish, allowed);
  std::string id = name;  // may throw, so before the request counts
  ++worker.in_flight;
  ++worker.n_requests;
  worker.in_flight_bytes += kRequestBytes + wish.bytes;
  worker.last_turn = ++turn_;
  return id;
}

void WorkerBook::Release(const std::string& id, int64_t bytes, WorkerEnd end,
                         absl::Time now) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return;
  Worker& worker = found->second;
  // One that left the list and came back has none of its earlier requests.
  if (worker.in_flight > 0) {
    --worker.in_flight;
    worker.in_flight_bytes -= kRequestBytes + bytes;
    worker.in_flight_bytes = std::max(worker.in_flight_bytes, int64_t{0});
  }
  if (end == WorkerEnd::kAnswered) worker.n_gone_in_row = 0;
  if (end != WorkerEnd::kGone) return;
  ++worker.n_gone;
  // Requests that end together tell of one failure.
  if (now < worker.ejected_until) return;
  absl::Duration time = kEjectTime;
  for (int i = 0; i < worker.n_gone_in_row && time < kMaxEjectTime; ++i) {
    time *= 2;
  }
  worker.ejected_until = now + std::min(time, kMaxEjectTime);
  ++worker.n_gone_in_row;
}

}  // namespace plimsoll::services
