// Causal attention in tasks of a warp (attention_warp.cuh). A task has a few
// queries and either one span of what they see or all of it. Prompts are in
// attention_prompt.cu, and most generated tokens in attention_decode.cu.
//
// Where there are few queries, spans go to different warps and a second kernel
// merges their results, with the same operations in the same order as a warp
// that does all of them: the same bits.
#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/attention/attention_decode.cuh"
#include "kernels/cuda/attention/attention_prompt.cuh"
#include "kernels/cuda/attention/attention_spans.cuh"
#include "kernels/cuda/attention/attention_warp.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = kAttentionWarps * kWarpThreads;
constexpr int kMaxMergeThreads = 256;
// A thread reads this many spans before it merges them.
constexpr int kSpanLoads = 8;
// With fewer warps than this for each multiprocessor, spans go to different
// warps.
constexpr int64_t kEnoughWarps = 16;

// Computes one softmax over the units [begin, end). The sums of values come
// behind the scores.
template <class S>
__device__ Softmax AttendSpan(const AttentionShape& shape, const Task& task,
                              int64_t begin, int64_t end, float* scores) {
  float* const span_sums = scores + S::kScoreFloats;
  Softmax span;
  Clear<S>(span, span_sums);
  for (int64_t u = begin; u < end; ++u) {
    const Unit<S> unit(shape, task, u);
    WithKvType(shape.k_type, [&](auto type) {
      ScoreUnit<S, decltype(type)::value>(shape, task, unit, scores);
    });
    const Softmax softmax = WeighUnit<S>(unit.n_steps, scores);
    __syncwarp();
    float sums[S::kSums];
    WithKvType(shape.v_type, [&](auto type) {
      SumUnit<S, decltype(type)::value>(shape, task, unit, scores, sums);
    });
    __syncwarp();
    MergeSums<S>(
        softmax, span, [&](int i) { return sums[i]; }, span_sums);
  }
  return span;
}

// Writes the results of a span, which MergeSpans reads.
template <class S>
__device__ __forceinline__ void WritePartial(const AttentionShape& shape,
                                             const Task& task,
                                             const SpanPartials& to,
                                             const Softmax& result,
                                             const float* sums) {
  WriteSums<S>(shape, task, sums, [&](int query, int64_t at, float value) {
    to.At(task.Index(query, shape.n_heads))[2 + at] = value;
  });
  const int lane = LaneIndex();
  if (lane < S::kQueries && task.Has(lane)) {
    float* own = to.At(task.Index(lane, shape.n_heads));
    own[0] = result.max;
    own[1] = result.total;
  }
}

// Divides the sums of all spans by the sums of weights, and writes the outputs.
template <class S>
__device__ __forceinline__ void WriteQuotients(const AttentionShape& shape,
                                               const Task& task, Softmax& all,
                                               const float* sums) {
  const int own = LaneIndex() % S::kQueries;
  if (task.Has(own)) {
    all.total = TotalWithSink(shape, task.Head(own), all);
  }
  float totals[S::kQueries];
#pragma unroll
  for (int i = 0; i < S::kQueries; ++i) {
    totals[i] = __shfl_sync(kFullWarp, all.total, i);
  }
  WriteSums<S>(shape, task, sums, [&](int query, int64_t at, float value) {
    shape.out[task.Index(query, shape.n_heads) * shape.value_dim + at] =
        Quotient(value, totals[query]);
  });
}

