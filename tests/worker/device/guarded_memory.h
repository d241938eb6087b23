// Emulated device memory that the host may touch during operations only: as on
// a device, any other access ends the program.
#ifndef PLIMSOLL_TESTS_WORKER_DEVICE_GUARDED_MEMORY_H_
#define PLIMSOLL_TESTS_WORKER_DEVICE_GUARDED_MEMORY_H_

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "kernels/buffer.h"
#include "tests/worker/device/hooked_backend.h"

namespace plimsoll::testing {

// The whole pages of an engine's arena, but for the kernels' scratch, which is
// large and which the host has no pointer to. A backend's operations come from
// one thread at a time.
class GuardedMemory {
 public:
  // Hooks of one backend.
  static BackendHooks Hooks() {
    const auto memory = std::make_shared<GuardedMemory>();
    return {
        .before =
            [memory] {
              memory->Protect(PROT_READ | PROT_WRITE);
              return absl::OkStatus();
            },
        .after = [memory] { memory->Protect(PROT_NONE); },
        .allocated =
            [memory](kernels::Buffer buffer) {
              return Guard(memory, std::move(buffer));
            },
        .scratch =
            [memory](kernels::BufferView scratch) { memory->Exempt(scratch); }};
  }

 private:
  // Whole pages in [begin, end).
  struct Pages {
    Pages() = default;
    Pages(const std::byte* from, const std::byte* to) {
      const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
      begin = (reinterpret_cast<uintptr_t>(from) + page - 1) / page * page;
      end = reinterpret_cast<uintptr_t>(to) / page * page;
    }
    uintptr_t begin = 0;
    uintptr_t end = 0;
  };

  // An engine has one allocation.
  static kernels::Buffer Guard(const std::shared_ptr<GuardedMemory>& memory,
                               kernels::Buffer buffer) {
    PLIMSOLL_CHECK(memory->arena_.bytes == 0, "an engine allocates once");
    memory->arena_ = buffer.view();
    const auto inner = std::make_shared<kernels::Buffer>(std::move(buffer));
    return kernels::Buffer(
        inner->data(), inner->bytes(),
        [memory, inner](std::byte* /*data*/, int64_t /*bytes*/) {
          memory->Protect(PROT_READ | PROT_WRITE);
          memory->arena_ = {};
          memory->parts_ = {};
          *inner = kernels::Buffer();
        });
  }

  // From now on all but `scratch` is guarded.
  void Exempt(kernels::BufferView scratch) {
    const std::byte* const end = arena_.data + arena_.bytes;
    parts_ = {Pages(arena_.data, scratch.data),
              Pages(scratch.data + scratch.bytes, end)};
    Protect(PROT_NONE);
  }

  void Protect(int access) const {
    for (const Pages& pages : parts_) {
      if (pages.begin >= pages.end) continue;
      PLIMSOLL_CHECK(mprotect(reinterpret_cast<void*>(pages.begin),
                              pages.end - pages.begin, access) == 0,
                     "whole pages");
    }
  }

  kernels::BufferView arena_;
  std::array<Pages, 2> parts_ = {};
};

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_DEVICE_GUARDED_MEMORY_H_
