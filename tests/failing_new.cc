#include "tests/failing_new.h"

#include <cstdlib>
#include <new>

namespace plimsoll::testing {
namespace {

thread_local int64_t n_left = 0;

bool Fails() { return n_left > 0 && --n_left == 0; }

void* Allocate(size_t bytes, size_t alignment) noexcept {
  if (Fails()) return nullptr;
  // aligned_alloc wants whole multiples.
  const size_t padded = (bytes + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, padded == 0 ? alignment : padded);
}

void* AllocateOrThrow(size_t bytes, size_t alignment) {
  void* const memory = Allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void FailAllocation(int64_t n) { n_left = n; }

int64_t AllocationsLeft() { return n_left; }

}  // namespace plimsoll::testing

using ::plimsoll::testing::Allocate;
using ::plimsoll::testing::AllocateOrThrow;

// All forms, as a sanitizer has its own of each.
void* operator new(size_t bytes) {
  return AllocateOrThrow(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return AllocateOrThrow(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return operator new(bytes, alignment);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
