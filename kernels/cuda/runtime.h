// The calls of the CUDA runtime that the backend makes, with statuses. The
// emulator's versions are in emulated_runtime.cc.
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
  bool has_wgmma;        // only if the build has code for it
  int64_t shared_bytes;  // shared memory that a block may ask for
};

// Selects `device` for this thread and creates its context, with the code of
// all kernels. The first call of the process measures the memory that this
// takes. Thread-safe. Errors: kNotFound if there is no such device;
// kFailedPrecondition if the device or its driver cannot run these kernels.
absl::StatusOr<DeviceFacts> OpenDevice(int device);
// The memory of an opened device. Thread-safe. Errors: kUnavailable if it is
// lost.
absl::StatusOr<DeviceMemory> ReadMemory(int device);
// Selects an opened device for this thread.
absl::Status UseDevice(int device);

// Errors of both: kResourceExhausted with the bytes wanted.
absl::StatusOr<std::byte*> AllocateDevice(int64_t bytes);
absl::StatusOr<std::byte*> AllocatePinned(int64_t bytes);
// Frees memory. Null is ignored, and so are errors of a lost device.
void FreeDevice(std::byte* data);
void FreePinned(std::byte* data);

absl::StatusOr<Stream> NewStream();
absl::StatusOr<Event> NewEvent();
// An event that records its time.
absl::StatusOr<Event> NewTimedEvent();
void Destroy(Stream stream);
void DestroyEvent(Event event);

// Copies and zeroing happen in the stream's order. If the host memory is not
// pinned, the call waits.
absl::Status CopyToDevice(const std::byte* host, std::byte* device,
                          int64_t bytes, Stream stream);
absl::Status CopyToHost(const std::byte* device, std::byte* host, int64_t bytes,
                        Stream stream);
absl::Status ZeroDevice(std::byte* data, int64_t bytes, Stream stream);

absl::Status Record(Event event, Stream stream);
absl::Status WaitFor(Event event);
// Milliseconds between two recorded events; both were made with has_time.
absl::StatusOr<float> Milliseconds(Event begin, Event end);
absl::Status WaitForStream(Stream stream);

// The errors of the launches since the last call. Errors: kInternal;
// kUnavailable if the device is lost; then it never works again in this
// process.
absl::Status LaunchStatus();

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_RUNTIME_H_
