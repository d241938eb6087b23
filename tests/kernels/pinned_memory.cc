// Replaces operator new. One block of pinned memory, whose pieces have powers
// of two of bytes and go back to a list for each size; malloc before
// UsePinnedMemory() and in programs that never call it.
#include "tests/kernels/pinned_memory.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

namespace {

constexpr size_t kPoolBytes = size_t{4} << 30;
constexpr size_t kMinBytes = 256;  // what cudaMalloc aligns to

// A piece that nobody uses.
struct Piece {
  Piece* next;
};

std::mutex mutex;
char* pool = nullptr;
size_t used = 0;
std::array<Piece*, 64> unused = {};

size_t SizeOf(size_t bytes) {
  return std::bit_ceil(bytes < kMinBytes ? kMinBytes : bytes);
}

void* Allocate(size_t bytes) {
  if (pool == nullptr) {
    void* data = std::malloc(bytes == 0 ? 1 : bytes);
    if (data == nullptr) std::abort();
    return data;
  }
  const std::lock_guard<std::mutex> lock(mutex);
  const size_t size = SizeOf(bytes);
  Piece*& list = unused[static_cast<size_t>(std::countr_zero(size))];
  if (list != nullptr) {
    Piece* piece = list;
    list = piece->next;
    return piece;
  }
  if (used + size > kPoolBytes) {
    std::fprintf(stderr, "the tests' pinned memory is used up\n");
    std::abort();
  }
  used += size;
  return pool + used - size;
}

// The size of a piece is not kept with it: only sized deletes give it back.
void Free(void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  if (pool == nullptr || at < pool || at >= pool + kPoolBytes) {
    std::free(data);
    return;
  }
  if (bytes == 0) return;
  const std::lock_guard<std::mutex> lock(mutex);
  Piece*& list = unused[static_cast<size_t>(std::countr_zero(SizeOf(bytes)))];
  list = new (data) Piece{list};
}

}  // namespace

void* operator new(size_t bytes) { return Allocate(bytes); }
void* operator new[](size_t bytes) { return Allocate(bytes); }
void operator delete(void* data) noexcept { Free(data, 0); }
void operator delete[](void* data) noexcept { Free(data, 0); }
void operator delete(void* data, size_t bytes) noexcept { Free(data, bytes); }
void operator delete[](void* data, size_t bytes) noexcept { Free(data, bytes); }

namespace plimsoll::kernels {

void UsePinnedMemory() {
  if (pool != nullptr) return;
  void* data = nullptr;
  const cudaError_t error =
      cudaHostAlloc(&data, kPoolBytes, cudaHostAllocMapped);
  if (error != cudaSuccess) {
    std::fprintf(stderr, "no pinned memory for the tests: %s\n",
                 cudaGetErrorString(error));
    std::abort();
  }
  pool = static_cast<char*>(data);
  // The driver's own end comes before that of objects which lie in the pool.
  (void)on_exit(
      [](int status, void*) {
        std::fflush(nullptr);
        _exit(status);
      },
      nullptr);
}

}  // namespace plimsoll::kernels
