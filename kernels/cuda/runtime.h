// The calls of the CUDA runtime that the backend makes, as statuses. The
// emulator's are in emulation/runtime.cc.
#ifndef PLIMSOLL_KERNELS_CUDA_RUNTIME_H_
#define PLIMSOLL_KERNELS_CUDA_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/platform.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

#ifdef PLIMSOLL_CUDA_EMULATED
using Stream = void*;
using Event = void*;
#else
using Stream = cudaStream_t;
using Event = cudaEvent_t;
#endif

struct DeviceFacts {
  std::string id;  // "cuda:0"
  std::string name;
  std::string unique_id;  // "GPU-...", as the vendor's tools print it
  int64_t total_bytes;
  int64_t free_bytes;
  int64_t n_multiprocessors;
};

// Makes `device` the thread's and creates its context, with the code of all
// kernels. The process's first call measures what that takes. Thread-safe.
// Errors: kNotFound if there is no such device; kFailedPrecondition if it, or
// its driver, cannot run these kernels.
absl::StatusOr<DeviceFacts> OpenDevice(int device);
// The memory of an opened device. Thread-safe. Errors: kUnavailable if it is
// lost.
absl::StatusOr<DeviceMemory> ReadMemory(int device);
// Makes an opened device the calling thread's.
absl::Status UseDevice(int device);

// Errors: kResourceExhausted with the bytes wanted.
absl::StatusOr<std::byte*> AllocateDevice(int64_t bytes);
absl::StatusOr<std::byte*> AllocatePinned(int64_t bytes);
// Null is ignored, as are errors of a lost device.
void FreeDevice(std::byte* data);
void FreePinned(std::byte* data);

absl::StatusOr<Stream> NewStream();
absl::StatusOr<Event> NewEvent(bool has_time);
void Destroy(Stream stream);
void DestroyEvent(Event event);

// In the stream's order. Host memory is pinned, or the call waits.
absl::Status CopyToDevice(const std::byte* host, std::byte* device,
                          int64_t bytes, Stream stream);
absl::Status CopyToHost(const std::byte* device, std::byte* host, int64_t bytes,
                        Stream stream);
absl::Status ZeroDevice(std::byte* data, int64_t bytes, Stream stream);

absl::Status Record(Event event, Stream stream);
absl::Status WaitFor(Event event);
// Milliseconds between two recorded events that have a time.
absl::StatusOr<float> Milliseconds(Event begin, Event end);
absl::Status WaitForStream(Stream stream);

// What the launches since the last call said. Errors: kInternal; kUnavailable
// if the device is lost, after which nothing on it works again.
absl::Status LaunchStatus();

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_RUNTIME_H_
