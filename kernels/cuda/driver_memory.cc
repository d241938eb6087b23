// The CUDA runtime makes a context before it reports any memory. So only the
// management library can show what a context takes.
#include "kernels/cuda/driver_memory.h"

#include <dlfcn.h>

#include <memory>

namespace plimsoll::kernels::cuda {
namespace {

// These names are of the library's stable interface. Source: NVML API Reference
// Guide.
constexpr int kSuccess = 0;
using Device = void*;
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
using Init = int (*)();
using Shutdown = int (*)();
using HandleByPciBusId = int (*)(const char*, Device*);
using GetMemoryInfo = int (*)(Device, Memory*);

template <class Function>
Function Find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

std::optional<int64_t> DriverFreeBytes(const std::string& bus_id) {
  const auto close = [](void* library) { (void)dlclose(library); };
  const std::unique_ptr<void, decltype(close)> library(
      dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), close);
  if (library == nullptr) return std::nullopt;
  const auto init = Find<Init>(library.get(), "nvmlInit_v2");
  const auto shutdown = Find<Shutdown>(library.get(), "nvmlShutdown");
  const auto find_device =
      Find<HandleByPciBusId>(library.get(), "nvmlDeviceGetHandleByPciBusId_v2");
  const auto read_memory =
      Find<GetMemoryInfo>(library.get(), "nvmlDeviceGetMemoryInfo");
  if (init == nullptr || shutdown == nullptr || find_device == nullptr ||
      read_memory == nullptr || init() != kSuccess) {
    return std::nullopt;
  }
  Device device = nullptr;
  Memory memory = {};
  const bool is_read = find_device(bus_id.c_str(), &device) == kSuccess &&
                       read_memory(device, &memory) == kSuccess;
  (void)shutdown();
  if (!is_read) return std::nullopt;
  return static_cast<int64_t>(memory.free);
}

}  // namespace plimsoll::kernels::cuda
