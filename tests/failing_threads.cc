// A pthread_create that can refuse. Linked into a test, or preloaded into a
// server: there it refuses while the file named by PLIMSOLL_TEST_NO_THREADS
// exists, and while PLIMSOLL_TEST_THREADS threads live that it started.
#include "tests/failing_threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>

namespace plimsoll::testing {
namespace {

std::atomic<int> n_allowed = -1;
std::atomic<int> n_live = 0;

// A thread that counts while it runs.
struct Thread {
  void* (*start)(void*);
  void* argument;
};

void* Run(void* thread) {
  const std::unique_ptr<Thread> own(static_cast<Thread*>(thread));
  void* const result = own->start(own->argument);
  --n_live;
  return result;
}

bool MayStart() {
  const char* const file = std::getenv("PLIMSOLL_TEST_NO_THREADS");
  if (file != nullptr && access(file, F_OK) == 0) return false;
  const char* const most = std::getenv("PLIMSOLL_TEST_THREADS");
  if (most != nullptr && n_live >= std::atoi(most)) return false;
  int n = n_allowed;
  while (n > 0 && !n_allowed.compare_exchange_weak(n, n - 1)) {
  }
  return n != 0;
}

}  // namespace

void AllowThreads(int n) { n_allowed = n; }

}  // namespace plimsoll::testing

using PthreadCreate = int(pthread_t*, const pthread_attr_t*, void* (*)(void*),
                          void*);
// A sanitizer's own, where there is one: it must know of every thread.
extern "C" __attribute__((weak)) PthreadCreate __interceptor_pthread_create;

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attr,
                              void* (*start)(void*), void* argument) {
  if (!plimsoll::testing::MayStart()) return EAGAIN;
  static auto* const real = __interceptor_pthread_create != nullptr
                                ? &__interceptor_pthread_create
                                : reinterpret_cast<PthreadCreate*>(
                                      dlsym(RTLD_NEXT, "pthread_create"));
  auto counted = std::make_unique<plimsoll::testing::Thread>(
      plimsoll::testing::Thread{start, argument});
  ++plimsoll::testing::n_live;
  const int error = real(thread, attr, &plimsoll::testing::Run, counted.get());
  if (error == 0) {
    counted.release();  // the thread's now
  } else {
    --plimsoll::testing::n_live;
  }
  return error;
}