// Warp i of the grid's first dimension has task i: tiles, then tiles of a head
// group, then KV heads. With `partials`, blocks of the second dimension have
// one span each; without, a warp does all spans.
template <class S>
__global__ void __launch_bounds__(kThreads, S::kChunks == 1 ? 3 : 2)
    Attend(AttentionShape shape, const AttentionTile* tiles, int64_t n_tiles,
           Partials partials) {
  WaitForKernelsBefore();
  const int64_t index = int64_t{blockIdx.x} * kAttentionWarps + WarpIndex();
  if (index >= n_tiles * shape.n_head_tiles * shape.n_kv_heads) return;
  float* scores =
      reinterpret_cast<float*>(DynamicShared()) + WarpIndex() * S::kWarpFloats;
  float* span_sums = scores + S::kScoreFloats;
  float* all_sums = span_sums + S::kSumFloats;
  const auto group = static_cast<int>(shape.n_heads / shape.n_kv_heads);
  const auto head_tile = static_cast<int>(index / n_tiles % shape.n_head_tiles);
  const auto kv_head = static_cast<int>(index / n_tiles / shape.n_head_tiles);
  const AttentionTile& tile = tiles[index % n_tiles];
  const Task task = TaskOf(shape, tile, group, kv_head, head_tile);
  const auto attend = [&](int64_t span) {
    const int64_t begin = (tile.FirstSpan() + span) * tile.span_units;
    const int64_t end = begin + tile.span_units;
    return AttendSpan<S>(shape, task,
                         begin > tile.first_unit ? begin : tile.first_unit,
                         end < tile.end_unit ? end : tile.end_unit, scores);
  };
  if (partials.data != nullptr) {
    const int64_t span = blockIdx.y;
    if (span >= tile.Spans()) return;
    const Softmax result = attend(span);
    const int64_t first_query = tiles[0].first_row * shape.n_heads;
    WritePartial<S>(shape, task, {partials, first_query, span}, result,
                    span_sums);
    return;
  }
  Softmax all;
  Clear<S>(all, all_sums);
  const int lane = LaneIndex();
  for (int64_t span = 0; span < tile.Spans(); ++span) {
    const Softmax result = attend(span);
    MergeSums<S>(
        result, all, [&](int i) { return span_sums[i * kWarpThreads + lane]; },
        all_sums);
  }
  WriteQuotients<S>(shape, task, all, all_sums);
}

// Element `at` of a query's result, merged from its spans.
__device__ inline float MergedValue(const AttentionShape& shape,
                                    const Partials& partials, int64_t query,
                                    int64_t n_spans, int64_t at) {
  Softmax state = {MinusInfinity(), 0};
  float sum = 0;
  for (int64_t begin = 0; begin < n_spans; begin += kSpanLoads) {
    // The loop loads all of them before it merges the first.
    Softmax spans[kSpanLoads];
    float sums[kSpanLoads];
#pragma unroll
    for (int i = 0; i < kSpanLoads; ++i) {
      const int64_t span = begin + i < n_spans ? begin + i : n_spans - 1;
      const float* from = partials.At(query, span);
      spans[i] = {from[0], from[1]};
      sums[i] = from[2 + at];
    }
#pragma unroll
    for (int i = 0; i < kSpanLoads; ++i) {
      if (begin + i >= n_spans) spans[i] = {MinusInfinity(), 0};
      const Factors factors = Merge(spans[i], state);
      sum = MergedSum(sums[i], sum, factors);
    }
  }
  return Quotient(sum, TotalWithSink(shape, blockIdx.z, state));
}

// Block (t, r, h) merges the spans of head h of row r of tile t, unless a warp
// has done that. It also packs the result if `packed` is not null: `packed` is
// for the step's rows, and value_dim is whole blocks.
__global__ void __launch_bounds__(kMaxMergeThreads)
    MergeSpans(AttentionShape shape, const AttentionTile* tiles,
               Partials partials, std::byte* packed) {
  WaitForKernelsBefore();
  const AttentionTile& tile = tiles[blockIdx.x];
  if (blockIdx.y >= tile.n_rows) return;
  const int64_t row = tile.first_row + blockIdx.y;
  const int64_t query = (row - tiles[0].first_row) * shape.n_heads + blockIdx.z;
  const int64_t n_spans = tile.Spans();
  for (int64_t at = ThreadIndex(); at < shape.value_dim; at += BlockThreads()) {
    const int64_t column = blockIdx.z * shape.value_dim + at;
    const int64_t dim = shape.n_heads * shape.value_dim;
    float& out = shape.out[row * dim + column];
    if (partials.data != nullptr) {
      out = MergedValue(shape, partials, query, n_spans, at);
    }
    if (packed != nullptr) {
      PackBlock(out, dim, column / kActivationBlock,
                packed + row * PackedRowBytes(dim));
    }
  }
}

