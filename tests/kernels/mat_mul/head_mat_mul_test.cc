// Products of which each head has a matrix of its own: the bits of each head's
// product by itself, and nothing beside the outputs is written.
#include <algorithm>

#include "kernels/heads.h"
#include "tests/kernels/backend_fixture.h"
#include "tests/kernels/mat_mul/products.h"

namespace plimsoll::kernels {
namespace {

struct HeadsCase {
  DType dtype;
  int64_t n_rows;
  int64_t n_heads;
  int64_t cols;
  int64_t outputs;
  int64_t x_gap = 0;  // floats between two heads
  int64_t out_gap = 0;
  bool has_scales = false;
};

constexpr float kUntouched = 7.0f;

// Row r of head h of `values`, whose heads begin every `stride` floats.
std::vector<float> HeadRows(const std::vector<float>& values,
                            const HeadsCase& c, int64_t head, int64_t stride,
                            int64_t dim) {
  std::vector<float> rows;
  for (int64_t r = 0; r < c.n_rows; ++r) {
    const auto begin = values.begin() + (r * c.n_heads + head) * stride;
    rows.insert(rows.end(), begin, begin + dim);
  }
  return rows;
}

void ExpectHeadsAsAlone(Backend& backend, const HeadsCase& c) {
  SCOPED_TRACE(::testing::Message() << DTypeName(c.dtype) << " " << c.n_rows
                                    << " rows of " << c.cols << " columns");
  RandomData random(71);
  const int64_t multiple = RowMultiple(backend, c.dtype);
  const int64_t padded = (c.outputs + multiple - 1) / multiple * multiple;
  const int64_t matrix_bytes = padded * *RowBytes(c.dtype, c.cols);
  const Buffer buffer = *backend.Allocate(c.n_heads * matrix_bytes);
  for (int64_t h = 0; h < c.n_heads; ++h) {
    ASSERT_TRUE(
        backend
            .UploadRows({.dtype = c.dtype,
                         .rows = c.outputs,
                         .cols = c.cols,
                         .bytes = random.Weights(c.dtype, c.outputs, c.cols)},
                        buffer.view().Slice(h * matrix_bytes, matrix_bytes))
            .ok());
  }
  const StoredScale scales(backend, random.FloatsWithin(c.n_heads, 3.0f));
  ExpertMatrices w = {{c.dtype, c.outputs, c.cols, buffer.data()},
                      matrix_bytes};
  if (c.has_scales) w.first.scale = scales.data();
  const int64_t x_stride = c.cols + c.x_gap;
  const int64_t out_stride = c.outputs + c.out_gap;
  const int64_t n = c.n_rows * c.n_heads;
  const std::vector<float> x = random.Floats(n * x_stride);
  std::vector<float> out(static_cast<size_t>(n * out_stride), kUntouched);
  ASSERT_TRUE(backend
                  .HeadMatMul({w, c.n_rows, c.n_heads, x.data(), x_stride,
                               out.data(), out_stride})
                  .ok());
  for (int64_t h = 0; h < c.n_heads; ++h) {
    const auto alone =
        Product(backend, w.Of(h), HeadRows(x, c, h, x_stride, c.cols), c.n_rows,
                /*is_packed=*/false);
    ASSERT_EQ(Bits(HeadRows(out, c, h, out_stride, c.outputs)), Bits(alone))
        << "head " << h;
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t gap = c.outputs; gap < out_stride; ++gap) {
      ASSERT_EQ(out[static_cast<size_t>(i * out_stride + gap)], kUntouched);
    }
  }
}

using HeadMatMulTest = BackendTest;

TEST_P(HeadMatMulTest, EveryTypeGivesTheBitsOfEachHeadAlone) {
  for (const DType dtype : WeightTypes()) {
    const int64_t cols = std::max<int64_t>(InfoOf(dtype).block_elems, 64);
    ExpectHeadsAsAlone(backend(), {dtype, 3, 4, cols, 40, 16, 8});
  }
}

TEST_P(HeadMatMulTest, AnyNumberOfRowsAndHeads) {
  for (const int64_t n_rows : {1, 2, 8, 9, 70}) {
    ExpectHeadsAsAlone(backend(), {DType::kQ8_0, n_rows, 1, 32, 24});
    ExpectHeadsAsAlone(backend(),
                       {DType::kQ8_0, n_rows, 5, 96, 64, 16, 16, true});
  }
}

TEST_P(HeadMatMulTest, WidthsAreNotWholePanelsNorAligned) {
  for (const int64_t n_rows : {1, 9}) {
    ExpectHeadsAsAlone(backend(), {DType::kF32, n_rows, 3, 37, 21, 4, 1});
    ExpectHeadsAsAlone(backend(), {DType::kF16, n_rows, 2, 24, 5, 1, 0});
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, HeadMatMulTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

TEST(HeadMatMulErrorsTest, HeadsThatOverlapAreRefused) {
  const auto made = MakeBackend(AvailableCpuTargets().front(), 1);
  std::vector<float> x(64);
  std::vector<float> out(64);
  const ExpertMatrices w = {{DType::kF32, 16, 32, nullptr}, 0};
  const auto code = [&](int64_t x_stride, int64_t out_stride) {
    return made.backend
        ->HeadMatMul({w, 0, 1, x.data(), x_stride, out.data(), out_stride})
        .code();
  };
  EXPECT_EQ(code(32, 16), absl::StatusCode::kOk);
  EXPECT_EQ(code(31, 16), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(32, 15), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace plimsoll::kernels
