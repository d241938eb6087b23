// Steps whose operations are held back and started together give the bits of
// the same operations by themselves: while contexts grow and roll, batches
// change, and after a step that failed.
#include <algorithm>
#include <numeric>

#include "base/status_macros.h"
#include "bench/decode_ops.h"
#include "tests/kernels/attention/attention_fixture.h"

namespace plimsoll::kernels {
namespace {

using StepTest = BackendTest;

constexpr int64_t kHeads = 4;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kHeadDim = 32;
constexpr int64_t kDim = kHeads * kHeadDim;
constexpr int64_t kKvDim = kKvHeads * kHeadDim;
constexpr int64_t kVocabulary = 96;
constexpr int64_t kPageTokens = 16;
constexpr int64_t kMaxPages = 24;  // pages of a sequence
constexpr int64_t kWindow = 20;
constexpr int64_t kMaxRows = 6;

// One layer of each kind, with a cache for kMaxRows sequences; the same numbers
// in every one.
class SmallModel {
 public:
  SmallModel(Backend& backend, bool is_held)
      : backend_(backend), is_held_(is_held) {
    RandomData random(5);
    const auto matrix = [&](int64_t rows, int64_t cols) {
      return Store(backend, DType::kQ8_0, rows, cols,
                   random.Weights(DType::kQ8_0, rows, cols));
    };
    table_ = matrix(kVocabulary, kDim);
    for (Layer& layer : layers_) {
      layer.q = matrix(kDim, kDim);
      layer.k = matrix(kKvDim, kDim);
      layer.v = matrix(kKvDim, kDim);
      layer.out = matrix(kDim, kDim);
    }
    norm_ = *backend.Allocate(kDim * 4);
    const std::vector<float> ones(kDim, 1.0f);
    EXPECT_TRUE(backend
                    .Upload(std::as_bytes(std::span(ones)),
                            norm_.view().Slice(0, kDim * 4))
                    .ok());
    memory_ = *backend.Allocate(kBytes);
    kv_.page_tokens = kPageTokens;
    kv_.v_offset = kPageTokens * kKvDim * 2;
    kv_.page_bytes = 2 * kv_.v_offset;
    kv_.pool = memory_.data() + kPool;
    ops_ = Ops();
  }

  struct Row {
    int64_t slot;
    int64_t position;
    int64_t n_evicted = 0;  // whole pages behind the first one
  };

  // The logits of a step of one row of each sequence.
  std::vector<float> Step(const std::vector<Row>& rows) {
    return Take(rows, /*breaks=*/false);
  }
  // A step in which an operation in the middle is refused.
  void BreakStep(const std::vector<Row>& rows) {
    (void)Take(rows, /*breaks=*/true);
  }

 private:
  std::vector<float> Take(const std::vector<Row>& rows, bool breaks) {
    const auto n = static_cast<int64_t>(rows.size());
    absl::Status begun = is_held_ ? backend_.BeginStep(n) : absl::OkStatus();
    EXPECT_TRUE(begun.ok()) << begun;
    absl::Status status = Run(rows, breaks);
    EXPECT_EQ(status.ok(), !breaks) << status;
    if (status.ok()) status = backend_.Synchronize();
    EXPECT_EQ(status.ok(), !breaks) << status;
    // A step that is not held may end as well.
    EXPECT_TRUE(backend_.EndStep().ok());
    std::vector<float> logits(static_cast<size_t>(n * kVocabulary));
    EXPECT_TRUE(backend_
                    .Download({memory_.data() + kLogits, n * kVocabulary * 4},
                              std::as_writable_bytes(std::span(logits)))
                    .ok());
    return logits;
  }

  struct Layer {
    StoredMatrix q, k, v, out;
  };
  // Places in memory_.
  static constexpr int64_t kRowBytes = kMaxRows * kDim * 4;
  static constexpr int64_t kX = 0;
  static constexpr int64_t kNormed = kX + kRowBytes;
  static constexpr int64_t kQ = kNormed + kRowBytes;
  static constexpr int64_t kK = kQ + kRowBytes;
  static constexpr int64_t kV = kK + kRowBytes;
  static constexpr int64_t kPacked = kV + kRowBytes;
  static constexpr int64_t kAngles = kPacked + 2 * kRowBytes;
  static constexpr int64_t kAttended = kAngles + kRowBytes;
  static constexpr int64_t kChunk = kAttended + kRowBytes;
  static constexpr int64_t kLogits = kChunk + kRowBytes;
  static constexpr int64_t kRings = kLogits + kMaxRows * kVocabulary * 4;
  static constexpr int64_t kRingBytes = 2 * kWindow * kKvDim * 2;
  static constexpr int64_t kPool = kRings + kMaxRows * kRingBytes;
  static constexpr int64_t kBytes =
      kPool + kMaxRows * kMaxPages * 2 * kPageTokens * kKvDim * 2;

