// Reference: each head's state, which every row changes and then reads.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/recurrent.h"
#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {
namespace {

double Softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

// A key or query as the state meets it.
std::vector<double> Normed(const StateScanArgs& args, const float* x) {
  std::vector<double> normed(x, x + args.key_dim);
  if (args.beta == nullptr) return normed;
  double sum = args.norm_eps;
  for (const double value : normed) sum += value * value;
  for (double& value : normed) value /= std::sqrt(sum);
  return normed;
}

// Where element (i, c) of S is.
size_t At(const StateScanArgs& args, int64_t i, int64_t c) {
  const int64_t tile = c / kStateColumns;
  return static_cast<size_t>(args.TileAt(/*head=*/0, tile) +
                             i * args.TileColumns(tile) + c % kStateColumns);
}

// S^T x, for column c of S.
double Read(const StateScanArgs& args, const std::vector<double>& s,
            const std::vector<double>& x, int64_t c) {
  double sum = 0;
  for (int64_t i = 0; i < args.key_dim; ++i) {
    sum += s[At(args, i, c)] * x[static_cast<size_t>(i)];
  }
  return sum;
}

// Lets row r change the head's state and read it. Between rows a state is
// float32, whether or not it is kept.
void ScanRow(const StateScanArgs& args, int64_t head, int64_t r, float* state) {
  const std::vector<double> k = Normed(args, args.k + args.KeyAt(r, head));
  const std::vector<double> q = Normed(args, args.q + args.KeyAt(r, head));
  const double t =
      Softplus(double{args.dt[args.GateAt(r, head)]} + args.dt_bias[head]);
  const double decay = std::exp(args.rate[head] * t);
  std::vector<double> s(state, state + args.HeadStateFloats());
  for (double& value : s) value *= decay;
  for (int64_t c = 0; c < args.value_dim; ++c) {
    const double v = args.v[args.ValueAt(r, head) + c];
    double added = t * v;
    if (args.beta != nullptr) {
      const double beta = args.beta[args.GateAt(r, head)];
      added = (v - Read(args, s, k, c)) / (1.0 + std::exp(-beta));
    }
    for (int64_t i = 0; i < args.key_dim; ++i) {
      s[At(args, i, c)] += k[static_cast<size_t>(i)] * added;
    }
    const double skip = args.skip == nullptr ? 0.0 : args.skip[head];
    args.out[(r * args.n_heads + head) * args.value_dim + c] =
        static_cast<float>(args.q_scale * Read(args, s, q, c) + skip * v);
  }
  std::ranges::transform(
      s, state, [](double value) { return static_cast<float>(value); });
}

void ScanHead(const StateScanArgs& args, const StateSegment& segment,
              int64_t head) {
  const StepStates& states = args.states;
  const int64_t at = head * args.HeadStateFloats();
  std::vector<float> state(static_cast<size_t>(args.HeadStateFloats()));
  if (segment.source != kNoState) {
    std::copy_n(states.data + segment.source * states.stride + at, state.size(),
                state.begin());
  }
  for (int64_t i = 0; i < segment.n_rows; ++i) {
    const int64_t r = segment.first_row + i;
    ScanRow(args, head, r, state.data());
    const int32_t to = states.destinations[r];
    if (to == kNoState) continue;
    std::ranges::copy(state, states.data + to * states.stride + at);
  }
}

}  // namespace

void StateScan(const StateScanArgs& args) {
  for (int64_t s = 0; s < args.states.n_segments; ++s) {
    for (int64_t head = 0; head < args.n_heads; ++head) {
      ScanHead(args, args.states.segments[s], head);
    }
  }
}

}  // namespace plimsoll::kernels::reference
