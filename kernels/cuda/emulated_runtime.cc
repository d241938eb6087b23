// This implements runtime.h for the emulator, instead of runtime.cc. The
// emulated device's memory is host memory; its streams run at once.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/kernel_call.h"
#include "kernels/cuda/runtime.h"

namespace plimsoll::kernels::cuda_emulated {
namespace {

static_assert(kMostDynamicBytes == kMostSharedBytes);

constexpr size_t kAlignment = 256;                   // cudaMalloc's
constexpr int64_t kGarbageBytes = int64_t{1} << 20;  // all would take long

// The memory that the device pretends to have, and what a context takes of it.
constexpr int64_t kTotalBytes = int64_t{16} << 30;
constexpr int64_t kContextBytes = int64_t{48} << 20;

// The device's allocations by all threads.
struct Memory {
  std::mutex mu;
  std::map<const std::byte*, int64_t> bytes_at;
  int64_t used_bytes = kContextBytes;
};
Memory& DeviceMemoryState() {
  static auto* const memory = new Memory;
  return *memory;
}

absl::Status NoMemory(int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the emulated device has no ", bytes, " bytes"));
}

absl::StatusOr<std::byte*> AllocateGarbage(int64_t bytes) {
  void* data = nullptr;
  if (bytes > kTotalBytes ||
      posix_memalign(&data, kAlignment, static_cast<size_t>(bytes)) != 0) {
    return NoMemory(bytes);
  }
  std::memset(data, 0xFF, static_cast<size_t>(std::min(bytes, kGarbageBytes)));
  return static_cast<std::byte*>(data);
}

}  // namespace

absl::StatusOr<DeviceFacts> OpenDevice(int device) {
  if (device != 0) {
    return absl::NotFoundError(absl::StrCat("no emulated device ", device));
  }
  const absl::StatusOr<DeviceMemory> memory = ReadMemory(device);
  // There is one multiprocessor, so that small tests reach every shape of a
  // kernel.
  return DeviceFacts{"cuda-emulated",     "emulated",         "EMULATED-0",
                     memory->total_bytes, memory->free_bytes, 1,
                     /*has_wgmma=*/true,  kMostSharedBytes};
}
absl::StatusOr<DeviceMemory> ReadMemory(int /*device*/) {
  Memory& memory = DeviceMemoryState();
  const std::lock_guard<std::mutex> lock(memory.mu);
  return DeviceMemory{kTotalBytes, kTotalBytes - memory.used_bytes,
                      kContextBytes};
}
absl::Status UseDevice(int /*device*/) { return absl::OkStatus(); }

absl::StatusOr<std::byte*> AllocateDevice(int64_t bytes) {
  Memory& memory = DeviceMemoryState();
  const std::lock_guard<std::mutex> lock(memory.mu);
  if (bytes > kTotalBytes - memory.used_bytes) return NoMemory(bytes);
  absl::StatusOr<std::byte*> data = AllocateGarbage(bytes);
  if (!data.ok()) return data;
  memory.bytes_at[*data] = bytes;
  memory.used_bytes += bytes;
  return data;
}
absl::StatusOr<std::byte*> AllocatePinned(int64_t bytes) {
  return AllocateGarbage(bytes);
}
void FreeDevice(std::byte* data) {
  if (data == nullptr) return;
  Memory& memory = DeviceMemoryState();
  const std::lock_guard<std::mutex> lock(memory.mu);
  const auto found = memory.bytes_at.find(data);
  memory.used_bytes -= found->second;
  memory.bytes_at.erase(found);
  std::free(data);
}
void FreePinned(std::byte* data) { std::free(data); }

absl::StatusOr<Stream> NewStream() { return Stream{nullptr}; }
absl::StatusOr<Event> NewEvent() { return Event{nullptr}; }
absl::StatusOr<Event> NewTimedEvent() { return Event{nullptr}; }
void Destroy(Stream /*stream*/) {}
void DestroyEvent(Event /*event*/) {}

absl::Status CopyToDevice(const std::byte* host, std::byte* device,
                          int64_t bytes, Stream /*stream*/) {
  std::copy_n(host, bytes, device);
  return absl::OkStatus();
}
absl::Status CopyToHost(const std::byte* device, std::byte* host, int64_t bytes,
                        Stream /*stream*/) {
  std::copy_n(device, bytes, host);
  return absl::OkStatus();
}
absl::Status ZeroDevice(std::byte* data, int64_t bytes, Stream /*stream*/) {
  std::memset(data, 0, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status Record(Event /*event*/, Stream /*stream*/) {
  return absl::OkStatus();
}
absl::Status WaitFor(Event /*event*/) { return absl::OkStatus(); }
absl::StatusOr<float> Milliseconds(Event /*begin*/, Event /*end*/) {
  return absl::UnimplementedError("the emulator has no clock");
}
absl::Status WaitForStream(Stream /*stream*/) { return absl::OkStatus(); }
absl::Status LaunchStatus() { return absl::OkStatus(); }

}  // namespace plimsoll::kernels::cuda_emulated
