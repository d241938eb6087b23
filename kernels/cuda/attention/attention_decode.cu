// A block of four warps has one span of keys for a few queries that read one KV
// head, and the block that ends last merges the spans of these queries. Short
// spans let a single row fill a device.
//
// A warp takes 16 keys at a time, every fourth of the span's steps. It copies
// them to its own part of shared memory as they are stored: the next keys while
// it uses the values, the next values while it uses the keys. So warps wait for
// each other only at the beginning and at the end of a span.
//
// Both products run on the tensor cores with float32 sums. A product of scores
// has 16 rows: the high halves of eight queries, and their low halves. It gives
// a lane the scores of one query in the places where the product with the
// values reads its weights. Weights are split too: with four queries, the other
// four columns have the low halves. Queries and weights lose about 2^-21 (BF16:
// 2^-16).
//
// The levels of Q8_0 are exact in F16. The scales of keys multiply the sums of
// each block; the scales of values multiply both halves of the weights.
//
// A row's bits do not depend on the rows beside it: which keys a warp and a
// span have depends on what the row sees, and a step of which it sees nothing
// adds zeros.
#include <algorithm>

#include "kernels/cuda/attention/attention_decode.cuh"
#include "kernels/cuda/attention/attention_decode_results.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

// The units of keys of a span, and their sizes.
struct SpanUnits {
  PageSteps pages;
  int64_t begin;
  int64_t end;

  __device__ __forceinline__ SpanUnits(const AttentionTile& tile, int span,
                                       PageSteps pages)
      : pages(pages),
        begin((tile.first_span + span) * tile.span_units),
        end(begin + tile.span_units) {
    begin = begin > tile.first_unit ? begin : tile.first_unit;
    end = end < tile.end_unit ? end : tile.end_unit;
  }
};

// Copies the block's tile, which the host has given, to shared memory.
__device__ __forceinline__ void CopyTile(const AttentionTile* from,
                                         AttentionTile* to) {
  constexpr int kWords = sizeof(AttentionTile) / sizeof(int64_t);
  static_assert(sizeof(AttentionTile) == kWords * sizeof(int64_t) &&
                kWords <= kThreads);
  if (ThreadIndex() < kWords) {
    reinterpret_cast<int64_t*>(to)[ThreadIndex()] =
        LoadWritten(reinterpret_cast<const int64_t*>(from) + ThreadIndex());
  }
}

// Computes the warp's part of a span: the pages of the prefix in a first pass
// and the others in a second one if the queries of both are rotated
// differently, else all in one pass.
template <class S>
__device__ __forceinline__ void AttendPages(const AttentionShape& shape,
                                            const Task& task,
                                            const SpanUnits& units,
                                            bool prefetches,
                                            const RunningSums& running) {
  const AttentionTile& tile = task.tile;
  // The last of these is Pages::kRecent, unless the rotations are the same.
  bool is_skipped[2] = {true, false};
  const bool has_one_rotation = shape.is_ring || shape.q == shape.q_prefix;
  if (!has_one_rotation) {
    FindPages<S>(tile, units.pages, units.begin, units.end, is_skipped);
    // There is a pass in which the block waits for the kernels before.
    is_skipped[1] &= !is_skipped[0];
  }
  bool is_first = true;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    if (is_skipped[pass]) continue;
    const Pages recent = has_one_rotation ? Pages::kAll : Pages::kRecent;
    AttendSteps<S>(shape, task,
                   Walk<S>(shape, tile, units.pages, units.begin, units.end),
                   {.pages = pass == 0 ? Pages::kPrefix : recent,
                    .is_first = is_first,
                    .prefetches = prefetches},
                   running);
    is_first = false;
  }
}

