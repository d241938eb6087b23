// The k largest logits and sums of exponentials, in one pass.
//
// A row is cut into fixed chunks, whatever the thread count. Each thread keeps
// the k largest of the chunks it took; since (value, id) is a total order, the
// merged list does not depend on who took which.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/top_k.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/ops.h"

// Shared by all instruction paths.
#ifndef PLIMSOLL_KERNELS_CPU_TOP_K_ONCE_
#define PLIMSOLL_KERNELS_CPU_TOP_K_ONCE_
namespace plimsoll::kernels::cpu {

// A chunk of a row: `n` values at `x`, the first of which has id `first_id`.
struct LogitChunk {
  const float* x;
  int64_t n;
  int64_t first_id;
};

// Sums over a chunk: of exp(x - max), and of exp((x - max) * inverse).
struct ChunkSum {
  double sum;
  double mass;
  float max;
  bool is_finite;
};

}  // namespace plimsoll::kernels::cpu
#endif  // PLIMSOLL_KERNELS_CPU_TOP_K_ONCE_

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using D = hn::CappedTag<float, 16>;

void Collect(const LogitChunk& chunk, int64_t k, TopList& list) {
  const D d;
  const float* const x = chunk.x;
  const int64_t n = chunk.n;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  while (i < n) {
    if (list.n == k) {
      const auto least = hn::Set(d, list.values[k - 1]);
      while (i + lanes <= n &&
             hn::AllFalse(d, hn::Ge(hn::LoadU(d, x + i), least))) {
        i += lanes;
      }
    }
    const int64_t stop = std::min(i + lanes, n);
    for (; i < stop; ++i) {
      const auto id = static_cast<int32_t>(chunk.first_id + i);
      if (list.Takes(x[i], id, k)) list.Insert(x[i], id, k);
    }
  }
}

// Sum of exp((x - max) * scale) over x[0, n), whole vectors, and the vector
// `tail`.
double SumOfExp(const float* x, int64_t n, const float* tail, float max,
                float scale) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto shift = hn::Set(d, max);
  const auto factor = hn::Set(d, scale);
  const auto weights = [&](const float* at) HWY_ATTR {
    return hn::Exp(d, hn::Mul(hn::Sub(hn::LoadU(d, at), shift), factor));
  };
  double sum = hn::GetLane(hn::SumOfLanes(d, weights(tail)));
  // Lanes add up at most 16 terms in float32 before they join the double.
  for (int64_t i = 0; i < n; i += 16 * lanes) {
    auto part = hn::Zero(d);
    for (int64_t j = i; j < std::min(i + 16 * lanes, n); j += lanes) {
      part = hn::Add(part, weights(x + j));
    }
    sum += hn::GetLane(hn::SumOfLanes(d, part));
  }
  return sum;
}

}  // namespace

// Adds the values of a chunk to `list` and sums them.
ChunkSum TopKChunk(const LogitChunk& chunk, int64_t k, float inverse,
                   TopList& list) {
  const D d;
  const float* const x = chunk.x;
  const int64_t n = chunk.n;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // Short pieces are padded with -inf, whose exponential is zero.
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float tail[16];
  std::fill_n(tail, 16, -kInfinity);
  const int64_t n_full = n / lanes * lanes;
  std::copy(x + n_full, x + n, tail);
  auto v_max = hn::LoadU(d, tail);
  const auto infinity = hn::Set(d, kInfinity);
  bool is_finite = true;
  for (int64_t i = n_full; i < n; ++i) is_finite &= std::isfinite(x[i]);
  for (int64_t i = 0; i < n_full; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    v_max = hn::Max(v_max, v);
    is_finite &= hn::AllTrue(d, hn::Lt(hn::Abs(v), infinity));
  }
  Collect(chunk, k, list);
  if (!is_finite) return {0.0, 0.0, 0.0f, /*is_finite=*/false};
  const float max = hn::GetLane(hn::MaxOfLanes(d, v_max));
  const double sum = SumOfExp(x, n_full, tail, max, 1.0f);
  const double mass =
      inverse == 1.0f ? sum : SumOfExp(x, n_full, tail, max, inverse);
  return {sum, mass, max, /*is_finite=*/true};
}

void MergeTopK(const TopList& from, int64_t k, TopList& to) {
  for (int64_t i = 0; i < from.n; ++i) {
    if (to.Takes(from.values[i], from.ids[i], k)) {
      to.Insert(from.values[i], from.ids[i], k);
    }
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(TopKChunk);
HWY_EXPORT(MergeTopK);

namespace {

constexpr int64_t kMaxChunks = 64;
constexpr int64_t kMinChunk = 4096;

// The sums of a whole row: log(sum(exp(x))) and sum(exp((x - max) * inverse)).
struct RowSum {
  double log_sum_exp;
  double mass;
};

RowSum AddUp(const ChunkSum* chunks, int64_t n, float inverse) {
  float max = chunks[0].max;
  for (int64_t i = 0; i < n; ++i) {
    if (!chunks[i].is_finite) {
      constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
      return {kNan, kNan};
    }
    max = std::max(max, chunks[i].max);
  }
  double sum = 0;
  double mass = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double below = static_cast<double>(chunks[i].max) - max;
    sum += chunks[i].sum * std::exp(below);
    mass += chunks[i].mass * std::exp(below * inverse);
  }
  return {max + std::log(sum), mass};
}

}  // namespace

void TopK(const TopKArgs& args, ThreadPool& pool, TopList* scratch) {
  const int64_t chunk =
      std::max(kMinChunk, (args.n + kMaxChunks - 1) / kMaxChunks);
  const int64_t n_chunks = (args.n + chunk - 1) / chunk;
  for (int64_t r = 0; r < args.n_rows; ++r) {
    const float* logits = args.logits + r * args.n;
    const float inverse =
        args.masses != nullptr ? args.inverse_temperatures[r] : 1.0f;
    ChunkSum sums[kMaxChunks];
    for (int t = 0; t < pool.n_threads(); ++t) scratch[t].n = 0;
    pool.ParallelFor(n_chunks, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t c = begin; c < end; ++c) {
        sums[c] = HWY_DYNAMIC_DISPATCH(TopKChunk)(
            {.x = logits + c * chunk,
             .n = std::min(chunk, args.n - c * chunk),
             .first_id = c * chunk},
            args.k, inverse, scratch[thread]);
      }
    });
    for (int t = 1; t < pool.n_threads(); ++t) {
      HWY_DYNAMIC_DISPATCH(MergeTopK)(scratch[t], args.k, scratch[0]);
    }
    // The list is short only if there are NaNs.
    for (int64_t i = scratch[0].n; i < args.k; ++i) {
      scratch[0].values[i] = -std::numeric_limits<float>::infinity();
      scratch[0].ids[i] = 0;
    }
    std::copy_n(scratch[0].values, args.k, args.values + r * args.k);
    std::copy_n(scratch[0].ids, args.k, args.ids + r * args.k);
    const RowSum sum = AddUp(sums, n_chunks, inverse);
    args.log_sum_exp[r] = sum.log_sum_exp;
    if (args.masses != nullptr) args.masses[r] = sum.mass;
  }
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