  float* F(int64_t at) { return reinterpret_cast<float*>(memory_.data() + at); }
  std::byte* B(int64_t at) { return memory_.data() + at; }

  absl::Status Run(const std::vector<Row>& rows, bool breaks) {
    const auto n = static_cast<int64_t>(rows.size());
    std::vector<int32_t> tokens;
    std::vector<int64_t> positions;
    for (const Row& row : rows) {
      tokens.push_back(
          static_cast<int32_t>((row.position * 7 + row.slot) % kVocabulary));
      positions.push_back(row.position);
    }
    RETURN_IF_ERROR(backend_.RopeAngles(
        {positions.data(), n, kHeadDim, 1e4, 1.0, nullptr, 1.0f, F(kAngles)}));
    RETURN_IF_ERROR(
        backend_.GetRows({table_.view, tokens.data(), n, 1.0f, F(kX)}));
    std::vector<std::vector<PageEntry>> pages;
    for (const Row& row : rows) pages.push_back(Table(row));
    // The caller's spans are free after each operation.
    std::ranges::fill(tokens, -1);
    std::ranges::fill(positions, -1);
    for (size_t il = 0; il < layers_.size(); ++il) {
      const Layer& layer = layers_[il];
      RETURN_IF_ERROR(ops_.Norm(backend_, n));
      RETURN_IF_ERROR(backend_.MatMuls(std::vector<MatMulArgs>{
          ops_.Product(layer.q.view, ops_.q, n, false),
          ops_.Product(layer.k.view, ops_.k, n, false),
          ops_.Product(layer.v.view, ops_.v, n, false)}));
      // Heads of the last layers are prepared by one operation.
      const bool is_one = il >= 2;
      for (const auto& [at, heads] : {std::pair{kQ, kHeads}, {kK, kKvHeads}}) {
        if (is_one) break;
        RETURN_IF_ERROR(backend_.Rope({F(at), F(kAngles), F(at), n, heads,
                                       kHeadDim, kHeadDim, RopeStyle::kNeox}));
      }
      if (breaks && il == 1) {
        return backend_.Rope({F(kQ), F(kAngles), F(kQ), n, 1, kHeadDim,
                              2 * kHeadDim, RopeStyle::kNeox});
      }
      RETURN_IF_ERROR(Attend(rows, pages, il % 2 == 1, is_one));
      RETURN_IF_ERROR(
          backend_.PackActivations({F(kAttended), n, kDim, B(kPacked)}));
      RETURN_IF_ERROR(
          backend_.MatMul(ops_.Product(layer.out.view, ops_.x, n, true)));
    }
    RETURN_IF_ERROR(ops_.Norm(backend_, n));
    return backend_.MatMul(ops_.Product(table_.view, F(kLogits), n, false));
  }

  DecodeOps Ops() {
    return {.n_heads = kHeads,
            .n_kv_heads = kKvHeads,
            .head_dim = kHeadDim,
            .model_dim = kDim,
            .scale = 0.2f,
            .eps = 1e-5f,
            .norm = reinterpret_cast<const float*>(norm_.data()),
            .x = F(kX),
            .normed = F(kNormed),
            .packed = B(kPacked),
            .q = F(kQ),
            .k = F(kK),
            .v = F(kV),
            .angles = F(kAngles)};
  }

  std::vector<PageEntry> Table(const Row& row) const {
    std::vector<PageEntry> table;
    for (int64_t p = 0; p * kPageTokens <= row.position; ++p) {
      if (p > 0 && p <= row.n_evicted) continue;
      const auto live =
          std::min(kPageTokens, row.position + 1 - p * kPageTokens);
      table.push_back({p * kPageTokens,
                       static_cast<int32_t>(row.slot * kMaxPages + p), 0,
                       static_cast<int32_t>(live), p == 0});
    }
    return table;
  }