// Block (t, h, s) has span s of tile t for tile h % n_head_tiles of the heads
// of KV head h / n_head_tiles. Before it waits for the kernels before it reads
// tiles and page tables, which the host has given, and starts to bring keys and
// values.
template <class S>
__global__ void __launch_bounds__(kThreads, S::kBlocks)
    AttendDecode(AttentionShape shape, const AttentionTile* tiles,
                 PageSteps pages, DecodeOutput output, bool prefetches) {
  LetNextKernelBegin();
  std::byte* shared = DynamicShared();
  auto* block = reinterpret_cast<BlockState*>(shared);
  CopyTile(tiles + blockIdx.x, &block->tile);
  const int64_t first_query = LoadWritten(&tiles[0].first_row) * shape.n_heads;
  __syncthreads();
  const AttentionTile& tile = block->tile;
  const auto span = static_cast<int>(blockIdx.z);
  if (span >= tile.n_spans) {
    WaitForKernelsBefore();
    return;
  }
  const auto n_head_tiles = static_cast<unsigned>(shape.n_head_tiles);
  const auto group = static_cast<int>(static_cast<unsigned>(shape.n_heads) /
                                      static_cast<unsigned>(shape.n_kv_heads));
  const Task task =
      TaskOf(shape, tile, group, static_cast<int>(blockIdx.y / n_head_tiles),
             static_cast<int>(blockIdx.y % n_head_tiles));
  Softmax state = {MinusInfinity(), 0};
  float sums[S::kSums] = {};
  AttendPages<S>(shape, task, SpanUnits(tile, span, pages), prefetches,
                 {state, sums});
  std::byte* const warps = shared + kBlockBytes + S::kQueryBytes;
  StoreResults<S>(
      state, sums,
      reinterpret_cast<WarpResults<S>*>(warps + WarpIndex() * S::kWarpBytes));
  __syncthreads();
  WriteSpan<S>(shape, task, {output.partials, first_query, span}, warps);
  int32_t* count = output.counts + (blockIdx.x * gridDim.y + blockIdx.y);
  const auto n_spans = static_cast<int32_t>(tile.n_spans);
  if (n_spans == 1) {
    __syncthreads();
  } else if (!IsLastToArrive(count, n_spans, &block->is_last)) {
    return;
  }
  MergeSpans<S>(shape, task, first_query, output, shared + kBlockBytes);
}

// ---- The host's side -------------------------------------------------------

template <class S>
void LaunchDecode(const Context& context, const AttentionShape& shape,
                  const Tiles& tiles, const DecodeOutput& output) {
  static_assert(sizeof(SpanWeights<S>) <= S::kSpanBytes);
  PageSteps pages = {1, 1};
  if (!shape.is_ring) {
    const int64_t tokens = shape.paged.page_tokens;
    pages = {static_cast<int>(UnitPages(tokens, kDecodeKeys, kDecodeUnitKeys)),
             static_cast<int>(PageSlots(tokens, kDecodeKeys) / kDecodeKeys)};
  }
  // A step whose kernels overlap has one row.
  const bool prefetches = context.prefetches_weights && tiles.host.size() == 1;
  Launch(AttendDecode<S>,
         {static_cast<int64_t>(tiles.host.size()),
          shape.n_head_tiles * shape.n_kv_heads, output.partials.n_spans},
         kThreads, S::kSharedBytes, context.queue, shape, tiles.device, pages,
         output, prefetches);
}

template <DType kType, int kQueries>
void LaunchForHead(const Context& context, const AttentionShape& shape,
                   const Tiles& tiles, const DecodeOutput& output) {
  if (shape.head_dim == 64) {
    LaunchDecode<DecodeShape<kType, 64, kQueries>>(context, shape, tiles,
                                                   output);
  } else if (shape.head_dim == 128) {
    LaunchDecode<DecodeShape<kType, 128, kQueries>>(context, shape, tiles,
                                                    output);
  } else {
    LaunchDecode<DecodeShape<kType, 256, kQueries>>(context, shape, tiles,
                                                    output);
  }
}

template <DType kType>
void LaunchForQueries(const Context& context, const AttentionShape& shape,
                      const Tiles& tiles, const DecodeOutput& output) {
  if (DecodeQueries(shape.n_heads / shape.n_kv_heads) == 4) {
    LaunchForHead<kType, 4>(context, shape, tiles, output);
  } else {
    LaunchForHead<kType, 8>(context, shape, tiles, output);
  }
}

void LaunchForType(const Context& context, const AttentionShape& shape,
                   const Tiles& tiles, const DecodeOutput& output) {
  if (shape.k_type == DType::kF16) {
    LaunchForQueries<DType::kF16>(context, shape, tiles, output);
  } else if (shape.k_type == DType::kBF16) {
    LaunchForQueries<DType::kBF16>(context, shape, tiles, output);
  } else {
    LaunchForQueries<DType::kQ8_0>(context, shape, tiles, output);
  }
}

}  // namespace

bool CanAttendDecoding(const AttentionArgs& args) {
  if (args.k_type != args.v_type || !HasPromptType(args.k_type)) return false;
  if (args.ValueDim() != args.head_dim || args.n_heads > kCounts) return false;
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
  for (const AttentionTile& tile : tiles.host) {
    if (tile.n_spans > kMaxTileSpans) {
      return absl::InternalError("too many spans of a decoding row");
    }
  }
  return AttendInBatches(
      context, shape, tiles,
      {.stride = shape.value_dim + kStateFloats,
       .max_tiles = kCounts / (shape.n_head_tiles * shape.n_kv_heads)},
      [&](const Tiles& some, const Partials& partials) {
        LaunchForType(context, shape, some, {partials, context.counts, packed});
      });
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
