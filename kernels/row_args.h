// Arguments of operations that treat every row by numbers of its own: scales,
// cuts and mixes. Pointers are as in backend.h.
#ifndef PLIMSOLL_KERNELS_ROW_ARGS_H_
#define PLIMSOLL_KERNELS_ROW_ARGS_H_

#include <cstdint>

namespace plimsoll::kernels {

// x[r] *= factors[r], for every row r.
struct ScaleRowsArgs {
  float* x;              // [n_rows, dim]
  const float* factors;  // host, [n_rows], finite
  int64_t n_rows;
  int64_t dim;
};

// x = max(x - cut, 0), where the cut of a row is its mean + `deviations` times
// its standard deviation, (mean(x^2) - mean(x)^2)^1/2. NaN stays NaN.
struct CutRowsArgs {
  float* x;  // [n_rows, dim]
  int64_t n_rows;
  int64_t dim;
  float deviations;
};

// Sums of arrays, in which every row has weights of its own:
//   out[i][r] = x[i][r] + sum over j of
//               (weights[r][i][j] + offset) * (y[j][r] - minus[r])
// `out` may be `x`, and its arrays may be some of `y` and `minus` too.
struct MixRowsArgs {
  const float* x = nullptr;        // [n_out, n_rows, dim], or nullptr: zeros
  const float* y = nullptr;        // [n_in, n_rows, dim]
  const float* minus = nullptr;    // [n_rows, dim], or nullptr: zeros
  const float* weights = nullptr;  // [n_rows, n_out, n_in], or nullptr: zeros
  float offset = 1;
  float* out = nullptr;  // [n_out, n_rows, dim]
  int64_t n_out = 1;     // 1..kMaxMixed
  int64_t n_in = 1;      // 1..kMaxMixed
  int64_t n_rows = 0;
  int64_t dim = 0;

  // The weight of y[j] in out[i], for row r.
  constexpr float WeightOf(int64_t r, int64_t i, int64_t j) const {
    return weights == nullptr ? offset
                              : weights[(r * n_out + i) * n_in + j] + offset;
  }
};
inline constexpr int64_t kMaxMixed = 16;

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_ROW_ARGS_H_
