// Products of one shape for the CUDA benchmarks, with what they read.
#ifndef PLIMSOLL_BENCH_CUDA_PRODUCT_H_
#define PLIMSOLL_BENCH_CUDA_PRODUCT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/status_macros.h"
#include "bench/cuda/timing.h"
#include "kernels/backend.h"
#include "kernels/quant/packed_row.h"

namespace plimsoll::kernels {

// More than caches hold, so that weights come from memory as in a model.
inline constexpr int64_t kRotatedBytes = int64_t{512} << 20;

// Weights of [rows, cols] are multiplied with `n_rows` rows.
struct ProductShape {
  DType dtype;
  int64_t rows;
  int64_t cols;
  int64_t n_rows;
};

// Weights of one shape, several times, with activations for some rows.
class Product {
 public:
  Product(Backend& backend, const ProductShape& shape)
      : backend_(backend), n_rows_(shape.n_rows) {
    const auto [dtype, rows, cols, n_rows] = shape;
    weight_bytes_ = rows * *RowBytes(dtype, cols);
    const int64_t copies = std::max<int64_t>(1, kRotatedBytes / weight_bytes_);
    for (int64_t i = 0; i < copies; ++i) {
      weights_.push_back(RandomBytes(backend, weight_bytes_));
      views_.push_back({dtype, rows, cols, weights_.back().data()});
    }
    x_ = RandomFloats(backend, n_rows * cols);
    packed_ = Must(backend.Allocate(n_rows * PackedRowBytes(cols)));
    out_ = Must(backend.Allocate(n_rows * rows * 4));
    Must(backend.PackActivations({Floats(x_), n_rows, cols, packed_.data()}));
  }

  double Run() {
    return Seconds(backend_, [&](int i) {
      return backend_.MatMul({views_[static_cast<size_t>(i) % views_.size()],
                              Floats(x_), packed_.data(), Floats(out_), n_rows_,
                              false});
    });
  }
  // One of many products of a step that is held for a graph, on any backend of
  // the device.
  double RunHeld(Backend& on) {
    constexpr int kCalls = 32;
    const auto step = [&](int) -> absl::Status {
      RETURN_IF_ERROR(on.BeginStep(n_rows_));
      for (int i = 0; i < kCalls; ++i) {
        RETURN_IF_ERROR(on.MatMul(
            {views_[static_cast<size_t>(i) % views_.size()], Floats(x_),
             packed_.data(), Floats(out_), n_rows_, false}));
      }
      RETURN_IF_ERROR(on.Synchronize());
      return on.EndStep();
    };
    Must(step(0));
    return Seconds(on, step) / kCalls;
  }
  int64_t weight_bytes() const { return weight_bytes_; }

 private:
  Backend& backend_;
  int64_t n_rows_;
  int64_t weight_bytes_;
  std::vector<Buffer> weights_;
  std::vector<WeightMatrix> views_;
  Buffer x_;
  Buffer packed_;
  Buffer out_;
};

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_BENCH_CUDA_PRODUCT_H_
