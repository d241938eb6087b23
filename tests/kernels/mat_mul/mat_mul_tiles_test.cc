// The products of a matrix unit with tiles, on an emulated one: bit-equal to
// those of the vector path that this file is compiled for.
#undef HWY_TARGET_INCLUDE
#define HWY_COMPILE_ONLY_STATIC
#include "kernels/cpu/targets-inl.h"
// clang-format off
#include "kernels/cpu/mat_mul/mat_mul_tiles-inl.h"
// clang-format on
#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

// Eight tiles as the instructions of AMX treat them. Source: Intel's
// instruction set reference, TDPBSSD, TDPBUSD, TILELOADD, TILESTORED.
class EmulatedTiles {
 public:
  explicit EmulatedTiles(int64_t n_columns) : n_columns_(n_columns) {
    // What nobody loaded is not zero.
    std::memset(bytes_, 0x55, sizeof(bytes_));
  }

  template <int kTile>
  void Zero() {
    std::memset(bytes_[kTile], 0, sizeof(bytes_[kTile]));
  }
  template <int kTile>
  void Load(const void* from, int64_t stride) {
    const auto* at = static_cast<const char*>(from);
    const bool is_weights = kTile >= cpu::HWY_NAMESPACE::kWeights;
    const int64_t n_rows = is_weights ? n_columns_ / 4 : 16;
    const int64_t row_bytes = is_weights ? 64 : n_columns_;
    for (int64_t r = 0; r < n_rows; ++r) {
      std::memcpy(bytes_[kTile][r], at + r * stride,
                  static_cast<size_t>(row_bytes));
    }
  }
  template <int kSums, int kInputs, int kW>
  void AddSigned() {
    Add<kSums, kInputs, kW, int8_t>();
  }
  template <int kSums, int kInputs, int kW>
  void AddUnsigned() {
    Add<kSums, kInputs, kW, uint8_t>();
  }
  template <int kTile>
  void Store(cpu::HWY_NAMESPACE::TileSums& to) {
    std::memcpy(to, bytes_[kTile], sizeof(to));
  }

 private:
  template <int kSums, int kInputs, int kW, typename Input>
  void Add() {
    for (int64_t m = 0; m < 16; ++m) {
      for (int64_t n = 0; n < 16; ++n) {
        int32_t sum;
        std::memcpy(&sum, bytes_[kSums][m] + 4 * n, 4);
        for (int64_t k = 0; k < n_columns_; ++k) {
          const auto input = static_cast<Input>(bytes_[kInputs][m][k]);
          const auto w = static_cast<int8_t>(bytes_[kW][k / 4][4 * n + k % 4]);
          sum += int32_t{input} * w;
        }
        std::memcpy(bytes_[kSums][m] + 4 * n, &sum, 4);
      }
    }
  }

  int64_t n_columns_;
  uint8_t bytes_[8][16][64];
};

class MatMulTilesTest : public ::testing::Test {
 protected:
  // This file's own path, the last of those there are.
  MatMulTilesTest() : made_(MakeBackend(AvailableCpuTargets().back(), 1)) {}
  ~MatMulTilesTest() override {
    made_ = {};
    EXPECT_TRUE(SetCpuTarget("").ok());
  }

  // Expects the same bits of both for n_rows of random activations.
  void ExpectSame(DType dtype, int64_t n_rows, int64_t outputs, int64_t cols,
                  bool accumulate) {
    RandomData random(static_cast<uint32_t>(n_rows * 1000 + outputs + cols));
    const auto bytes = random.Weights(dtype, outputs, cols);
    const auto stored = Store(backend(), dtype, outputs, cols, bytes);
    const auto x = random.Floats(n_rows * cols);
    std::vector<std::byte> packed(
        static_cast<size_t>(n_rows * PackedRowBytes(cols)));
    ASSERT_TRUE(backend()
                    .PackActivations({x.data(), n_rows, cols, packed.data()})
                    .ok());
    std::vector<float> expected = random.Floats(n_rows * outputs);
    std::vector<float> out = expected;
    MatMulArgs args = {stored.view,     x.data(), packed.data(),
                       expected.data(), n_rows,   accumulate};
    ASSERT_TRUE(backend().MatMul(args).ok());
    args.out = out.data();
    const int64_t n_panels = (outputs + 15) / 16;
    const int64_t middle = n_panels / 2;
    cpu::HWY_NAMESPACE::MultiplyOnTiles<EmulatedTiles>(args, 0, middle);
    cpu::HWY_NAMESPACE::MultiplyOnTiles<EmulatedTiles>(args, middle, n_panels);
    EXPECT_EQ(Bits(out), Bits(expected))
        << DTypeName(dtype) << " " << n_rows << "x" << outputs << "x" << cols;
  }

  Backend& backend() { return *made_.backend; }

  BackendUnderTest made_;
};

TEST_F(MatMulTilesTest, HaveTheBitsOfVectorsInEveryTypeAndShape) {
  for (const DType dtype : WeightTypes()) {
    const int64_t block = InfoOf(dtype).block_elems;
    if (block == 1) continue;
    for (const bool accumulate : {false, true}) {
      ExpectSame(dtype, 1, 1, block, accumulate);
      ExpectSame(dtype, 16, 32, 2 * block, accumulate);
      ExpectSame(dtype, 17, 47, 256 + block, accumulate);
    }
  }
}

// A task is 64 rows times 16 panels, a chunk 256 columns: at them and past.
TEST_F(MatMulTilesTest, HaveTheBitsOfVectorsAtTheirOwnLimits) {
  for (const int64_t n_rows : {63, 64, 65, 130}) {
    ExpectSame(DType::kQ4_0, n_rows, 16, 64, false);
  }
  for (const int64_t outputs : {256, 257, 512 + 16, 1024 + 17}) {
    ExpectSame(DType::kQ8_0, 3, outputs, 64, false);
  }
  for (const int64_t cols : {224, 256, 288, 512}) {
    ExpectSame(DType::kQ5_1, 5, 16, cols, false);
  }
}

// Quants of -128 times activations of -32768 + 1 and 32767.
TEST_F(MatMulTilesTest, ExtremesDoNotOverflow) {
  constexpr int64_t kCols = 64;
  std::vector<std::byte> bytes(16 * 68, std::byte{0x80});
  const uint16_t one = F16FromF32(1.0f);
  for (size_t b = 0; b < 32; ++b) std::memcpy(&bytes[b * 34], &one, 2);
  const auto stored = Store(backend(), DType::kQ8_0, 16, kCols, bytes);
  std::vector<float> x(2 * kCols, -3.0f);
  std::fill_n(x.begin(), kCols, 3.0f);
  std::vector<std::byte> packed(static_cast<size_t>(2 * PackedRowBytes(kCols)));
  ASSERT_TRUE(
      backend().PackActivations({x.data(), 2, kCols, packed.data()}).ok());
  std::vector<float> out(32);
  cpu::HWY_NAMESPACE::MultiplyOnTiles<EmulatedTiles>(
      {stored.view, x.data(), packed.data(), out.data(), 2, false}, 0, 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const double expected = (i < 16 ? -128.0 : 128.0) * 3.0 * kCols;
    EXPECT_NEAR(out[i], expected, std::abs(expected) * 1e-6);
  }
}

}  // namespace
}  // namespace plimsoll::kernels
