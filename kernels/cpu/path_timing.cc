#include "kernels/cpu/path_timing.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/target.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/quant/packed_row.h"

namespace plimsoll::kernels {
namespace {

// The product has the shape of a prompt's: rows enough for every path's own
// kernels, and weights that stay in the second-level cache.
constexpr int64_t kRows = 48;
constexpr int64_t kOutputs = 256;
constexpr int64_t kCols = 1'024;
constexpr DType kType = DType::kQ4_K;

// Zeros take as long as other values.
class TimedProduct {
 public:
  TimedProduct()
      : weights_(
            static_cast<size_t>(kOutputs * RowBytes(kType, kCols).value_or(0))),
        x_(kRows * kCols),
        packed_(kRows * PackedRowBytes(kCols)),
        out_(kRows * kOutputs) {}

  // Seconds that the product takes on the path in use.
  double Seconds() {
    // Each path packs activations in its own way.
    cpu::PackActivations({x_.data(), kRows, kCols, packed_.data()}, pool_);
    const MatMulArgs args = {.w = {kType, kOutputs, kCols, weights_.data()},
                             .x = x_.data(),
                             .packed = packed_.data(),
                             .out = out_.data(),
                             .n_rows = kRows,
                             .accumulate = false};
    const auto begin = std::chrono::steady_clock::now();
    cpu::MatMuls({&args, 1}, pool_, /*scratch=*/nullptr);
    const std::chrono::duration<double> taken =
        std::chrono::steady_clock::now() - begin;
    return taken.count();
  }

 private:
  ThreadPool pool_{1, WorkerCpus::kAny};
  std::vector<std::byte> weights_;
  std::vector<float> x_;
  std::vector<std::byte> packed_;
  std::vector<float> out_;
};

}  // namespace

void TimeCpuTargets() {
  std::optional<TimedProduct> product;  // made only if it is timed
  ChooseCpuTarget([&] {
    if (!product.has_value()) product.emplace();
    return product->Seconds();
  });
}

}  // namespace plimsoll::kernels
