// Products as their tests ask for them.
#ifndef PLIMSOLL_TESTS_KERNELS_MAT_MUL_PRODUCTS_H_
#define PLIMSOLL_TESTS_KERNELS_MAT_MUL_PRODUCTS_H_

#include <cmath>
#include <span>
#include <vector>

#include "kernels/quant/packed_row.h"
#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {

inline std::vector<std::byte> Packed(Backend& backend,
                                     const std::vector<float>& x,
                                     int64_t n_rows, int64_t dim) {
  std::vector<std::byte> packed(
      static_cast<size_t>(n_rows * PackedRowBytes(dim)));
  EXPECT_TRUE(
      backend.PackActivations({x.data(), n_rows, dim, packed.data()}).ok());
  return packed;
}

// Scales of products in a backend's memory.
class StoredScale {
 public:
  StoredScale(Backend& backend, const std::vector<float>& values)
      : buffer_(*backend.Allocate(static_cast<int64_t>(values.size() * 4))) {
    EXPECT_TRUE(
        backend.Upload(std::as_bytes(std::span(values)), buffer_.view()).ok());
  }
  const float* data() const {
    return reinterpret_cast<const float*>(buffer_.data());
  }

 private:
  Buffer buffer_;
};

inline std::vector<float> Product(Backend& backend, const WeightMatrix& w,
                                  const std::vector<float>& x, int64_t n_rows,
                                  bool is_packed) {
  std::vector<std::byte> packed;
  if (is_packed) packed = Packed(backend, x, n_rows, w.cols);
  std::vector<float> out(static_cast<size_t>(n_rows * w.rows));
  EXPECT_TRUE(backend
                  .MatMul({w, x.data(), is_packed ? packed.data() : nullptr,
                           out.data(), n_rows, false})
                  .ok());
  return out;
}

// |w| |x| summed, for bounds of rounding; a type with a minimum adds terms that
// may be 32 times (the largest quant) the value they leave.
inline double Magnitude(DType dtype, const float* w, const float* x,
                        int64_t n) {
  double sum = 0;
  for (int64_t c = 0; c < n; ++c) sum += std::abs(double{w[c]} * x[c]);
  const bool has_min = dtype == DType::kQ4_1 || dtype == DType::kQ5_1 ||
                       dtype == DType::kQ4_K || dtype == DType::kQ5_K ||
                       dtype == DType::kQ2_K;
  return has_min ? 32 * sum : sum;
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_TESTS_KERNELS_MAT_MUL_PRODUCTS_H_
