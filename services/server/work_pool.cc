#include "services/server/work_pool.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/sync/fault.h"
#include "services/host/clock.h"
#include "services/host/log.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

int DefaultThreads() {
  const auto half = static_cast<int>(std::thread::hardware_concurrency() / 2);
  return std::clamp(half, 2, WorkPool::kMaxThreads);
}

// This changes only the calling thread. A refusal of the system does no harm.
void LowerPriority() {
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  errno = 0;
  const int now = getpriority(PRIO_PROCESS, thread);
  if (errno == 0) setpriority(PRIO_PROCESS, thread, now + WorkPool::kNice);
}

absl::Status QueueFull() {
  return WithDetails(
      absl::ResourceExhaustedError(
          absl::StrCat(WorkPool::kMaxQueued,
                       " calls wait to be computed already; try again later")),
      {v1::ERROR_REASON_QUEUE_FULL, {}, WorkPool::kRetryDelay});
}

// Returns how many places in the queue a job takes.
size_t PlacesOf(const WorkPool::Job& job) {
  if (job.goes_on) return 0;
  return std::max<size_t>(
      (job.request_bytes + WorkPool::kPlaceBytes - 1) / WorkPool::kPlaceBytes,
      1);
}

}  // namespace

std::unique_ptr<Background> WorkPool::StartThread(std::function<void()> work) {
  // First, so that nothing fails once the thread runs: it would be joined.
  auto thread = std::make_unique<Background>();
  auto started = Background::Start(std::move(work));
  if (!started.ok()) return nullptr;
  *thread = *std::move(started);
  return thread;
}

absl::StatusOr<std::unique_ptr<WorkPool>> WorkPool::Start(
    const Options& options) {
  const int wanted =
      options.n_threads == 0 ? DefaultThreads() : options.n_threads;
  if (wanted < 1 || wanted > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pool of ", wanted, " threads, not 1 to ", kMaxThreads));
  }
  auto pool = std::unique_ptr<WorkPool>(new WorkPool());
  pool->threads_.reserve(static_cast<size_t>(wanted));
  for (int i = 0; i < wanted; ++i) {
    auto thread = options.start([raw = pool.get()] { raw->RunThread(); });
    if (thread == nullptr) break;
    pool->threads_.push_back(std::move(thread));
  }
  if (pool->threads_.empty()) {
    return absl::ResourceExhaustedError(
        "the system starts no thread to compute on; raise its limit of "
        "processes (ulimit -u, or pids.max of the container)");
  }
  if (pool->n_threads() < wanted) {
    Log(LogLevel::kWarning,
        "the system starts fewer threads to compute on than wanted",
        {{"started", pool->n_threads()}, {"wanted", wanted}});
  }
  absl::MutexLock lock(&pool->mu_);
  pool->n_started_ = pool->n_threads();
  return pool;
}

WorkPool::~WorkPool() {
  Abort();
  threads_.clear();
}

absl::Status WorkPool::Submit(Job job) {
  Jobs dropped;
  {
    absl::MutexLock lock(&mu_);
    // The lock is held, so that a Cancel() either comes before this or finds
    // it.
    if (is_aborted_) job.stop->Abort();
    if (absl::Status status = job.stop->Check(); !status.ok()) return status;
    if (PLIMSOLL_FAULT("call.queue") || !MakeRoom(job, dropped)) {
      return QueueFull();
    }
    queue_.push_back(std::move(job));
  }
  for (const Job& other : dropped) other.work(QueueFull());
  return absl::OkStatus();
}

bool WorkPool::MakeRoom(const Job& job, Jobs& dropped) {
  std::map<std::string, size_t> places;
  size_t n_taken = PlacesOf(job);
  for (const Job& other : queue_) {
    places[other.peer] += PlacesOf(other);
    n_taken += PlacesOf(other);
  }
  const size_t own = places[job.peer] + PlacesOf(job);
  std::vector<Jobs::iterator> leaving;
  while (n_taken > kMaxQueued) {
    const auto greediest = std::max_element(
        places.begin(), places.end(),
        [](const auto& a, const auto& b) { return a.second < b.second; });
    if (own >= greediest->second) return false;
    // Several peers may have the most in turn, so the search begins anew.
    auto newest = queue_.end();
    do {
      --newest;
    } while (PlacesOf(*newest) == 0 || newest->peer != greediest->first ||
             std::ranges::count(leaving, newest) > 0);
    leaving.push_back(newest);
    greediest->second -= PlacesOf(*newest);
    n_taken -= PlacesOf(*newest);
  }
  for (const Jobs::iterator leaves : leaving) {
    dropped.splice(dropped.end(), queue_, leaves);
  }
  return true;
}

