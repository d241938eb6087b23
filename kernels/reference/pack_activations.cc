// Reference: activations as int16 values with a scale per block of 32.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/quant/packed_row.h"
#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {
namespace {

void PackRow(const float* x, int64_t dim, std::byte* out) {
  for (int64_t block = 0; block < dim / kActivationBlock; ++block) {
    const float* values = x + block * kActivationBlock;
    float amax = 0;
    bool is_finite = true;
    for (int64_t i = 0; i < kActivationBlock; ++i) {
      amax = std::max(amax, std::abs(values[i]));
      is_finite &= std::isfinite(values[i]);
    }
    if (!(amax >= kMinBlockAmax) || !is_finite) amax = 0;
    const float scale = is_finite ? amax / kActivationMax
                                  : std::numeric_limits<float>::quiet_NaN();
    const float inverse = amax > 0 ? kActivationMax / amax : 0.0f;
    int16_t quants[kActivationBlock];
    int32_t sum = 0;
    for (int64_t i = 0; i < kActivationBlock; ++i) {
      const float q = amax > 0 ? std::nearbyint(values[i] * inverse) : 0.0f;
      const auto value =
          static_cast<int16_t>(std::clamp(q, -kActivationMax, kActivationMax));
      sum += value;
      quants[i] = value;
    }
    std::memcpy(out + block * kActivationBlock * 2, quants, sizeof(quants));
    const float scaled_sum = scale * static_cast<float>(sum);
    std::memcpy(out + PackedScalesOffset(dim) + block * 4, &scale, 4);
    std::memcpy(out + PackedSumsOffset(dim) + block * 4, &scaled_sum, 4);
    const CrossProducts cross = CrossProductsOf(quants);
    std::memcpy(out + PackedCrossOffset(dim) + block * 8, &cross, 8);
  }
}

}  // namespace

void PackActivations(const PackActivationsArgs& args) {
  for (int64_t r = 0; r < args.n_rows; ++r) {
    PackRow(args.x + r * args.dim, args.dim,
            args.out + r * PackedRowBytes(args.dim));
  }
}

}  // namespace plimsoll::kernels::reference