// Returns the shape for tasks of up to `n_queries` queries.
AttentionShape ShapeOf(const AttentionArgs& args, int64_t n_queries) {
  const int64_t group = args.n_heads / args.n_kv_heads;
  AttentionShape shape = {};
  shape.q = args.q;
  shape.q_prefix = args.q_prefix;
  shape.out = args.out;
  shape.n_heads = args.n_heads;
  shape.n_kv_heads = args.n_kv_heads;
  shape.head_dim = args.head_dim;
  shape.value_dim = args.ValueDim();
  shape.tile_heads = std::min(group, n_queries);
  shape.n_head_tiles = (group + shape.tile_heads - 1) / shape.tile_heads;
  shape.scale = args.scale;
  shape.soft_cap = args.soft_cap;
  if (args.soft_cap > 0) {
    shape.inverse_soft_cap =
        std::min(1.0f / args.soft_cap, std::numeric_limits<float>::max());
  }
  shape.k_type = args.k_type;
  shape.v_type = args.v_type;
  shape.is_ring = args.is_ring;
  shape.paged = args.paged;
  shape.k_row_bytes = KvBytes(args.k_type, args.n_kv_heads * args.head_dim);
  shape.v_row_bytes = KvBytes(args.v_type, args.n_kv_heads * args.head_dim);
  shape.chunk_k = args.chunk_k;
  shape.chunk_v = args.chunk_v;
  shape.sinks = args.sinks;
  return shape;
}

template <class S>
void LaunchAttend(const Context& context, const AttentionShape& shape,
                  const Tiles& tiles, Partials partials) {
  const auto n_tiles = static_cast<int64_t>(tiles.host.size());
  const int64_t n_warps = n_tiles * shape.n_head_tiles * shape.n_kv_heads;
  Launch(Attend<S>,
         {(n_warps + kAttentionWarps - 1) / kAttentionWarps,
          partials.data == nullptr ? 1 : partials.n_spans},
         kThreads, S::kSharedBytes, context.queue, shape, tiles.device, n_tiles,
         partials);
}

void AttendTiles(const Context& context, const AttentionShape& shape,
                 const Tiles& tiles, const Partials& partials) {
  if (shape.head_dim <= 32) {
    LaunchAttend<Shape<4, 1>>(context, shape, tiles, partials);
  } else if (shape.head_dim <= 64) {
    LaunchAttend<Shape<8, 1>>(context, shape, tiles, partials);
  } else if (shape.head_dim <= 128) {
    LaunchAttend<Shape<16, 1>>(context, shape, tiles, partials);
  } else if (shape.head_dim <= kNarrowHeadDim) {
    LaunchAttend<Shape<32, 1>>(context, shape, tiles, partials);
  } else if (shape.head_dim <= kMaxHeadDim) {
    LaunchAttend<Shape<32, 2>>(context, shape, tiles, partials);
  } else {
    LaunchAttend<Shape<32, 3, 2>>(context, shape, tiles, partials);
  }
}

void LaunchMerge(const Context& context, const AttentionShape& shape,
                 const Tiles& tiles, const Partials& partials,
                 std::byte* packed) {
  const int64_t tile_rows = QueriesOf(shape.head_dim) / shape.tile_heads;
  const int64_t head_warps =
      (shape.value_dim + kWarpThreads - 1) / kWarpThreads;
  const auto n_threads = static_cast<int>(
      std::min<int64_t>(head_warps * kWarpThreads, kMaxMergeThreads));
  Launch(MergeSpans,
         {static_cast<int64_t>(tiles.host.size()), tile_rows, shape.n_heads},
         n_threads, 0, context.queue, shape, tiles.device, partials, packed);
}

absl::Status AttendInSpans(const Context& context, const AttentionShape& shape,
                           Tiles tiles, std::byte* packed) {
  const auto n_tiles = static_cast<int64_t>(tiles.host.size());
  return AttendInBatches(context, shape, tiles,
                         {.stride = 2 + shape.value_dim, .max_tiles = n_tiles},
                         [&](const Tiles& some, const Partials& partials) {
                           AttendTiles(context, shape, some, partials);
                           LaunchMerge(context, shape, some, partials, packed);
                         });
}