void WorkPool::Cancel(CallStop& stop) {
  stop.Cancel();
  Jobs dropped;
  {
    absl::MutexLock lock(&mu_);
    for (auto job = queue_.begin(); job != queue_.end();) {
      const auto next = std::next(job);
      if (job->stop.get() == &stop) dropped.splice(dropped.end(), queue_, job);
      job = next;
    }
  }
  for (const Job& job : dropped) job.work(stop.Check());
}

void WorkPool::Abort() {
  Jobs dropped;
  {
    absl::MutexLock lock(&mu_);
    is_aborted_ = true;
    for (const Job& job : running_) job.stop->Abort();
    dropped.splice(dropped.end(), queue_);
  }
  for (const Job& job : dropped) {
    job.stop->Abort();
    job.work(job.stop->Check());
  }
}

bool WorkPool::MayRunLong() const {
  return n_long_running_ < std::max(n_started_ - 1, 1);
}

// If there is long work, some of it always runs; a single thread takes turns.
bool WorkPool::PrefersLong() const {
  return n_long_running_ == 0 && (n_started_ > 1 || !last_was_long_);
}

// Returns the next peer's oldest work; peers take turns in the order of their
// names.
WorkPool::Jobs::iterator WorkPool::NextOf(WorkCost cost) {
  auto after = queue_.end();
  auto first = queue_.end();
  for (auto job = queue_.begin(); job != queue_.end(); ++job) {
    if (job->cost != cost) continue;
    auto& best = job->peer > last_peer_ ? after : first;
    if (best == queue_.end() || job->peer < best->peer) best = job;
  }
  return after != queue_.end() ? after : first;
}

WorkPool::Jobs::iterator WorkPool::Next() {
  const auto quick = NextOf(WorkCost::kQuick);
  const auto longer = MayRunLong() ? NextOf(WorkCost::kLong) : queue_.end();
  if (quick == queue_.end()) return longer;
  return longer != queue_.end() && PrefersLong() ? longer : quick;
}

bool WorkPool::MayWake() const {
  if (is_aborted_) return true;
  if (n_started_ == 0) return false;
  return std::any_of(queue_.begin(), queue_.end(),
                     [this](const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
                       return job.cost == WorkCost::kQuick || MayRunLong();
                     });
}

void WorkPool::RunThread() {
  LowerPriority();
  while (true) {
    Jobs::iterator job;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &WorkPool::MayWake));
      if (is_aborted_) return;
      const auto next = Next();
      last_peer_ = next->peer;
      last_was_long_ = next->cost == WorkCost::kLong;
      if (last_was_long_) ++n_long_running_;
      running_.splice(running_.end(), queue_, next);
      job = next;
    }
    job->work(job->stop->Check());
    Jobs done;  // ends without the lock
    absl::MutexLock lock(&mu_);
    if (job->cost == WorkCost::kLong) --n_long_running_;
    done.splice(done.end(), running_, job);
  }
}

size_t WorkPool::n_queued() const {
  absl::MutexLock lock(&mu_);
  return queue_.size();
}

size_t WorkPool::n_running() const {
  absl::MutexLock lock(&mu_);
  return running_.size();
}

bool WorkPool::Await(size_t n_running, size_t n_queued,
                     absl::Duration timeout) {
  const absl::Time end = BootTime() + timeout;
  for (;;) {
    {
      absl::MutexLock lock(&mu_);
      if (running_.size() == n_running && queue_.size() == n_queued) {
        return true;
      }
    }
    if (BootTime() >= end) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
}

}  // namespace plimsoll::services
