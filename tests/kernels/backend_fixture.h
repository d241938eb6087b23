// What the kernels' tests share: one suite over every backend and instruction
// path of this machine, random data, and weights in each element type.
#ifndef PLIMSOLL_TESTS_KERNELS_BACKEND_FIXTURE_H_
#define PLIMSOLL_TESTS_KERNELS_BACKEND_FIXTURE_H_

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/cpu/target.h"
#include "kernels/cpu/thread_pool.h"
#ifdef PLIMSOLL_TEST_CUDA_EMULATION
#include "kernels/cuda/emulated_backend.h"
#endif
#include "kernels/quant/dequantize.h"
#include "kernels/quant/float16.h"
#include "kernels/quant/packed_row.h"
#include "kernels/quant/scale_offset.h"
#ifdef PLIMSOLL_TEST_CUDA
#include "tests/kernels/pinned_memory.h"
#include "tests/kernels/synchronous_backend.h"
#endif

namespace plimsoll::kernels {

inline constexpr char kReferenceName[] = "reference";
inline constexpr char kCudaEmulatedName[] = "cuda_emulated";
inline constexpr char kCudaName[] = "cuda_0";
// These backends use the kernel of prompts for attention of every row.
inline constexpr char kCudaEmulatedPromptName[] = "cuda_emulated_prompt";
inline constexpr char kCudaPromptName[] = "cuda_0_prompt";
// These backends use the kernel of prompts with a warpgroup's instructions.
inline constexpr char kCudaEmulatedGroupName[] = "cuda_emulated_group";
inline constexpr char kCudaGroupName[] = "cuda_0_group";

// These backends have one kernel of exact products for all rows.
inline constexpr char kCudaEmulatedExactName[] = "cuda_emulated_exact";
inline constexpr char kCudaExactName[] = "cuda_0_exact";

// These backends have products in F16 from two rows on.
inline constexpr char kCudaEmulatedHalfName[] = "cuda_emulated_half";
inline constexpr char kCudaHalfName[] = "cuda_0_half";
inline constexpr char kCudaEmulatedWgmmaName[] = "cuda_emulated_wgmma";
inline constexpr char kCudaWgmmaName[] = "cuda_0_wgmma";

// "reference", the CPU's instruction paths, best first, CUDA's kernels on the
// emulator, and on device 0, where the build has them. Without a device the
// last one's tests are skipped.
inline std::vector<std::string> BackendNames() {
  std::vector<std::string> names = AvailableCpuTargets();
  names.insert(names.begin(), kReferenceName);
#ifdef PLIMSOLL_TEST_CUDA_EMULATION
  names.emplace_back(kCudaEmulatedName);
#endif
#ifdef PLIMSOLL_TEST_CUDA
  names.emplace_back(kCudaName);
#endif
  return names;
}

// The names of BackendNames, and those whose attention differs.
inline std::vector<std::string> AttentionBackendNames() {
  std::vector<std::string> names = BackendNames();
#ifdef PLIMSOLL_TEST_CUDA_EMULATION
  names.emplace_back(kCudaEmulatedPromptName);
  names.emplace_back(kCudaEmulatedGroupName);
#endif
#ifdef PLIMSOLL_TEST_CUDA
  names.emplace_back(kCudaPromptName);
  names.emplace_back(kCudaGroupName);
#endif
  return names;
}

// The names of BackendNames, and those whose exact products differ.
inline std::vector<std::string> ProductBackendNames() {
  std::vector<std::string> names = BackendNames();
#ifdef PLIMSOLL_TEST_CUDA_EMULATION
  names.emplace_back(kCudaEmulatedExactName);
#endif
#ifdef PLIMSOLL_TEST_CUDA
  names.emplace_back(kCudaExactName);
#endif
  return names;
}

inline std::vector<std::string> HalfBackendNames() {
  std::vector<std::string> names;
#ifdef PLIMSOLL_TEST_CUDA_EMULATION
  names.emplace_back(kCudaEmulatedHalfName);
  names.emplace_back(kCudaEmulatedWgmmaName);
#endif
#ifdef PLIMSOLL_TEST_CUDA
  names.emplace_back(kCudaHalfName);
  names.emplace_back(kCudaWgmmaName);
#endif
  return names;
}

// True if tensor cores attend for every row.
inline bool HasTensorAttention(const std::string& name) {
  return name == kCudaEmulatedPromptName || name == kCudaPromptName ||
         name == kCudaEmulatedGroupName || name == kCudaGroupName;
}

inline bool IsEmulated(const std::string& name) {
  return absl::StartsWith(name, kCudaEmulatedName);
}
inline bool IsCuda(const std::string& name) {
  return IsEmulated(name) || absl::StartsWith(name, kCudaName);
}

// True if products of up to eight rows add up in an order of their own.
inline bool StreamsWeights(const std::string& name) {
  return name == kCudaEmulatedName || name == kCudaName;
}

// The names of ProductBackendNames whose products of one row have the order of
// all exact ones.
inline std::vector<std::string> ExactBackendNames() {
  std::vector<std::string> names = ProductBackendNames();
  std::erase_if(names, StreamsWeights);
  return names;
}

// Exact products, which change their kernel early (docs/cuda.md), unless the
// name says otherwise.
inline CudaOptions OptionsOf(const std::string& name) {
  CudaOptions options;
  if (HasTensorAttention(name)) {
    options.tensor_attention = CudaOptions::TensorAttention::kAll;
    options.wgmma_attention =
        name == kCudaEmulatedGroupName || name == kCudaGroupName;
    // More slices than some rows have tiles, and one.
    options.prompt_attention_slices = options.wgmma_attention ? 1 : 3;
  }
  const bool is_half = name == kCudaEmulatedHalfName || name == kCudaHalfName;
  const bool is_wgmma =
      name == kCudaEmulatedWgmmaName || name == kCudaWgmmaName;
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  options.half_product_rows = is_half || is_wgmma ? 2 : kNever;
  options.wgmma_rows = is_wgmma ? 2 : kNever;
  // Few rows have blocks that add up each other's sums.
  options.few_row_slices = is_wgmma ? 3 : 0;
  options.prompt_product_rows = 20;
  options.streams_weights =
      name != kCudaEmulatedExactName && name != kCudaExactName;
  return options;
}

inline std::string BackendTestName(
    const ::testing::TestParamInfo<std::string>& info) {
  return info.param;
}

// A backend with the pool it runs on; no backend if its device is not there.
struct BackendUnderTest {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Backend> backend;
};

#ifdef PLIMSOLL_TEST_CUDA
inline std::unique_ptr<Backend> MakeCudaBackend(const CudaOptions& options) {
  absl::StatusOr<std::unique_ptr<Backend>> backend = NewCudaBackend(0, options);
  if (absl::IsNotFound(backend.status())) return nullptr;
  EXPECT_TRUE(backend.ok()) << backend.status();
  if (!backend.ok()) return nullptr;
  UsePinnedMemory();
  return std::make_unique<SynchronousBackend>(*std::move(backend));
}
#endif

// `name` is one of BackendNames(). The instruction path holds for the process.
inline BackendUnderTest MakeBackend(const std::string& name, int n_threads) {
  BackendUnderTest made;
  made.pool = std::make_unique<ThreadPool>(n_threads, WorkerCpus::kAny);
  if (name == kReferenceName) {
    made.backend = NewReferenceBackend();
#ifdef PLIMSOLL_TEST_CUDA_EMULATION
  } else if (IsEmulated(name)) {
    made.backend = *NewEmulatedCudaBackend(OptionsOf(name));
#endif
#ifdef PLIMSOLL_TEST_CUDA
  } else if (IsCuda(name)) {
    made.backend = MakeCudaBackend(OptionsOf(name));
#endif
  } else {
    EXPECT_TRUE(SetCpuTarget(name).ok());
    made.backend = NewCpuBackend(*made.pool);
  }
  return made;
}

// Bytes of the file's layout of a random matrix. Scales are between 2^-10 and
// 2^-4, of either sign, so that values are of the size of real weights.
class RandomData {
 public:
  explicit RandomData(uint32_t seed) : random_(seed) {}

