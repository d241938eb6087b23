// A block of four warps has one span of keys for a few queries that read one KV
// head, and a second kernel merges the spans of each query. Short spans let a
// single row fill a device.
//
// A warp takes 16 keys at a time, every fourth of the span's steps. It copies
// them to its own part of shared memory as they are stored: the next keys while
// it uses the values, the next values while it uses the keys. So warps wait for
// each other only at the beginning and at the end of a span.
//
// Both products run on the tensor cores with float32 sums. A product of scores
// has 16 rows: the high halves of eight queries, and their low halves. It gives
// a lane the scores of one query in the places where a product of values wants
// weights. Weights are split too: with four queries, the other four columns
// have the low halves. Queries and weights lose about 2^-21 (BF16: 2^-16).
//
// The levels of Q8_0 are exact in F16. The scales of keys multiply the sums of
// each block; the scales of values multiply the weights before they are split.
//
// A row's bits do not depend on the rows beside it: which keys a warp and a
// span have depends on what the row sees, and a step of which it sees nothing
// adds zeros.
#include "kernels/cuda/attention/attention_decode_steps.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

// Block (i, s) has span s of task i: tiles, then parts of a head group, then KV
// heads.
template <class S>
__global__ void __launch_bounds__(kThreads, S::kBlocks)
    AttendDecode(AttentionShape shape, const AttentionTile* tiles,
                 int64_t n_tiles, Partials partials) {
  WaitForKernelsBefore();
  std::byte* shared = DynamicShared();
  const int64_t index = blockIdx.x;
  const int64_t span = blockIdx.y;
  AttentionTile& tile = reinterpret_cast<BlockState*>(shared)->tile;
  if (ThreadIndex() == 0) tile = tiles[index % n_tiles];
  __syncthreads();
  if (span >= tile.Spans()) return;
  const auto group = static_cast<int>(shape.n_heads / shape.n_kv_heads);
  const auto part_heads = static_cast<int>(shape.part_heads);
  const auto part = static_cast<int>(index / n_tiles % shape.n_parts);
  const auto kv_head = static_cast<int>(index / n_tiles / shape.n_parts);
  const int left = group - part * part_heads;
  const Task task = {tile, kv_head, kv_head * group + part * part_heads,
                     left < part_heads ? left : part_heads, part_heads};
  int64_t begin = (tile.FirstSpan() + span) * tile.span_units;
  int64_t end = begin + tile.span_units;
  begin = begin > tile.first_unit ? begin : tile.first_unit;
  end = end < tile.end_unit ? end : tile.end_unit;
  // The last of these is Pages::kRecent, unless the rotations are the same.
  bool is_skipped[2] = {true, false};
  const bool has_one_rotation = shape.is_ring || shape.q == shape.q_prefix;
  if (!has_one_rotation) {
    FindPages<S>(shape, tile, begin, end, is_skipped);
  }
  Softmax state = {MinusInfinity(), 0};
  float sums[S::kSums] = {};
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    if (is_skipped[pass]) continue;
    const Pages recent = has_one_rotation ? Pages::kAll : Pages::kRecent;
    AttendSteps<S>(shape, task, {begin, end, WarpIndex()},
                   pass == 0 ? Pages::kPrefix : recent, shared, state, sums);
  }
  std::byte* const warps = shared + kBlockBytes + S::kQueryBytes;
  StoreResults<S>(
      state, sums,
      reinterpret_cast<WarpResults<S>*>(warps + WarpIndex() * S::kWarpBytes));
  __syncthreads();
  WriteSpan<S>(shape, task, tiles[0].first_row * shape.n_heads, span, partials,
               warps);
}

// ---- Merging ---------------------------------------------------------------

constexpr int kMergeWarps = 8;
constexpr int kMergeThreads = kMergeWarps * kWarpThreads;
// A warp reads this many spans before it uses the first.
constexpr int kMergeLoads = 8;
constexpr int kBatchSpans = kMergeWarps * kMergeLoads;

