// What happens where operator new gets no memory.
#ifndef PLIMSOLL_SERVICES_HOST_CRASH_MEMORY_FAILURE_H_
#define PLIMSOLL_SERVICES_HOST_CRASH_MEMORY_FAILURE_H_

#include <new>

namespace plimsoll::services {

enum class MemoryFailure {
  // The process writes a line and ends (SIGABRT). An exception would be worse
  // while a server starts or ends: gRPC, and objects that are made in part,
  // wait forever when they are destroyed.
  kEndsProcess,
  kThrows,  // std::bad_alloc
};

// Applies to all threads of the process until the scope ends. Then that of the
// scope around it applies again; without one, memory failures throw. Scopes of
// two threads must not overlap.
class MemoryFailureScope {
 public:
  explicit MemoryFailureScope(MemoryFailure failure);
  ~MemoryFailureScope() { std::set_new_handler(before_); }
  MemoryFailureScope(const MemoryFailureScope&) = delete;
  MemoryFailureScope& operator=(const MemoryFailureScope&) = delete;

 private:
  const std::new_handler before_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_CRASH_MEMORY_FAILURE_H_
