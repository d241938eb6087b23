// Merges results in attention of generated tokens (attention_decode.cu): each
// block merges the results of its warps, and the last block of a task merges
// the results of all spans.
//
// A thread has four columns of a query at a time. A warp has 128 columns, which
// it can pack.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_RESULTS_CUH_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_RESULTS_CUH_

#include "kernels/cuda/attention/attention_decode_steps.cuh"
#include "kernels/cuda/attention/attention_spans.cuh"
#include "kernels/cuda/pack.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// The places for results. `packed` is null if nothing is packed.
struct DecodeOutput {
  Partials partials;
  int32_t* counts;  // [tasks], zeros: ended spans of each task
  std::byte* packed;
};

// The results of a warp, in shared memory.
template <class S>
struct WarpResults {
  float max[S::kQueries];
  float total[S::kQueries];
  float sums[S::kQueries][S::kHead + 4];
};

// Stores `n` floats, which are two or four, side by side.
template <int n>
__device__ void StoreFloats(const float* x, float* to) {
  if constexpr (n == 4) {
    *reinterpret_cast<float4*>(to) = {x[0], x[1], x[2], x[3]};
  } else {
    *reinterpret_cast<float2*>(to) = {x[0], x[1]};
  }
}

// Stores the warp's results. The sums of the low halves of weights are added to
// those of the high halves.
template <class S>
__device__ void StoreResults(Softmax state, const float* sums,
                             WarpResults<S>* results) {
  static_assert(sizeof(WarpResults<S>) <= S::kWarpBytes);
  constexpr int kHalf = S::kSums / 2;
  // The number of adjacent elements.
  constexpr int kSide = S::kIsQuantized ? 2 : 4;
  const int lane = LaneIndex();
  for (int mask = 1; mask < 4; mask *= 2) {
    state.total += __shfl_xor_sync(kFullWarp, state.total, mask);
  }
  if (lane % 4 == 0 && lane / 4 < S::kQueries) {
    results->max[lane / 4] = state.max;
    results->total[lane / 4] = state.total;
  }
  if constexpr (S::kQueries == 4) {
    // Two lanes have the halves of the same two queries. Each gets one query.
    const bool is_second = lane % 4 >= 2;
    const int query = lane % 2 * 2 + (is_second ? 1 : 0);
#pragma unroll
    for (int k = 0; k < kHalf; k += kSide) {
      float own[kSide];
#pragma unroll
      for (int j = 0; j < kSide; ++j) {
        const float* both = sums + 2 * (k + j);
        own[j] = is_second ? both[1] : both[0];
        own[j] += __shfl_xor_sync(kFullWarp, is_second ? both[0] : both[1], 2);
      }
      StoreFloats<kSide>(own, results->sums[query] + ValueElement<S>(k / 2, 0));
    }
  } else {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
#pragma unroll
      for (int k = 0; k < kHalf; k += kSide) {
        float own[kSide];
#pragma unroll
        for (int j = 0; j < kSide; ++j) own[j] = sums[2 * (k + j) + e];
        StoreFloats<kSide>(
            own, results->sums[lane % 4 * 2 + e] + ValueElement<S>(k / 2, 0));
      }
    }
  }
}

// A thread's columns [at, at + 4) of a query of the task.
template <class S>
struct Columns {
  static constexpr int kAll = S::kQueries * S::kHead / 4;

  int query;
  int at;
  bool is_live;  // the query exists

  __device__ Columns(const Task& task, int index)
      : query(index / (S::kHead / 4)),
        at(index % (S::kHead / 4) * 4),
        is_live(index < kAll && task.Has(query)) {}
};

// Merges the results of the block's warps for these columns.
template <class S>
__device__ Softmax MergeWarps(const std::byte* warps, const Columns<S>& columns,
                              float (&sum)[4]) {
  const WarpResults<S>* all[kWarps];
  Softmax state = {MinusInfinity(), 0};
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    all[w] = reinterpret_cast<const WarpResults<S>*>(warps + w * S::kWarpBytes);
    state.max = fmaxf(state.max, all[w]->max[columns.query]);
  }
  const float from = state.max == MinusInfinity() ? 0.0f : state.max;
  for (float& one : sum) one = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const float factor = Exponential(all[w]->max[columns.query] - from);
    float x[4];
    LoadFour(all[w]->sums[columns.query] + columns.at, x);
    for (int i = 0; i < 4; ++i) sum[i] = Fma(factor, x[i], sum[i]);
    state.total = Fma(factor, all[w]->total[columns.query], state.total);
  }
  if constexpr (S::kIsQuantized) {
    for (float& one : sum) one *= 1.0f / kWeightScale;
  }
  return state;
}

// Merges the warps' results and writes them to the partial results.
template <class S>
__device__ void WriteSpan(const AttentionShape& shape, const Task& task,
                          const SpanPartials& span, const std::byte* warps) {
#pragma unroll 1
  for (int i = ThreadIndex(); i < Columns<S>::kAll; i += kThreads) {
    const Columns<S> columns(task, i);
    if (!columns.is_live) continue;
    float sum[4];
    const Softmax state = MergeWarps<S>(warps, columns, sum);
    float* to = span.At(task.Index(columns.query, shape.n_heads));
    StoreFour(sum, to + columns.at);
    if (columns.at == 0) {
      *reinterpret_cast<float2*>(to + S::kHead) = {state.max, state.total};
    }
  }
}

