// Each call of the CUDA runtime with its error as a status.
#include "kernels/cuda/runtime.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::kernels::cuda {
namespace {

// The oldest compute capability that release builds have code for.
constexpr int kMinMajor = 8;

// Whether the process can use the device again after `error`. Source: the CUDA
// runtime's documentation of cudaError_t, "must be terminated and relaunched".
bool IsLost(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorAssert:
      return true;
    default:
      return false;
  }
}

absl::Status ToStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": ", cudaGetErrorName(error),
                                           ", ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) {
    return absl::ResourceExhaustedError(message);
  }
  if (IsLost(error)) return absl::UnavailableError(message);
  return absl::InternalError(message);
}

absl::StatusOr<std::byte*> Allocated(cudaError_t error, void* data,
                                     int64_t bytes, const char* where) {
  if (error == cudaSuccess) return static_cast<std::byte*>(data);
  (void)cudaGetLastError();  // an allocation that fails breaks nothing
  if (error != cudaErrorMemoryAllocation) return ToStatus(error, where);
  return absl::ResourceExhaustedError(
      absl::StrCat("the ", where, " has no ", bytes, " bytes"));
}

}  // namespace

absl::StatusOr<DeviceFacts> OpenDevice(int device) {
  int n_devices = 0;
  const cudaError_t counted = cudaGetDeviceCount(&n_devices);
  int driver_version = 0;  // stays 0 without a driver
  (void)cudaDriverGetVersion(&driver_version);
  if (counted == cudaErrorInsufficientDriver && driver_version > 0) {
    return absl::FailedPreconditionError(cudaGetErrorString(counted));
  }
  if (counted != cudaSuccess || device < 0 || device >= n_devices) {
    (void)cudaGetLastError();
    return absl::NotFoundError(
        absl::StrCat("no CUDA device ", device, " of ", n_devices));
  }
  cudaDeviceProp properties;
  RETURN_IF_ERROR(ToStatus(cudaGetDeviceProperties(&properties, device),
                           "device properties"));
  if (properties.major < kMinMajor) {
    return absl::FailedPreconditionError(
        absl::StrCat(properties.name, " has compute capability ",
                     properties.major, ".", properties.minor, ", below 8.0"));
  }
  RETURN_IF_ERROR(UseDevice(device));
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  RETURN_IF_ERROR(
      ToStatus(cudaMemGetInfo(&free_bytes, &total_bytes), "memory figures"));
  return DeviceFacts{absl::StrCat("cuda:", device), properties.name,
                     static_cast<int64_t>(total_bytes),
                     static_cast<int64_t>(free_bytes),
                     properties.multiProcessorCount};
}

absl::Status UseDevice(int device) {
  return ToStatus(cudaSetDevice(device), "choosing a device");
}

absl::StatusOr<std::byte*> AllocateDevice(int64_t bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, static_cast<size_t>(bytes));
  return Allocated(error, data, bytes, "device");
}

absl::StatusOr<std::byte*> AllocatePinned(int64_t bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaMallocHost(&data, static_cast<size_t>(bytes));
  return Allocated(error, data, bytes, "host");
}

void FreeDevice(std::byte* data) { (void)cudaFree(data); }
void FreePinned(std::byte* data) { (void)cudaFreeHost(data); }

absl::StatusOr<Stream> NewStream() {
  Stream stream = nullptr;
  RETURN_IF_ERROR(ToStatus(
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream"));
  return stream;
}

absl::StatusOr<Event> NewEvent(bool has_time) {
  Event event = nullptr;
  RETURN_IF_ERROR(ToStatus(
      cudaEventCreateWithFlags(
          &event, has_time ? cudaEventDefault : cudaEventDisableTiming),
      "an event"));
  return event;
}

void Destroy(Stream stream) {
  if (stream != nullptr) (void)cudaStreamDestroy(stream);
}
void DestroyEvent(Event event) {
  if (event != nullptr) (void)cudaEventDestroy(event);
}

absl::Status CopyToDevice(const std::byte* host, std::byte* device,
                          int64_t bytes, Stream stream) {
  return ToStatus(cudaMemcpyAsync(device, host, static_cast<size_t>(bytes),
                                  cudaMemcpyDefault, stream),
                  "a copy to the device");
}

absl::Status CopyToHost(const std::byte* device, std::byte* host, int64_t bytes,
                        Stream stream) {
  return ToStatus(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes),
                                  cudaMemcpyDefault, stream),
                  "a copy from the device");
}

absl::Status ZeroDevice(std::byte* data, int64_t bytes, Stream stream) {
  return ToStatus(cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), stream),
                  "zeroing");
}

absl::Status Record(Event event, Stream stream) {
  return ToStatus(cudaEventRecord(event, stream), "recording an event");
}

absl::Status WaitFor(Event event) {
  return ToStatus(cudaEventSynchronize(event), "waiting for an event");
}

absl::StatusOr<float> Milliseconds(Event begin, Event end) {
  float time = 0;
  RETURN_IF_ERROR(
      ToStatus(cudaEventElapsedTime(&time, begin, end), "an event's time"));
  return time;
}

absl::Status WaitForStream(Stream stream) {
  return ToStatus(cudaStreamSynchronize(stream), "the device");
}

absl::Status LaunchStatus() { return ToStatus(cudaGetLastError(), "a kernel"); }

}  // namespace plimsoll::kernels::cuda
