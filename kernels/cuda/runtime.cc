// Each call of the CUDA runtime with its error as a status.
#include "kernels/cuda/runtime.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/driver_memory.h"

namespace plimsoll::kernels::cuda {
namespace {

// The oldest compute capability that release builds have code for.
constexpr int kMinMajor = 8;

// True if the process cannot use the device again after `error`. Source: the
// CUDA runtime's documentation of cudaError_t, "must be terminated and
// relaunched".
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

// True if the last error stays, which an error that nobody has named above may
// do: then every later call returns it as well.
bool IsSticky() {
  (void)cudaGetLastError();
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  const bool stays = cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess;
  (void)cudaGetLastError();
  return stays;
}

absl::Status ToStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": ", cudaGetErrorName(error),
                                           ", ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) {
    return absl::ResourceExhaustedError(message);
  }
  if (IsLost(error) || IsSticky()) return absl::UnavailableError(message);
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

// Formats the id as the vendor's tools print it.
std::string UniqueId(const cudaUUID_t& uuid) {
  constexpr std::array<size_t, 4> kDashes = {4, 6, 8, 10};
  std::string id = "GPU-";
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (std::find(kDashes.begin(), kDashes.end(), i) != kDashes.end()) {
      id.push_back('-');
    }
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    absl::StrAppend(&id, absl::Hex(byte, absl::kZeroPad2));
  }
  return id;
}

// The instructions of a warpgroup belong to compute capability 9.0 alone.
bool HasWgmma([[maybe_unused]] const cudaDeviceProp& properties) {
#ifdef PLIMSOLL_CUDA_SM90A
  return properties.major == 9 && properties.minor == 0;
#else
  return false;
#endif
}

// The PCI address of the device; empty if it is not known. Makes no context.
std::string BusId(int device) {
  std::array<char, 32> id = {};
  const cudaError_t error =
      cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), device);
  if (error == cudaSuccess) return id.data();
  (void)cudaGetLastError();
  return "";
}

absl::StatusOr<Event> NewEventWith(unsigned flags) {
  Event event = nullptr;
  RETURN_IF_ERROR(
      ToStatus(cudaEventCreateWithFlags(&event, flags), "an event"));
  return event;
}

}  // namespace

absl::StatusOr<DeviceFacts> OpenDevice(int device) {
  // Loads the code of all kernels with the context and not when each is first
  // used, because nothing may be allocated after a load. The driver reads this
  // only before the process's first call of it.
  [[maybe_unused]] static const int eager =
      setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  int n_devices = 0;
  const cudaError_t counted = cudaGetDeviceCount(&n_devices);
  int driver_version = 0;  // stays 0 without a driver
  (void)cudaDriverGetVersion(&driver_version);
  if (counted == cudaErrorInsufficientDriver && driver_version > 0) {
    return absl::FailedPreconditionError(cudaGetErrorString(counted));
  }
  if (counted != cudaSuccess || device < 0 || device >= n_devices) {
    (void)cudaGetLastError();
    const char* why =
        counted != cudaSuccess ? cudaGetErrorString(counted) : "no more";
    return absl::NotFoundError(
        absl::StrCat("no CUDA device ", device, " of ", n_devices, ": ", why));
  }
  cudaDeviceProp properties;
  RETURN_IF_ERROR(ToStatus(cudaGetDeviceProperties(&properties, device),
                           "device properties"));
  if (properties.major < kMinMajor) {
    return absl::FailedPreconditionError(
        absl::StrCat(properties.name, " has compute capability ",
                     properties.major, ".", properties.minor, ", below 8.0"));
  }
  ASSIGN_OR_RETURN(const DeviceMemory memory, ReadMemory(device));
  return DeviceFacts{absl::StrCat("cuda:", device),
                     properties.name,
                     UniqueId(properties.uuid),
                     memory.total_bytes,
                     memory.free_bytes,
                     properties.multiProcessorCount,
                     HasWgmma(properties),
                     static_cast<int64_t>(properties.sharedMemPerBlockOptin)};
}

absl::StatusOr<DeviceMemory> ReadMemory(int device) {
  // A context belongs to the process, whoever makes it first, and so does the
  // place where its size is kept.
  static std::mutex* const mu = new std::mutex;
  static auto* const runtime_bytes = new std::map<int, int64_t>;
  const std::lock_guard<std::mutex> lock(*mu);
  const bool is_first = runtime_bytes->count(device) == 0;
  std::optional<int64_t> before;
  if (is_first) {
    before = DriverFreeBytes(BusId(device));
  }
  RETURN_IF_ERROR(UseDevice(device));
  // This call makes the context with any driver.
  if (is_first) RETURN_IF_ERROR(ToStatus(cudaFree(nullptr), "the context"));
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  RETURN_IF_ERROR(
      ToStatus(cudaMemGetInfo(&free_bytes, &total_bytes), "memory figures"));
  if (is_first) {
    const std::optional<int64_t> after = DriverFreeBytes(BusId(device));
    (*runtime_bytes)[device] =
        before && after ? std::max<int64_t>(*before - *after, 0) : 0;
  }
  return DeviceMemory{static_cast<int64_t>(total_bytes),
                      static_cast<int64_t>(free_bytes),
                      runtime_bytes->at(device)};
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

absl::StatusOr<Event> NewEvent() {
  return NewEventWith(cudaEventDisableTiming);
}

absl::StatusOr<Event> NewTimedEvent() { return NewEventWith(cudaEventDefault); }

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