// Kernels load 16 bytes at a time.
absl::Status CheckAlignment(const AttentionArgs& args) {
  uintptr_t bits = reinterpret_cast<uintptr_t>(args.q) |
                   reinterpret_cast<uintptr_t>(args.q_prefix) |
                   reinterpret_cast<uintptr_t>(args.out);
  const auto add = [&](DType type, const std::byte* at) {
    if (IsFloatType(type)) bits |= reinterpret_cast<uintptr_t>(at);
  };
  if (args.is_ring) {
    add(args.k_type, args.chunk_k);
    add(args.v_type, args.chunk_v);
    for (const AttentionSegment& segment : args.segments) {
      add(args.k_type, segment.ring.k);
      add(args.v_type, segment.ring.v);
    }
  } else {
    for (const int64_t page : {int64_t{0}, args.paged.page_bytes}) {
      add(args.k_type, args.paged.pool + args.paged.k_offset + page);
      add(args.v_type, args.paged.pool + args.paged.v_offset + page);
    }
  }
  if (bits % sizeof(float4) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "queries, keys, values or results do not begin at multiples of 16 bytes");
}

absl::Status CheckLimits(const AttentionArgs& args) {
  constexpr int64_t kMaxWindow = int64_t{1} << 30;
  RETURN_IF_ERROR(CheckAlignment(args));
  if (!args.is_ring && args.paged.page_tokens <= 0) {
    return absl::InvalidArgumentError("pages of no tokens");
  }
  for (const AttentionSegment& segment : args.segments) {
    const int64_t window = segment.ring.window;
    if (args.is_ring && (window <= 0 || window > kMaxWindow)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a window of ", window, " tokens"));
    }
  }
  return absl::OkStatus();
}

// Copies each segment's page table to the device and returns where it lies.
absl::StatusOr<std::vector<const PageEntry*>> PutTables(
    const Context& context, const AttentionArgs& args) {
  LaunchQueue& queue = *context.queue;
  std::vector<const PageEntry*> tables(args.segments.size());
  if (args.is_ring) return tables;
  int64_t longest = 0;
  for (const AttentionSegment& segment : args.segments) {
    longest = std::max(longest, static_cast<int64_t>(segment.pages.size()));
  }
  // All layers of a step share one copy of each table.
  if (queue.is_held() &&
      queue.HasRoom(static_cast<int64_t>(tables.size()),
                    longest * static_cast<int64_t>(sizeof(PageEntry)))) {
    for (size_t i = 0; i < tables.size(); ++i) {
      ASSIGN_OR_RETURN(const std::byte* table,
                       queue.PutOnce(std::as_bytes(args.segments[i].pages)));
      tables[i] = reinterpret_cast<const PageEntry*>(table);
    }
    return tables;
  }
  RETURN_IF_ERROR(queue.StartEach());
  // All tables go in one copy, so that what an operation stages stays within
  // the parts that Staging keeps.
  std::vector<PageEntry> pages;
  for (const AttentionSegment& segment : args.segments) {
    pages.insert(pages.end(), segment.pages.begin(), segment.pages.end());
  }
  ASSIGN_OR_RETURN(const PageEntry* table,
                   queue.PutSpan(std::span<const PageEntry>(pages)));
  for (size_t i = 0; i < tables.size(); ++i) {
    tables[i] = table;
    table += args.segments[i].pages.size();
  }
  return tables;
}

// True if the tensor cores attend for a segment. They do not if keys or values
// are F32, because that choice asks for float32 arithmetic, or if they are
// stored as nibbles.
bool UsesTensorCores(const Context& context, const AttentionArgs& args,
                     const AttentionSegment& segment) {
  if (!HasPromptType(args.k_type) || !HasPromptType(args.v_type)) return false;
  using Choice = CudaOptions::TensorAttention;
  return context.tensor_attention == Choice::kAll ||
         (context.tensor_attention == Choice::kPrompts && segment.is_prompt);
}