  absl::Status Attend(const std::vector<Row>& rows,
                      const std::vector<std::vector<PageEntry>>& pages,
                      bool is_ring, bool is_one) {
    const auto n = static_cast<int64_t>(rows.size());
    AttentionArgs args = ops_.Attention(F(kAttended));
    args.is_ring = is_ring;
    args.chunk_k = B(kChunk);
    args.chunk_v = B(kChunk) + n * kKvDim * 2;
    if (!is_ring) args.paged = kv_;
    std::vector<AttentionSegment> segments;
    std::vector<int64_t> k_at, v_at, from, to;
    for (const Row& row : rows) {
      const auto r = static_cast<int64_t>(segments.size());
      std::byte* ring = B(kRings) + row.slot * kRingBytes;
      segments.push_back({r,
                          1,
                          row.position,
                          pages[static_cast<size_t>(r)],
                          {ring, ring + kRingBytes / 2, kWindow},
                          0});
      const int64_t cell = row.position % kPageTokens * kKvDim * 2;
      const int64_t page =
          (row.slot * kMaxPages + row.position / kPageTokens) * kv_.page_bytes;
      k_at.push_back(is_ring ? r * kKvDim * 2 : page + cell);
      v_at.push_back(is_ring ? (n + r) * kKvDim * 2
                             : page + kv_.v_offset + cell);
      from.push_back(r * kKvDim * 2);
      to.push_back(row.slot * kRingBytes + row.position % kWindow * kKvDim * 2);
    }
    args.segments = segments;
    std::byte* base = is_ring ? B(kChunk) : kv_.pool;
    if (is_one) {
      std::vector<int64_t> offsets = k_at;
      offsets.insert(offsets.end(), v_at.begin(), v_at.end());
      for (const int64_t part : {int64_t{0}, kRingBytes / 2}) {
        if (!is_ring) break;
        for (const int64_t at : to) {
          offsets.push_back(kRings - kChunk + part + at);
        }
      }
      RETURN_IF_ERROR(
          ops_.PrepareHeads(backend_, n,
                            {.base = base,
                             .offsets = offsets.data(),
                             .n_places = std::ssize(offsets) / (2 * n)}));
      return backend_.Attention(args);
    }
    RETURN_IF_ERROR(
        backend_.StoreRows({F(kK), n, kKvDim, DType::kF16, base, k_at.data()}));
    RETURN_IF_ERROR(
        backend_.StoreRows({F(kV), n, kKvDim, DType::kF16, base, v_at.data()}));
    RETURN_IF_ERROR(backend_.Attention(args));
    if (!is_ring) return absl::OkStatus();
    RETURN_IF_ERROR(backend_.CopyRows(
        {args.chunk_k, from.data(), B(kRings), to.data(), n, kKvDim * 2}));
    return backend_.CopyRows({args.chunk_v, from.data(),
                              B(kRings) + kRingBytes / 2, to.data(), n,
                              kKvDim * 2});
  }

  Backend& backend_;
  bool is_held_;
  StoredMatrix table_;
  std::array<Layer, 4> layers_;
  Buffer norm_;
  Buffer memory_;
  PagedKv kv_;
  DecodeOps ops_;
};

std::vector<SmallModel::Row> Rows(int64_t n, int64_t position) {
  std::vector<SmallModel::Row> rows;
  for (int64_t r = 0; r < n; ++r) rows.push_back({r, position});
  return rows;
}

TEST_P(StepTest, GrowingContextsGiveTheBitsOfSingleOperations) {
  SmallModel plain(backend(), /*is_held=*/false);
  SmallModel held(backend(), /*is_held=*/true);
  // Past one page, the ring's window and one span.
  for (int64_t position = 0; position < 150; ++position) {
    const auto rows = Rows(1, position);
    ASSERT_EQ(Bits(held.Step(rows)), Bits(plain.Step(rows)))
        << "position " << position;
  }
}

TEST_P(StepTest, BatchesComeAndGo) {
  SmallModel plain(backend(), /*is_held=*/false);
  SmallModel held(backend(), /*is_held=*/true);
  int64_t position = 0;
  for (const int64_t n : {6, 6, 6, 2, 2, 6, 1, 3, 3, 6, 2, 1, 1, 4, 4, 6}) {
    const auto rows = Rows(n, position++);
    ASSERT_EQ(Bits(held.Step(rows)), Bits(plain.Step(rows)))
        << n << " rows at " << position;
  }
  // Other sequences, elsewhere, and tables from which pages have left.
  for (int64_t i = 0; i < 40; ++i) {
    const std::vector<SmallModel::Row> rows = {{1, position + i, i / 20},
                                               {4, position + i}};
    ASSERT_EQ(Bits(held.Step(rows)), Bits(plain.Step(rows))) << i;
  }
}

TEST_P(StepTest, AStepThatFailsLeavesNothingBehind) {
  SmallModel plain(backend(), /*is_held=*/false);
  SmallModel held(backend(), /*is_held=*/true);
  for (int64_t position = 0; position < 6; ++position) {
    const auto rows = Rows(2, position);
    if (position % 2 == 1) {
      held.BreakStep(rows);
      plain.BreakStep(rows);
      continue;
    }
    ASSERT_EQ(Bits(held.Step(rows)), Bits(plain.Step(rows)))
        << "position " << position;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, StepTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