  float Uniform(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random_);
  }
  int64_t Integer(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  std::vector<float> Floats(int64_t n) { return FloatsWithin(n, 1.0f); }
  // Between -size and size.
  std::vector<float> FloatsWithin(int64_t n, float size) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) value = Uniform(-size, size);
    return values;
  }

  std::vector<std::byte> Weights(DType dtype, int64_t rows, int64_t cols) {
    const DTypeInfo& info = InfoOf(dtype);
    const int64_t n_blocks = rows * cols / info.block_elems;
    std::vector<std::byte> bytes(
        static_cast<size_t>(n_blocks * info.block_bytes));
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(Integer(0, 255));
    }
    for (int64_t b = 0; b < n_blocks; ++b) {
      SetScales(dtype, bytes.data() + b * info.block_bytes);
    }
    return bytes;
  }

 private:
  void SetF16(std::byte* at) {
    const float size = std::ldexp(1.0f, static_cast<int>(Integer(-10, -4)));
    const uint16_t half = F16FromF32(Uniform(-1, 1) * size);
    std::memcpy(at, &half, 2);
  }
  void SetScales(DType dtype, std::byte* block) {
    const float value = Uniform(-1, 1);
    switch (dtype) {
      case DType::kF32:
        std::memcpy(block, &value, 4);
        return;
      case DType::kBF16:
        std::memcpy(block, reinterpret_cast<const char*>(&value) + 2, 2);
        return;
      case DType::kQ4_1:
      case DType::kQ5_1:
      case DType::kQ4_K:
      case DType::kQ5_K:
        SetF16(block);
        SetF16(block + 2);
        return;
      case DType::kQ6_K:
        SetF16(block + 208);
        return;
      case DType::kQ3_K:
        SetF16(block + 108);
        return;
      case DType::kQ2_K:
        SetF16(block + 80);
        SetF16(block + 82);
        return;
      case DType::kTq1_0:
      case DType::kTq2_0:
        SetF16(block + ScaleOffset(dtype));
        return;
      case DType::kIq1M: {
        // The scale's parts are the top bits of four numbers.
        std::byte half[2];
        SetF16(half);
        uint16_t d;
        std::memcpy(&d, half, 2);
        for (int i = 0; i < 4; ++i, d = static_cast<uint16_t>(d >> 4)) {
          std::byte& top = block[48 + 2 * i + 1];
          top = (top & std::byte{15}) | static_cast<std::byte>((d & 15) << 4);
        }
        return;
      }
      case DType::kMxfp4:
        *block = static_cast<std::byte>(128 + Integer(-14, -6));
        return;
      case DType::kNvfp4:  // 2^-9 is the smallest
        for (int i = 0; i < 4; ++i) {
          block[i] = static_cast<std::byte>(Integer(0, 31));
        }
        return;
      default:  // F16, Q8_0, Q4_0, Q5_0, IQ4_NL, IQ4_XS
        SetF16(block);
    }
  }

  std::mt19937 random_;
};