// What a warp of MergeDecode has of one column, for all lanes.
struct MergeResults {
  float max[kMergeWarps];
  float total[kMergeWarps];
  float sums[kMergeWarps][kWarpThreads];
};

// Block (t, r, c) merges the spans of row r of tile t for 32 columns of its
// heads. Span i of all that a row may have is always added up by warp
// i % kMergeWarps, in order. It also packs the result if `packed` is not null.
__global__ void __launch_bounds__(kMergeThreads, 3)
    MergeDecode(AttentionShape shape, const AttentionTile* tiles,
                Partials partials, std::byte* packed) {
  WaitForKernelsBefore();
  const AttentionTile tile = tiles[blockIdx.x];
  if (blockIdx.y >= tile.n_rows) return;
  const int lane = LaneIndex();
  const int64_t row = tile.first_row + blockIdx.y;
  const int64_t column = int64_t{blockIdx.z} * kWarpThreads + lane;
  const int64_t head = column / shape.value_dim;
  const int64_t first = tile.FirstSpan();
  const int64_t end = first + tile.Spans();
  const float* from =
      partials.At((row - tiles[0].first_row) * shape.n_heads + head, 0);
  const int64_t at = column % shape.value_dim;
  Softmax state = {MinusInfinity(), 0};
  float sum = 0;
  for (int64_t begin = first / kBatchSpans * kBatchSpans + WarpIndex();
       begin < end; begin += kBatchSpans) {
    Softmax spans[kMergeLoads];
    float sums[kMergeLoads];
#pragma unroll
    for (int i = 0; i < kMergeLoads; ++i) {
      const int64_t span = begin + i * kMergeWarps;
      spans[i] = {MinusInfinity(), 0};
      sums[i] = 0;
      if (span >= first && span < end) {
        const float* one = from + (span - first) * partials.stride;
        spans[i] = {one[shape.value_dim], one[shape.value_dim + 1]};
        sums[i] = one[at];
      }
    }
    float max = state.max;
#pragma unroll
    for (int i = 0; i < kMergeLoads; ++i) max = fmaxf(max, spans[i].max);
    const float base = max == MinusInfinity() ? 0.0f : max;
    const float factor = Exponential(state.max - base);
    sum *= factor;
    state.total *= factor;
    state.max = max;
#pragma unroll
    for (int i = 0; i < kMergeLoads; ++i) {
      const float weight = Exponential(spans[i].max - base);
      sum = Fma(weight, sums[i], sum);
      state.total = Fma(weight, spans[i].total, state.total);
    }
  }
  auto* results = reinterpret_cast<MergeResults*>(DynamicShared());
  results->sums[WarpIndex()][lane] = sum;
  if (lane == 0) {
    results->max[WarpIndex()] = state.max;
    results->total[WarpIndex()] = state.total;
  }
  __syncthreads();
  if (WarpIndex() > 0) return;
  Softmax all = {MinusInfinity(), 0};
  for (const float max : results->max) all.max = fmaxf(all.max, max);
  const float base = all.max == MinusInfinity() ? 0.0f : all.max;
  sum = 0;
#pragma unroll
  for (int w = 0; w < kMergeWarps; ++w) {
    const float factor = Exponential(results->max[w] - base);
    sum = Fma(factor, results->sums[w][lane], sum);
    all.total = Fma(factor, results->total[w], all.total);
  }
  const float value = Quotient(sum, TotalWithSink(shape, head, all));
  const int64_t dim = shape.n_heads * shape.value_dim;
  shape.out[row * dim + column] = value;
  if (packed != nullptr) {
    PackBlock(value, dim, blockIdx.z, packed + row * PackedRowBytes(dim));
  }
}

// ---- The host's side -------------------------------------------------------

