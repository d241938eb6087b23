// The arguments of rotations: angles of positions, and heads that turn by them.
#ifndef PLIMSOLL_KERNELS_ROPE_H_
#define PLIMSOLL_KERNELS_ROPE_H_

#include <cstdint>

namespace plimsoll::kernels {

// The pairs of a rotation that are scaled: in full from pair `end` on, not at
// all up to pair `begin`, and in proportion in between. By default all are.
struct RopeRamp {
  double begin = -1;
  double end = -1;

  // The share, from 0 to 1, of the scale in pair p.
  constexpr double ShareOf(int64_t p) const {
    constexpr double kLeastWidth = 0.001;  // width of a ramp that is a step
    const double width = end - begin > kLeastWidth ? end - begin : kLeastWidth;
    const double share = (static_cast<double>(p) - begin) / width;
    if (share <= 0) return 0;
    return share < 1 ? share : 1;
  }
  // The scale of pair p, which is `scale` to the bit where its share is 1.
  constexpr double ScaleOf(int64_t p, double scale) const {
    const double share = ShareOf(p);
    return scale * share + (1 - share);
  }
};

// cos and sin of position * ramp.ScaleOf(p, scale) * base^(-2p / n_rot) /
// freq_factors[p] for p < n_rot / 2, computed in double precision, times
// `magnitude`.
struct RopeAnglesArgs {
  const int64_t* positions;  // host, [n_rows]
  int64_t n_rows;
  int64_t n_rot;
  double base;
  double scale;               // 1 / scaling factor
  const float* freq_factors;  // [n_rot / 2] or nullptr
  float magnitude;
  float* out;          // [n_rows, n_rot / 2, 2]: cos, sin
  RopeRamp ramp = {};  // begin <= end
};

enum class RopeStyle {
  kNorm,  // pairs (2p, 2p + 1): architecture llama
  kNeox,  // pairs (p, p + n_rot / 2): gemma, qwen
};

// Rotates the first n_rot elements of each head; the rest is copied. `out` may
// be `x` if their heads are equally far apart.
struct RopeArgs {
  const float* x;       // [n_rows, n_heads, head_dim]
  const float* angles;  // [n_rows, n_rot / 2, 2]
  float* out;
  int64_t n_rows;
  int64_t n_heads;
  int64_t head_dim;
  int64_t n_rot;
  RopeStyle style;
  // Floats from one head of x, and of out, to the next; at least head_dim. 0:
  // head_dim.
  int64_t x_stride = 0;
  int64_t out_stride = 0;

  constexpr int64_t XStride() const {
    return x_stride == 0 ? head_dim : x_stride;
  }
  constexpr int64_t OutStride() const {
    return out_stride == 0 ? head_dim : out_stride;
  }
};

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_ROPE_H_