inline const std::vector<DType>& WeightTypes() {
  static const auto* types = new std::vector<DType>{
      DType::kF32,    DType::kF16,    DType::kBF16,  DType::kQ8_0,
      DType::kQ4_0,   DType::kQ4_1,   DType::kQ5_0,  DType::kQ5_1,
      DType::kQ4_K,   DType::kQ5_K,   DType::kQ6_K,  DType::kMxfp4,
      DType::kIq4Nl,  DType::kIq4Xs,  DType::kQ3_K,  DType::kQ2_K,
      DType::kTq2_0,  DType::kIq2Xxs, DType::kIq2Xs, DType::kIq2S,
      DType::kIq3Xxs, DType::kIq3S,   DType::kIq1S,  DType::kIq1M,
      DType::kTq1_0,  DType::kNvfp4};
  return *types;
}

// Where a block of a type has its f16 scale; -1 if there is none.
inline int64_t F16ScaleOffset(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kBF16:
    case DType::kMxfp4:
    case DType::kNvfp4:
    case DType::kIq1M:
      return -1;
    default:
      return ScaleOffset(dtype);
  }
}

inline int64_t RowMultiple(const Backend& backend, DType dtype) {
  for (const StorageFact& fact : backend.Device().storage) {
    if (fact.dtype == dtype) return fact.row_multiple;
  }
  ADD_FAILURE() << "no storage rule for " << DTypeName(dtype);
  return 1;
}

// A matrix in a backend's storage, with the memory that holds it.
struct StoredMatrix {
  Buffer buffer;
  WeightMatrix view;
};

inline StoredMatrix Store(Backend& backend, DType dtype, int64_t rows,
                          int64_t cols, const std::vector<std::byte>& bytes) {
  const int64_t multiple = RowMultiple(backend, dtype);
  const int64_t padded = (rows + multiple - 1) / multiple * multiple;
  StoredMatrix stored;
  stored.buffer = *backend.Allocate(padded * *RowBytes(dtype, cols));
  EXPECT_TRUE(
      backend
          .UploadRows(
              {.dtype = dtype, .rows = rows, .cols = cols, .bytes = bytes},
              stored.buffer.view())
          .ok());
  stored.view = {dtype, rows, cols, stored.buffer.data()};
  return stored;
}

// What a device's memory holds.
inline std::vector<std::byte> Downloaded(Backend& backend, BufferView view) {
  std::vector<std::byte> bytes(static_cast<size_t>(view.bytes));
  EXPECT_TRUE(backend.Download(view, bytes).ok());
  return bytes;
}

// The values of every element, row after row.
inline std::vector<float> Dequantized(DType dtype, int64_t rows, int64_t cols,
                                      const std::vector<std::byte>& bytes) {
  std::vector<float> values(static_cast<size_t>(rows * cols));
  EXPECT_TRUE(
      DequantizeRow(dtype, bytes.data(), rows * cols, values.data()).ok());
  return values;
}

// Bit patterns, so that NaN and the sign of zero count.
inline std::vector<uint32_t> Bits(const float* values, int64_t n) {
  std::vector<uint32_t> bits(static_cast<size_t>(n));
  std::memcpy(bits.data(), values, bits.size() * 4);
  return bits;
}
inline std::vector<uint32_t> Bits(const std::vector<float>& values) {
  return Bits(values.data(), static_cast<int64_t>(values.size()));
}

class BackendTest : public ::testing::TestWithParam<std::string> {
 protected:
  BackendTest() : made_(MakeBackend(GetParam(), 2)) {}
  void SetUp() override {
    if (made_.backend == nullptr) GTEST_SKIP() << "there is no CUDA device";
  }
  ~BackendTest() override {
    made_ = {};
    EXPECT_TRUE(SetCpuTarget("").ok());
  }
  Backend& backend() { return *made_.backend; }

  BackendUnderTest made_;
};

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_TESTS_KERNELS_BACKEND_FIXTURE_H_