// True if rows that decode have the kernel of attention_decode.cu. It does not
// depend on the rows of the step.
bool DecodesOnTensorCores(const Context& context, const AttentionArgs& args) {
  return context.tensor_attention != CudaOptions::TensorAttention::kNone &&
         CanAttendDecoding(args);
}

// Attends for rows that decode. Returns whether it stored them in `packed`.
// Within a step the kernels are the same for any contexts.
absl::StatusOr<bool> AttendFew(const Context& context,
                               const AttentionShape& shape,
                               std::span<const AttentionTile> host,
                               std::byte* packed) {
  ASSIGN_OR_RETURN(const AttentionTile* device, context.queue->PutSpan(host));
  const Tiles tiles = {host, device};
  if (shape.value_dim % kActivationBlock != 0) packed = nullptr;
  int64_t max_spans = 0;
  for (const AttentionTile& tile : host) {
    max_spans = std::max(max_spans, tile.Spans());
  }
  const auto n_warps =
      static_cast<int64_t>(host.size()) * shape.n_head_tiles * shape.n_kv_heads;
  if (max_spans > 1 && n_warps < kEnoughWarps * context.n_multiprocessors) {
    RETURN_IF_ERROR(AttendInSpans(context, shape, tiles, packed));
    return packed != nullptr;
  }
  AttendTiles(context, shape, tiles, {});
  if (packed != nullptr || context.queue->is_held()) {
    LaunchMerge(context, shape, tiles, {}, packed);
  }
  return packed != nullptr;
}

}  // namespace

absl::Status Attention(const Context& context, const AttentionArgs& args) {
  if (args.segments.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckLimits(args));
  const AttentionShape shape = ShapeOf(args, QueriesOf(args.head_dim));
  const int64_t prompt_queries = PromptQueriesOf(context, args.head_dim);
  const AttentionShape prompt_shape = ShapeOf(args, prompt_queries);
  const AttentionShape decode_shape =
      ShapeOf(args, DecodeQueries(args.n_heads / args.n_kv_heads));
  const bool decodes = DecodesOnTensorCores(context, args);
  ASSIGN_OR_RETURN(const std::vector<const PageEntry*> tables,
                   PutTables(context, args));
  std::vector<AttentionTile> tiles;
  std::vector<AttentionTile> prompt_tiles;
  for (size_t i = 0; i < tables.size(); ++i) {
    SegmentCut cut = {.segment = args.segments[i], .pages = tables[i]};
    if (UsesTensorCores(context, args, cut.segment)) {
      cut.tile_rows = prompt_queries / prompt_shape.tile_heads;
      AppendPromptTiles(args, cut, prompt_tiles);
    } else if (decodes) {
      cut.tile_rows = DecodeQueries(args.n_heads / args.n_kv_heads) /
                      decode_shape.tile_heads;
      AppendDecodeTiles(args, cut, context.decode_spans, tiles);
    } else {
      cut.tile_rows = QueriesOf(args.head_dim) / shape.tile_heads;
      AppendTiles(args, cut, tiles);
    }
  }
  if (!prompt_tiles.empty()) {
    const std::span<const AttentionTile> host = prompt_tiles;
    ASSIGN_OR_RETURN(const AttentionTile* device, context.queue->PutSpan(host));
    AttendPrompts(context, prompt_shape, host, device);
  }
  bool is_packed = args.packed == nullptr;
  if (!tiles.empty()) {
    // With prompts in the step, all rows are packed together afterwards.
    std::byte* packed = prompt_tiles.empty() ? args.packed : nullptr;
    bool has_packed = packed != nullptr;
    if (decodes) {
      ASSIGN_OR_RETURN(
          const AttentionTile* device,
          context.queue->PutSpan(std::span<const AttentionTile>(tiles)));
      RETURN_IF_ERROR(
          AttendDecoding(context, decode_shape, {tiles, device}, packed));
    } else {
      ASSIGN_OR_RETURN(has_packed, AttendFew(context, shape, tiles, packed));
    }
    is_packed |= has_packed;
  }
  if (!is_packed) PackActivations(context, PackingOf(args));
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