// The weights of a task's spans, in shared memory.
template <class S>
struct SpanWeights {
  // The factor of the sums, with the sink: 0 if the row sees no key.
  float inverse[S::kQueries];
  // A span's maximum and its sum of weights. The span's weight later replaces
  // the maximum.
  float2 spans[S::kQueries][kMaxTileSpans];
};

// Computes the weights of the spans of the warp's queries. Each lane adds up a
// part of the total. Lane i % 32 has span i of all spans that a row may have.
template <class S>
__device__ void WeighSpans(const AttentionShape& shape, const Task& task,
                           int64_t first_query, const Partials& partials,
                           SpanWeights<S>* weights) {
  constexpr int64_t kStride = S::kHead + kStateFloats;
  const auto n_spans = static_cast<int>(task.tile.n_spans);
  const int first = (LaneIndex() - static_cast<int>(task.tile.first_span)) &
                    (kWarpThreads - 1);
#pragma unroll 1
  for (int query = WarpIndex(); query < S::kQueries; query += kWarps) {
    if (!task.Has(query)) continue;
    const float* from =
        partials.At(task.Index(query, shape.n_heads) - first_query, 0) +
        S::kHead;
    float2* spans = weights->spans[query];
    Softmax all = {MinusInfinity(), 0};
#pragma unroll 1
    for (int i = first; i < n_spans; i += kWarpThreads) {
      const auto* one = reinterpret_cast<const float2*>(from + i * kStride);
      spans[i] = LoadWritten(one);
      all.max = fmaxf(all.max, spans[i].x);
    }
    all.max = WarpMax(all.max);
    const float base = all.max == MinusInfinity() ? 0.0f : all.max;
#pragma unroll 1
    for (int i = first; i < n_spans; i += kWarpThreads) {
      const float weight = Exponential(spans[i].x - base);
      all.total = Fma(weight, spans[i].y, all.total);
      spans[i].x = weight;
    }
    all.total = WarpSum(all.total);
    if (LaneIndex() == 0) {
      const float total = TotalWithSink(shape, task.Head(query), all);
      weights->inverse[query] = Quotient(1.0f, total);
    }
  }
}

// Merges the spans of the task's queries, in order, and packs the results.
// `shared` is no longer in use by any thread of the block.
template <class S>
__device__ void MergeSpans(const AttentionShape& shape, const Task& task,
                           int64_t first_query, const DecodeOutput& output,
                           std::byte* shared) {
  // A thread reads this many spans before it uses the first.
  constexpr int kLoads = S::kHead == 256 ? 16 : 8;
  auto* weights = reinterpret_cast<SpanWeights<S>*>(shared);
  const auto n_spans = static_cast<int>(task.tile.n_spans);
  constexpr int64_t kStride = S::kHead + kStateFloats;
  const int64_t dim = shape.n_heads * S::kHead;
  bool has_weights = false;
  // Every thread does at least one round, in which the weights are computed
  // while its first loads run.
#pragma unroll 1
  for (int i = ThreadIndex(); i < Columns<S>::kAll || !has_weights;
       i += kThreads) {
    const Columns<S> columns(task, i);
    const int64_t query = task.Index(columns.query, shape.n_heads);
    const float* from = output.partials.At(query - first_query, 0) + columns.at;
    float sum[4] = {};
#pragma unroll 1
    for (int begin = 0; begin < n_spans; begin += kLoads) {
      float4 loaded[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        if (columns.is_live && begin + j < n_spans) {
          loaded[j] = LoadWritten(reinterpret_cast<const float4*>(
              from + begin * kStride + j * kStride));
        } else {
          loaded[j] = {0, 0, 0, 0};
        }
      }
      if (!has_weights) {
        WeighSpans<S>(shape, task, first_query, output.partials, weights);
        __syncthreads();
        has_weights = true;
      }
      if (!columns.is_live) break;
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        if (begin + j >= n_spans) break;
        const float weight = weights->spans[columns.query][begin + j].x;
        sum[0] = Fma(weight, loaded[j].x, sum[0]);
        sum[1] = Fma(weight, loaded[j].y, sum[1]);
        sum[2] = Fma(weight, loaded[j].z, sum[2]);
        sum[3] = Fma(weight, loaded[j].w, sum[3]);
      }
    }
    if (columns.is_live) {
      for (float& one : sum) one *= weights->inverse[columns.query];
      StoreFour(sum, shape.out + query * S::kHead + columns.at);
    }
    if (output.packed == nullptr) continue;
    const int64_t row = task.tile.first_row + task.Row(columns.query);
    PackFour(sum, columns.is_live, dim,
             task.Head(columns.query) * S::kHead + columns.at,
             output.packed + row * PackedRowBytes(dim));
  }
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_RESULTS_CUH_
