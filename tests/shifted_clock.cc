// A wall clock that jumps. Preloaded into a server: the file named by
// PLIMSOLL_TEST_CLOCK has the nanoseconds, an int64, that its time of day is
// ahead. Clocks that do not jump stay as they are.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr int64_t kNanos = 1'000'000'000;

int64_t Ahead() {
  static const auto* const shared = []() -> const std::atomic<int64_t>* {
    const char* const path = std::getenv("PLIMSOLL_TEST_CLOCK");
    const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return nullptr;
    void* const mapped =
        mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED) return nullptr;
    return static_cast<const std::atomic<int64_t>*>(mapped);
  }();
  return shared == nullptr ? 0 : shared->load(std::memory_order_relaxed);
}

timespec Moved(const timespec& time, int64_t nanos) {
  int64_t seconds = time.tv_sec + nanos / kNanos;
  int64_t rest = time.tv_nsec + nanos % kNanos;
  if (rest < 0) {
    --seconds;
    rest += kNanos;
  } else if (rest >= kNanos) {
    ++seconds;
    rest -= kNanos;
  }
  return {seconds < 0 ? 0 : seconds, rest};
}

// The function of the C library. Found at each call: a static variable's guard
// may wait by `syscall`.
template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool IsTimeOfDay(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

bool IsBefore(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

// A part of a wait until `until` of the moved clock. It is short, because the
// clock may jump while it lasts.
struct Slice {
  explicit Slice(const timespec& until) {
    timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    const timespec whole = Moved(until, -Ahead());
    const timespec part = Moved(now, kNanos / 50);
    is_last = !IsBefore(part, whole);
    end = is_last ? whole : part;
  }

  timespec end;  // by the true clock
  bool is_last;
};

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int64_t error = syscall(SYS_clock_gettime, clock, time);
  if (error == 0 && IsTimeOfDay(clock)) *time = Moved(*time, Ahead());
  return static_cast<int>(error);
}

int gettimeofday(timeval* __restrict time, void* __restrict) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, now.tv_nsec / 1'000};
  return 0;
}

time_t time(time_t* out) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

// A wait until a time of day ends when the moved clock is there, also if the
// clock jumps while it waits, as in the kernel.
long syscall(long number, ...) noexcept {  // NOLINT(google-runtime-int): libc's
  auto* const real = Next<long(long, ...)>("syscall");  // NOLINT
  long words[6];                                        // NOLINT
  va_list arguments;
  va_start(arguments, number);
  for (auto& word : words) word = va_arg(arguments, long);  // NOLINT
  va_end(arguments);
  const auto call = [&] {
    return real(number, words[0], words[1], words[2], words[3], words[4],
                words[5]);
  };
  if (number != SYS_futex || words[3] == 0 ||
      (words[1] & FUTEX_CLOCK_REALTIME) == 0) {
    return call();
  }
  const timespec until = *reinterpret_cast<const timespec*>(words[3]);
  for (;;) {
    const Slice slice(until);
    words[3] = reinterpret_cast<intptr_t>(&slice.end);
    const auto result = call();
    if (result == 0 || errno != ETIMEDOUT || slice.is_last) return result;
  }
}

int pthread_cond_timedwait(pthread_cond_t* __restrict condition,
                           pthread_mutex_t* __restrict mutex,
                           const timespec* __restrict until) {
  // Conditions of other clocks are waited for by pthread_cond_clockwait, and
  // by attributes that nobody here sets.
  auto* const real =
      Next<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)>(
          "pthread_cond_timedwait");
  for (;;) {
    const Slice slice(*until);
    const int error = real(condition, mutex, &slice.end);
    if (error != ETIMEDOUT || slice.is_last) return error;
  }
}

}  // extern "C"