template <class S>
void LaunchDecode(const Context& context, const AttentionShape& shape,
                  const Tiles& tiles, const Partials& partials) {
  const auto n_tiles = static_cast<int64_t>(tiles.host.size());
  Launch(AttendDecode<S>,
         {n_tiles * shape.n_parts * shape.n_kv_heads, partials.n_spans},
         kThreads, S::kSharedBytes, context.queue, shape, tiles.device, n_tiles,
         partials);
}

template <DType kType, int kQueries>
void LaunchForHead(const Context& context, const AttentionShape& shape,
                   const Tiles& tiles, const Partials& partials) {
  if (shape.head_dim == 64) {
    LaunchDecode<DecodeShape<kType, 64, kQueries>>(context, shape, tiles,
                                                   partials);
  } else if (shape.head_dim == 128) {
    LaunchDecode<DecodeShape<kType, 128, kQueries>>(context, shape, tiles,
                                                    partials);
  } else {
    LaunchDecode<DecodeShape<kType, 256, kQueries>>(context, shape, tiles,
                                                    partials);
  }
}

template <DType kType>
void LaunchForQueries(const Context& context, const AttentionShape& shape,
                      const Tiles& tiles, const Partials& partials) {
  if (DecodeQueries(shape.n_heads / shape.n_kv_heads) == 4) {
    LaunchForHead<kType, 4>(context, shape, tiles, partials);
  } else {
    LaunchForHead<kType, 8>(context, shape, tiles, partials);
  }
}

void LaunchForType(const Context& context, const AttentionShape& shape,
                   const Tiles& tiles, const Partials& partials) {
  if (shape.k_type == DType::kF16) {
    LaunchForQueries<DType::kF16>(context, shape, tiles, partials);
  } else if (shape.k_type == DType::kBF16) {
    LaunchForQueries<DType::kBF16>(context, shape, tiles, partials);
  } else {
    LaunchForQueries<DType::kQ8_0>(context, shape, tiles, partials);
  }
}

}  // namespace

bool CanAttendDecoding(const AttentionArgs& args) {
  if (args.k_type != args.v_type || !HasPromptType(args.k_type)) return false;
  if (args.ValueDim() != args.head_dim) return false;
  if (args.head_dim != 64 && args.head_dim != 128 && args.head_dim != 256) {
    return false;
  }
  // Copies of Q8_0 have as many bytes as divide a head, up to 16.
  uintptr_t bits = 0;
  const auto add = [&](const std::byte* at) {
    bits |= reinterpret_cast<uintptr_t>(at);
  };
  if (args.is_ring) {
    add(args.chunk_k);
    add(args.chunk_v);
    for (const AttentionSegment& segment : args.segments) {
      add(segment.ring.k);
      add(segment.ring.v);
    }
  } else {
    for (const int64_t page : {int64_t{0}, args.paged.page_bytes}) {
      add(args.paged.pool + args.paged.k_offset + page);
      add(args.paged.pool + args.paged.v_offset + page);
    }
  }
  const auto slice =
      static_cast<uintptr_t>(KvBytes(args.k_type, args.head_dim));
  return bits % std::min<uintptr_t>(slice & (~slice + 1), 16) == 0;
}

absl::Status AttendDecoding(const Context& context, const AttentionShape& shape,
                            Tiles tiles, std::byte* packed) {
  const int64_t tile_rows =
      DecodeQueries(shape.n_heads / shape.n_kv_heads) / shape.part_heads;
  return AttendInBatches(
      context, shape, tiles, shape.value_dim + kStateFloats,
      [&](const Tiles& some, const Partials& partials) {
        LaunchForType(context, shape, some, partials);
        Launch(MergeDecode,
               {static_cast<int64_t>(some.host.size()), tile_rows,
                shape.n_heads * shape.value_dim / kWarpThreads},
               kMergeThreads, sizeof(MergeResults), context.queue, shape,
               some.device, partials, packed);
      });
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
