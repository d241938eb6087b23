// Tells ThreadSanitizer what absl::Mutex, CondVar and Status order.
//
// Debian's Abseil is not instrumented, so TSan would take everything that these
// guard for a race. The definitions here take the place of the shared library's
// in a TSan build: each calls the library's own and states the order it makes.
// Reads are ignored while the library may evaluate a Condition, which it does
// under the lock, but on whichever thread holds it.

#include <dlfcn.h>

#include <cstdint>
#include <mutex>
#include <string>

#include "absl/base/config.h"
#include "absl/base/options.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/status_macros.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}

#define PLIMSOLL_STRING(x) #x
#define PLIMSOLL_NAME_OF(x) PLIMSOLL_STRING(x)

namespace {

constexpr char kNamespace[] =
    PLIMSOLL_NAME_OF(ABSL_OPTION_INLINE_NAMESPACE_NAME);

// Abseil's own function whose mangled name ends in `rest`, after the
// namespaces.
template <typename F>
F* Real(const std::string& rest) {
  const std::string mangled =
      "_ZN4absl" + std::to_string(sizeof(kNamespace) - 1) + kNamespace + rest;
  void* found = dlsym(RTLD_NEXT, mangled.c_str());
  PLIMSOLL_CHECK(found != nullptr, "Abseil has every function wrapped here");
  return reinterpret_cast<F*>(found);
}

class IgnoreReads {
 public:
  IgnoreReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~IgnoreReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
  IgnoreReads(const IgnoreReads&) = delete;
  IgnoreReads& operator=(const IgnoreReads&) = delete;
};

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static auto* real = Real<void(Mutex*)>("5Mutex4LockEv");
  real(this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  static auto* real = Real<void(Mutex*)>("5Mutex6UnlockEv");
  __tsan_release(this);
  IgnoreReads ignore;
  real(this);
}

bool Mutex::TryLock() {
  static auto* real = Real<bool(Mutex*)>("5Mutex7TryLockEv");
  const bool locked = real(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::ReaderLock() {
  static auto* real = Real<void(Mutex*)>("5Mutex10ReaderLockEv");
  real(this);
  __tsan_acquire(this);
}

void Mutex::ReaderUnlock() {
  static auto* real = Real<void(Mutex*)>("5Mutex12ReaderUnlockEv");
  __tsan_release(this);
  IgnoreReads ignore;
  real(this);
}

void Mutex::Await(const Condition& condition) {
  static auto* real =
      Real<void(Mutex*, const Condition&)>("5Mutex5AwaitERKNS0_9ConditionE");
  __tsan_release(this);
  {
    IgnoreReads ignore;
    real(this, condition);
  }
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  static auto* real = Real<bool(Mutex*, const Condition&, Duration)>(
      "5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  __tsan_release(this);
  bool is_true = false;
  {
    IgnoreReads ignore;
    is_true = real(this, condition, timeout);
  }
  __tsan_acquire(this);
  return is_true;
}

void CondVar::Wait(Mutex* mu) {
  static auto* real =
      Real<void(CondVar*, Mutex*)>("7CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mu);
  real(this, mu);
  __tsan_acquire(mu);
}

bool CondVar::WaitWithTimeout(Mutex* mu, Duration timeout) {
  static auto* real = Real<bool(CondVar*, Mutex*, Duration)>(
      "7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  __tsan_release(mu);
  const bool timed_out = real(this, mu, timeout);
  __tsan_acquire(mu);
  return timed_out;
}

#if ABSL_LTS_RELEASE_VERSION <= 20220623  // later ones count in another class
// The last owner frees the text that the others have read. A lock shows that
// order; counting the owners is the library's.
void Status::UnrefNonInlined(uintptr_t rep) {
  static auto* real = Real<void(uintptr_t)>("6Status15UnrefNonInlinedEm");
  static auto* owners = new std::mutex;
  std::lock_guard<std::mutex> lock(*owners);
  real(rep);
}
#endif

ABSL_NAMESPACE_END
}  // namespace absl
