// Times are measured by events on the device. cuBLAS is opened at run time, so
// that programs start where it is not installed.
#include "kernels/cuda/device_rates.h"

#include <cublas_v2.h>
#include <dlfcn.h>

#include <algorithm>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/runtime.h"

namespace plimsoll::kernels::cuda {
namespace {

constexpr int kWarmUps = 3;
constexpr int kRuns = 11;

// Owns device memory.
class Memory {
 public:
  static absl::StatusOr<Memory> Of(int64_t bytes) {
    ASSIGN_OR_RETURN(std::byte * data, AllocateDevice(bytes));
    return Memory(data);
  }
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)) {}
  Memory& operator=(Memory&&) = delete;
  ~Memory() { FreeDevice(data_); }
  std::byte* data() const { return data_; }

 private:
  explicit Memory(std::byte* data) : data_(data) {}
  std::byte* data_;
};

// Median seconds of `work`, which queues on `stream`.
absl::StatusOr<double> MedianSeconds(
    Stream stream, const std::function<absl::Status()>& work) {
  ASSIGN_OR_RETURN(const Event begin, NewTimedEvent());
  ASSIGN_OR_RETURN(const Event end, NewTimedEvent());
  std::vector<double> seconds;
  for (int i = 0; i < kWarmUps + kRuns; ++i) {
    RETURN_IF_ERROR(Record(begin, stream));
    RETURN_IF_ERROR(work());
    RETURN_IF_ERROR(Record(end, stream));
    RETURN_IF_ERROR(WaitFor(end));
    ASSIGN_OR_RETURN(const float milliseconds, Milliseconds(begin, end));
    if (i >= kWarmUps) seconds.push_back(milliseconds / 1e3);
  }
  DestroyEvent(begin);
  DestroyEvent(end);
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2];
}

// cublasGemmEx; C++ has a second one of that name.
using Gemm = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t,
                                cublasOperation_t, int m, int n, int k,
                                const void* alpha, const void* a, cudaDataType,
                                int lda, const void* b, cudaDataType, int ldb,
                                const void* beta, void* c, cudaDataType,
                                int ldc, cublasComputeType_t, cublasGemmAlgo_t);

// The few functions of cuBLAS that this file calls.
struct Blas {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetStream_v2) set_stream;
  Gemm gemm;
};

absl::StatusOr<Blas> OpenBlas() {
  const std::string name = absl::StrCat("libcublas.so.", CUBLAS_VER_MAJOR);
  // The library stays open: closing it would unload what the driver still uses.
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnimplementedError(absl::StrCat("there is no ", name));
  }
  Blas blas;
  const auto find = [&](const char* symbol, auto& function) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(
        dlsym(library, symbol));
    return function != nullptr;
  };
  if (find("cublasCreate_v2", blas.create) &&
      find("cublasDestroy_v2", blas.destroy) &&
      find("cublasSetStream_v2", blas.set_stream) &&
      find("cublasGemmEx", blas.gemm)) {
    return blas;
  }
  return absl::UnimplementedError(absl::StrCat(name, " lacks a function"));
}

absl::Status ToStatus(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("cuBLAS error ", static_cast<int>(status)));
}

// Random bf16 numbers of either sign with magnitudes in [2^-7, 1).
absl::StatusOr<Memory> RandomMatrix(int64_t n, Stream stream) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  std::mt19937 random(1);
  std::vector<uint16_t> piece(kPiece);
  for (uint16_t& value : piece) {
    const auto bits = static_cast<uint32_t>(random());
    const uint32_t exponent = 120 + (bits >> 8) % 7;
    value = static_cast<uint16_t>(((bits & 1u) << 15) | (exponent << 7) |
                                  ((bits >> 16) & 0x7Fu));
  }
  ASSIGN_OR_RETURN(Memory matrix, Memory::Of(n * 2));
  for (int64_t at = 0; at < n; at += kPiece) {
    RETURN_IF_ERROR(CopyToDevice(
        reinterpret_cast<const std::byte*>(piece.data()),
        matrix.data() + at * 2, std::min(kPiece, n - at) * 2, stream));
  }
  RETURN_IF_ERROR(WaitForStream(stream));
  return matrix;
}

}  // namespace

absl::StatusOr<std::string> DescribeDevice(int device) {
  ASSIGN_OR_RETURN(const DeviceFacts facts, OpenDevice(device));
  int driver = 0;
  int runtime = 0;
  int clock_khz = 0;
  int memory_khz = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  (void)cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, device);
  (void)cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, device);
  return absl::StrCat(facts.name, ", ", facts.n_multiprocessors,
                      " multiprocessors, ", facts.total_bytes >> 20,
                      " MiB, clocks up to ", clock_khz / 1000, " and ",
                      memory_khz / 1000, " MHz, driver for CUDA ",
                      driver / 1000, ".", driver % 1000 / 10, ", runtime ",
                      runtime / 1000, ".", runtime % 1000 / 10);
}

absl::StatusOr<int64_t> FreeBytes(int device) {
  ASSIGN_OR_RETURN(const DeviceFacts facts, OpenDevice(device));
  return facts.free_bytes;
}

absl::StatusOr<double> CopyBytesPerSecond(int device, int64_t bytes) {
  RETURN_IF_ERROR(UseDevice(device));
  ASSIGN_OR_RETURN(const Memory from, Memory::Of(bytes));
  ASSIGN_OR_RETURN(const Memory to, Memory::Of(bytes));
  ASSIGN_OR_RETURN(const Stream stream, NewStream());
  RETURN_IF_ERROR(ZeroDevice(from.data(), bytes, stream));
  ASSIGN_OR_RETURN(const double seconds, MedianSeconds(stream, [&] {
                     return CopyToDevice(from.data(), to.data(), bytes, stream);
                   }));
  Destroy(stream);
  return 2.0 * static_cast<double>(bytes) / seconds;
}

absl::StatusOr<double> MatrixOperationsPerSecond(int device, int64_t m,
                                                 int64_t n, int64_t k) {
  RETURN_IF_ERROR(UseDevice(device));
  ASSIGN_OR_RETURN(const Blas blas, OpenBlas());
  ASSIGN_OR_RETURN(const Stream stream, NewStream());
  ASSIGN_OR_RETURN(const Memory a, RandomMatrix(m * k, stream));
  ASSIGN_OR_RETURN(const Memory b, RandomMatrix(k * n, stream));
  ASSIGN_OR_RETURN(const Memory c, Memory::Of(m * n * 4));
  cublasHandle_t handle = nullptr;
  RETURN_IF_ERROR(ToStatus(blas.create(&handle)));
  RETURN_IF_ERROR(ToStatus(blas.set_stream(handle, stream)));
  const float one = 1;
  const float zero = 0;
  ASSIGN_OR_RETURN(
      const double seconds, MedianSeconds(stream, [&] {
        return ToStatus(blas.gemm(
            handle, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(m),
            static_cast<int>(n), static_cast<int>(k), &one, a.data(),
            CUDA_R_16BF, static_cast<int>(k), b.data(), CUDA_R_16BF,
            static_cast<int>(k), &zero, c.data(), CUDA_R_32F,
            static_cast<int>(m), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
      }));
  (void)blas.destroy(handle);
  Destroy(stream);
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) *
         static_cast<double>(k) / seconds;
}

}  // namespace plimsoll::kernels::cuda
