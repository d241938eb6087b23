// A pthread_create that can refuse. Linked into a test, or preloaded into a
// server: there it refuses while the file named by PLIMSOLL_TEST_NO_THREADS
// exists.
#include "tests/failing_threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace plimsoll::testing {
namespace {

std::atomic<int> n_allowed = -1;

bool MayStart() {
  const char* const file = std::getenv("PLIMSOLL_TEST_NO_THREADS");
  if (file != nullptr && access(file, F_OK) == 0) return false;
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
  return real(thread, attr, start, argument);
}
