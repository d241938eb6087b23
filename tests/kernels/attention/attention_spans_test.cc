// Long contexts are reduced in spans, which threads share: the same bits on any
// number of threads, alone or in a chunk, and the right numbers.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "kernels/cpu/attention/attention_tasks.h"
#include "tests/kernels/attention/attention_fixture.h"

namespace plimsoll::kernels {
namespace {

using AttentionSpansTest = BackendTest;

struct Heads {
  int64_t n_heads;
  int64_t n_kv_heads;
  int64_t head_dim;
};
constexpr Heads kHeads[] = {{4, 1, 64}, {9, 3, 32}, {40, 1, 32}, {2, 2, 16}};

// Pages whose first are a prefix and whose next ones have left.
std::vector<PageEntry> RolledTable(const PagedSequence& sequence, int64_t n) {
  std::vector<PageEntry> table = sequence.Table(n);
  table[0].is_prefix = true;
  table.erase(table.begin() + 1, table.begin() + 3);
  table[1].live_begin = 17;
  return table;
}

TEST_P(AttentionSpansTest, PagesGiveTheSameBitsOnAnyThreadAndInAnyChunk) {
  RandomData random(60);
  for (const Heads& heads : kHeads) {
    // In 1, 2, 3 and 9 spans; a row of 4,500 has longer ones than one of 700.
    for (const int64_t n : {200, 300, 700, 4'500}) {
      if (n > 1'000 && heads.n_heads > 4) continue;  // takes long
      SCOPED_TRACE(::testing::Message() << heads.n_heads << " heads, " << n);
      const Tokens tokens = MakeTokens(
          random, n, {heads.n_heads, heads.n_kv_heads, heads.head_dim});
      PagedSequence sequence(tokens, n, 64);
      sequence.Append(backend(), 0, n);
      for (const auto& table : {sequence.Table(n), RolledTable(sequence, n)}) {
        const BackendUnderTest one = MakeBackend(GetParam(), 1);
        const auto chunk = sequence.Attend(*one.backend, n - 3, 3, table);
        for (const int n_threads : {1, 2, 3, 8}) {
          const BackendUnderTest made = MakeBackend(GetParam(), n_threads);
          EXPECT_EQ(Bits(sequence.Attend(*made.backend, n - 3, 3, table)),
                    Bits(chunk));
          for (int64_t r = 0; r < 3; ++r) {
            const auto alone =
                sequence.Attend(*made.backend, n - 3 + r, 1, table);
            EXPECT_EQ(Bits(alone),
                      Bits(chunk.data() + r * tokens.QDim(), tokens.QDim()))
                << n_threads << " threads, row " << r;
          }
        }
      }
    }
  }
}

TEST_P(AttentionSpansTest, SpansOfPagesJoinToTheWholeAttention) {
  RandomData random(61);
  const BackendUnderTest made = MakeBackend(GetParam(), 3);
  for (const Heads& heads : kHeads) {
    constexpr int64_t kN = 700;
    const Tokens tokens = MakeTokens(
        random, kN, {heads.n_heads, heads.n_kv_heads, heads.head_dim});
    PagedSequence sequence(tokens, kN, 64);
    sequence.Append(*made.backend, 0, kN);
    const auto whole =
        sequence.Attend(*made.backend, kN - 1, 1, sequence.Table(kN));
    ExpectRow(tokens, whole.data(), kN - 1, Keys(0, kN));
    const auto rolled =
        sequence.Attend(*made.backend, kN - 1, 1, RolledTable(sequence, kN));
    std::vector<SeenKey> keys = PrefixKeys(0, 64);
    for (const SeenKey& key : Keys(3 * 64 + 17, kN)) keys.push_back(key);
    ExpectRow(tokens, rolled.data(), kN - 1, keys);
  }
}

// A sink takes part once, whether spans are joined by who reduced them, as in a
// chunk of many rows, or by somebody else.
TEST_P(AttentionSpansTest, SoftCapAndSinksHoldInSpansOfPages) {
  RandomData random(64);
  constexpr int64_t kN = 700;
  constexpr int64_t kRows = 20;
  for (const Heads& heads : {Heads{4, 1, 64}, {9, 3, 32}}) {
    Tokens tokens = MakeTokens(
        random, kN, {heads.n_heads, heads.n_kv_heads, heads.head_dim});
    PagedSequence sequence(tokens, kN, 64);
    sequence.Append(backend(), 0, kN);
    const auto table = RolledTable(sequence, kN);
    for (const ScoreChange& change : kScoreChanges) {
      ChangeScores(random, change, tokens);
      const BackendUnderTest one = MakeBackend(GetParam(), 1);
      const auto chunk =
          sequence.Attend(*one.backend, kN - kRows, kRows, table);
      for (const int n_threads : {1, 2, 8}) {
        const BackendUnderTest made = MakeBackend(GetParam(), n_threads);
        for (const int64_t n : {int64_t{1}, kRows}) {
          const auto out = sequence.Attend(*made.backend, kN - n, n, table);
          EXPECT_EQ(Bits(out), Bits(chunk.data() + (kRows - n) * tokens.QDim(),
                                    n * tokens.QDim()))
              << n_threads << " threads, " << n << " rows";
        }
      }
      std::vector<SeenKey> keys = PrefixKeys(0, 64);
      for (const SeenKey& key : Keys(3 * 64 + 17, kN)) keys.push_back(key);
      ExpectRow(tokens, chunk.data() + (kRows - 1) * tokens.QDim(), kN - 1,
                keys);
    }
  }
}

TEST_P(AttentionSpansTest, SoftCapAndSinksHoldInSpansOfRings) {
  RandomData random(65);
  constexpr int64_t kWindow = 300;
  constexpr int64_t kN = 400;
  constexpr int64_t kRows = 20;
  Tokens tokens = MakeTokens(random, kN, {4, 1, 32});
  ChangeScores(random, {5, true}, tokens);
  std::vector<std::vector<uint32_t>> results;
  for (const int n_threads : {1, 5}) {
    const BackendUnderTest made = MakeBackend(GetParam(), n_threads);
    for (const int64_t chunk : {int64_t{1}, kRows}) {
      RingSequence sequence(tokens, kWindow);
      (void)sequence.Step(*made.backend, 0, kN - kRows);
      std::vector<float> all;
      for (int64_t first = kN - kRows; first < kN; first += chunk) {
        const auto out = sequence.Step(*made.backend, first, chunk);
        all.insert(all.end(), out.begin(), out.end());
      }
      results.push_back(Bits(all));
      ExpectRow(tokens, all.data() + (kRows - 1) * tokens.QDim(), kN - 1,
                Keys(kN - kWindow, kN));
    }
  }
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST_P(AttentionSpansTest, RingsGiveTheSameBitsAndTheRightOnes) {
  RandomData random(62);
  for (const int64_t window : {300, 1'100}) {
    const int64_t n = 2 * window + 50;
    const Tokens tokens = MakeTokens(random, n, {4, 1, 32});
    std::vector<std::vector<uint32_t>> results;
    for (const int n_threads : {1, 2, 5}) {
      if (IsCuda(GetParam()) && n_threads > 1) break;  // it has none
      const BackendUnderTest made = MakeBackend(GetParam(), n_threads);
      // The prompt at once, then row by row; or all but the last in chunks.
      for (const int64_t chunk : {int64_t{1}, int64_t{50}}) {
        RingSequence sequence(tokens, window);
        (void)sequence.Step(*made.backend, 0, n - 50);
        std::vector<float> all;
        for (int64_t first = n - 50; first < n; first += chunk) {
          const auto out = sequence.StepOfLive(
              *made.backend, /*live_begin=*/n - window, first, chunk);
          all.insert(all.end(), out.begin(), out.end());
        }
        results.push_back(Bits(all));
        ExpectRow(tokens, all.data() + 49 * tokens.QDim(), n - 1,
                  Keys(n - window, n));
      }
    }
    for (const auto& result : results) EXPECT_EQ(result, results[0]);
  }
}

// A kernel may read a live row in place of one that is not there; a value that
// is infinite would make that one's weight of zero not a number.
TEST_P(AttentionSpansTest, KeysThatAreNotThereAddNothingToInfiniteValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  RandomData random(66);
  for (const int64_t head_dim : {16, 64, 80, 256, 320}) {
    SCOPED_TRACE(head_dim);
    Tokens tokens =
        MakeTokens(random, 3, {2, 1, head_dim, DType::kF32, DType::kF32});
    std::fill(tokens.v.begin() + 2 * tokens.KvDim(), tokens.v.end(), kInfinity);
    PagedSequence pages(tokens, 3, 64);
    pages.Append(backend(), 0, 3);
    RingSequence ring(tokens, 10);
    (void)ring.Step(backend(), 0, 2);
    for (const std::vector<float>& out :
         {pages.Attend(backend(), 2, 1, pages.Table(3)),
          ring.Step(backend(), 2, 1)}) {
      EXPECT_THAT(out, ::testing::Each(kInfinity));
    }
  }
}

// The reference has neither spans nor threads.
std::vector<std::string> NamesWithSpans() {
  std::vector<std::string> names = BackendNames();
  names.erase(names.begin());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Backends, AttentionSpansTest,
                         ::testing::ValuesIn(NamesWithSpans()),
                         BackendTestName);

// Segments without data: only their numbers count here.
struct Shape {
  std::vector<std::vector<PageEntry>> tables;
  std::vector<AttentionSegment> segments;
  AttentionArgs args = {};
};

Shape RandomShape(RandomData& random) {
  Shape shape;
  shape.args.is_ring = random.Integer(0, 1) == 1;
  shape.args.n_kv_heads = random.Integer(1, 4);
  shape.args.n_heads = shape.args.n_kv_heads * random.Integer(1, 40);
  shape.args.head_dim = 16 * random.Integer(1, 32);
  const int64_t n_segments = random.Integer(1, 6);
  const int64_t window = random.Integer(1, 2'000);
  int64_t row = 0;
  for (int64_t s = 0; s < n_segments; ++s) {
    const int64_t first = random.Integer(0, 10'000);
    const int64_t n_rows =
        random.Integer(0, 2) == 0 ? random.Integer(2, 40) : 1;
    std::vector<PageEntry>& table = shape.tables.emplace_back();
    for (int64_t p = 0; p <= first + n_rows - 1; p += 64) {
      table.push_back({p, 0, 0, 64, false});
    }
    shape.segments.push_back(
        {row, n_rows, first, {}, {nullptr, nullptr, window}, 0});
    row += n_rows;
  }
  for (size_t s = 0; s < shape.segments.size(); ++s) {
    if (!shape.args.is_ring) shape.segments[s].pages = shape.tables[s];
  }
  shape.args.segments = shape.segments;
  return shape;
}

TEST(AttentionTasksTest, EveryRowAndHeadHasEverySpanOnce) {
  RandomData random(63);
  for (int round = 0; round < 2'000; ++round) {
    const Shape shape = RandomShape(random);
    const auto n_threads = static_cast<int>(random.Integer(1, 20));
    const cpu::AttentionSplit split =
        cpu::SplitAttention(shape.args, n_threads);
    std::map<std::pair<int64_t, int64_t>, std::set<int64_t>> spans;
    for (int64_t i = 0; i < split.n_tasks; ++i) {
      const cpu::AttentionTask task =
          cpu::AttentionTaskAt(shape.args, split, i);
      ASSERT_LE(task.n_rows * task.n_heads,
                task.n_kv_heads == 1 ? cpu::kMaxQueries : cpu::kMaxRowQueries);
      ASSERT_LE(task.n_rows * task.n_heads * shape.args.ValueDim(),
                cpu::kSumFloats);
      ASSERT_GT(task.n_rows * task.n_heads, 0);
      ASSERT_TRUE(task.n_spans == 1 || task.n_rows == 1);
      ASSERT_TRUE(task.n_kv_heads == 1 || task.n_rows == 1);
      for (int64_t r = 0; r < task.n_rows; ++r) {
        for (int64_t h = 0; h < task.n_heads; ++h) {
          const int64_t row = task.segment->first_row + task.first_row + r;
          const int64_t head = task.first_head + h;
          const int64_t kv_head =
              head / (shape.args.n_heads / shape.args.n_kv_heads);
          ASSERT_GE(kv_head, task.kv_head);
          ASSERT_LT(kv_head, task.kv_head + task.n_kv_heads);
          ASSERT_TRUE(spans[std::pair(row, head)].insert(task.span).second);
        }
      }
      if (task.n_spans == 1) continue;
      const cpu::RowBlocks blocks = cpu::RowBlocksAt(
          shape.args, *task.segment, task.segment->first_position);
      ASSERT_EQ(task.n_spans, blocks.n_spans());
      ASSERT_LE(task.n_spans, cpu::kMaxSpans + 1);
      ASSERT_LT(task.span, task.n_spans);
    }
    const AttentionSegment& last = shape.segments.back();
    const int64_t n_rows = last.first_row + last.n_rows;
    ASSERT_EQ(static_cast<int64_t>(spans.size()), n_rows * shape.args.n_heads);
    if (split.has_spans) {
      ASSERT_LE(split.n_tasks * cpu::SpanFloats(shape.args, split),
                cpu::PartialFloats(n_threads));
    }
  }
}

// Memory is read fastest in its order, and rows of all KV heads lie together.
TEST(AttentionTasksTest, ADecodingRowTakesAllKvHeadsWhereThreadsHaveEnough) {
  std::vector<PageEntry> table;
  for (int64_t p = 0; p < 100'000; p += 64) {
    table.push_back({p, 0, 0, 64, false});
  }
  AttentionArgs args = {};
  args.n_heads = 16;
  args.n_kv_heads = 4;
  args.head_dim = 256;
  const auto kv_heads = [&](int64_t n_keys, int n_threads) {
    const auto n_pages = static_cast<size_t>((n_keys + 63) / 64);
    const AttentionSegment segment = {
        0, 1, n_keys - 1, std::span(table).first(n_pages), {}, 0};
    args.segments = {&segment, 1};
    const cpu::AttentionSplit split = cpu::SplitAttention(args, n_threads);
    return cpu::AttentionTaskAt(args, split, 0).n_kv_heads;
  };
  for (const int64_t n_keys : {4'096, 65'536, 80'000, 100'000}) {
    EXPECT_EQ(kv_heads(n_keys, 1), 4) << n_keys;
    EXPECT_EQ(kv_heads(n_keys, 2), 4) << n_keys;
    EXPECT_EQ(kv_heads(n_keys, 16), 1) << n_keys;
  }
  EXPECT_EQ(kv_heads(512, 2), 1);
}

// 3 tiles of 4 rows would leave one of two threads half of the time idle.
TEST(AttentionTasksTest, AFewRowsAreSharedEvenly) {
  std::vector<PageEntry> table;
  for (int64_t p = 0; p < 2'048; p += 64) table.push_back({p, 0, 0, 64, false});
  const AttentionSegment segment = {0, 12, 2'000, table, {}, 0};
  AttentionArgs args = {};
  args.n_heads = 4;
  args.n_kv_heads = 1;
  args.head_dim = 256;
  args.segments = {&segment, 1};
  for (const int n_threads : {2, 3, 4}) {
    const cpu::AttentionSplit split = cpu::SplitAttention(args, n_threads);
    std::vector<int64_t> queries(static_cast<size_t>(n_threads));
    for (int64_t i = 0; i < split.n_tasks; ++i) {
      const cpu::AttentionTask task = cpu::AttentionTaskAt(args, split, i);
      *std::min_element(queries.begin(), queries.end()) +=
          task.n_rows * task.n_heads;
    }
    EXPECT_LE(*std::max_element(queries.begin(), queries.end()),
              48 / n_threads + 4)
        << n_threads;
  }
}

}  // namespace
}  // namespace plimsoll::kernels
