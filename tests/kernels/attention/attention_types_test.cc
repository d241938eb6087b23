// Attention over every pair of cache types that matters: against listed keys,
// and the same bits however a prompt is cut.
#include <algorithm>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/kernels/attention/attention_fixture.h"
#include "tests/sanitized.h"

namespace plimsoll::kernels {
namespace {

struct KvTypes {
  DType k;
  DType v;
};

class AttentionTypesTest
    : public ::testing::TestWithParam<std::tuple<std::string, KvTypes>> {
 protected:
  AttentionTypesTest() : made_(MakeBackend(std::get<0>(GetParam()), 2)) {}
  void SetUp() override {
    if (made_.backend == nullptr) GTEST_SKIP() << "there is no CUDA device";
  }
  ~AttentionTypesTest() override {
    made_ = {};
    EXPECT_TRUE(SetCpuTarget("").ok());
  }
  Backend& backend() { return *made_.backend; }

  static Tokens Make(RandomData& random, int64_t n, int64_t head_dim) {
    const KvTypes types = std::get<1>(GetParam());
    return MakeTokens(random, n, {4, 2, head_dim, types.k, types.v});
  }

  BackendUnderTest made_;
};

constexpr int64_t kHeadDims[] = {64, 128, 256};

TEST_P(AttentionTypesTest, PagesAndBothRotationsAgreeWithPlainArithmetic) {
  RandomData random(40);
  constexpr int64_t kN = 150;
  for (const int64_t head_dim : kHeadDims) {
    SCOPED_TRACE(head_dim);
    const Tokens tokens = Make(random, kN, head_dim);
    PagedSequence sequence(tokens, kN, 64);
    sequence.Append(backend(), 0, kN);
    // Tokens 0..19 are the pinned prefix; 20..69 are evicted.
    auto table = sequence.Table(kN);
    table[0].is_prefix = true;
    table[0].live_end = 20;
    table[1].live_begin = 6;
    const auto out = sequence.Attend(backend(), 120, 30, table);
    for (int64_t row = 120; row < kN; ++row) {
      std::vector<SeenKey> keys = PrefixKeys(0, 20);
      for (const SeenKey& key : Keys(70, row + 1)) keys.push_back(key);
      ExpectRow(tokens, out.data() + (row - 120) * tokens.QDim(), row, keys);
    }
  }
}

// Groups of heads that fill the columns of a product, and that need two tasks.
TEST_P(AttentionTypesTest, WideGroupsAgreeWithPlainArithmetic) {
  RandomData random(44);
  constexpr int64_t kN = 200;
  const KvTypes types = std::get<1>(GetParam());
  for (const int64_t group : {1, 3, 6, 8, 12}) {
    for (const int64_t head_dim : kHeadDims) {
      SCOPED_TRACE(::testing::Message() << group << " of " << head_dim);
      const Tokens tokens =
          MakeTokens(random, kN, {2 * group, 2, head_dim, types.k, types.v});
      PagedSequence sequence(tokens, kN, 64);
      sequence.Append(backend(), 0, kN);
      const auto out =
          sequence.Attend(backend(), kN - 3, 3, sequence.Table(kN));
      for (int64_t row = kN - 3; row < kN; ++row) {
        ExpectRow(tokens, out.data() + (row - kN + 3) * tokens.QDim(), row,
                  Keys(0, row + 1));
      }
    }
  }
}

TEST_P(AttentionTypesTest, RingsAgreeWithPlainArithmetic) {
  RandomData random(41);
  constexpr int64_t kN = 150;
  constexpr int64_t kWindow = 75;
  for (const int64_t head_dim : kHeadDims) {
    SCOPED_TRACE(head_dim);
    const Tokens tokens = Make(random, kN, head_dim);
    ExpectWindows(backend(), tokens, kWindow, {90, 1, 59});
  }
}

TEST_P(AttentionTypesTest, SoftCapAndSinksHoldInPagesAndRings) {
  RandomData random(43);
  constexpr int64_t kN = 90;
  constexpr int64_t kWindow = 40;
  Tokens tokens = Make(random, kN, 64);
  PagedSequence pages(tokens, kN, 64);
  pages.Append(backend(), 0, kN);
  auto table = pages.Table(kN);
  table[0].is_prefix = true;
  table[0].live_end = 20;
  for (const ScoreChange& change : kScoreChanges) {
    SCOPED_TRACE(::testing::Message()
                 << change.soft_cap << (change.has_sinks ? " sinks" : ""));
    ChangeScores(random, change, tokens);
    const auto of_pages = pages.Attend(backend(), 80, 10, table);
    RingSequence ring(tokens, kWindow);
    (void)ring.Step(backend(), 0, 79);
    (void)ring.Step(backend(), 79, 1);
    const auto of_ring = ring.Step(backend(), 80, 10);
    for (int64_t row = 80; row < kN; ++row) {
      std::vector<SeenKey> keys = PrefixKeys(0, 20);
      for (const SeenKey& key : Keys(64, row + 1)) keys.push_back(key);
      const int64_t at = (row - 80) * tokens.QDim();
      ExpectRow(tokens, of_pages.data() + at, row, keys);
      ExpectRow(tokens, of_ring.data() + at, row,
                Keys(row - kWindow + 1, row + 1));
    }
  }
}

TEST_P(AttentionTypesTest, ChunksChangeNoBitInPagesOrRings) {
  if (std::get<0>(GetParam()) == kReferenceName) {
    GTEST_SKIP() << "the reference takes rows one by one, and its time";
  }
  RandomData random(42);
  constexpr int64_t kN = 140;
  for (const int64_t head_dim : kHeadDims) {
    const Tokens tokens = Make(random, kN, head_dim);
    std::vector<std::vector<uint32_t>> pages;
    std::vector<std::vector<uint32_t>> rings;
    for (const int64_t chunk : {int64_t{1}, int64_t{7}, int64_t{64}, kN}) {
      // The emulator takes minutes over rows that come one by one.
      const std::string& name = std::get<0>(GetParam());
      if (chunk == 1 && IsEmulated(name) &&
          (HasTensorAttention(name) || !testing::kIsLong)) {
        continue;
      }
      PagedSequence paged(tokens, kN, 64);
      RingSequence ring(tokens, 90);
      std::vector<float> of_pages;
      std::vector<float> of_rings;
      for (int64_t first = 0; first < kN; first += chunk) {
        const int64_t n = std::min(chunk, kN - first);
        paged.Append(backend(), first, n);
        for (const float x :
             paged.Attend(backend(), first, n, paged.Table(first + n))) {
          of_pages.push_back(x);
        }
        for (const float x : ring.Step(backend(), first, n)) {
          of_rings.push_back(x);
        }
      }
      pages.push_back(Bits(of_pages));
      rings.push_back(Bits(of_rings));
    }
    for (size_t i = 1; i < pages.size(); ++i) {
      EXPECT_EQ(pages[i], pages[0]) << "head_dim " << head_dim << " cut " << i;
      EXPECT_EQ(rings[i], rings[0]) << "head_dim " << head_dim << " cut " << i;
    }
  }
}

std::string TestName(
    const ::testing::TestParamInfo<std::tuple<std::string, KvTypes>>& test) {
  const auto& [backend, types] = test.param;
  return absl::StrCat(backend, "_", DTypeName(types.k), "_",
                      DTypeName(types.v));
}

// Each type once as keys and once as values. The long run has more pairs.
std::vector<KvTypes> TestedTypes() {
  std::vector<KvTypes> types = {
      {DType::kF16, DType::kF16},   {DType::kQ8_0, DType::kQ8_0},
      {DType::kF32, DType::kBF16},  {DType::kBF16, DType::kF32},
      {DType::kQ4_0, DType::kQ5_1}, {DType::kQ5_1, DType::kQ4_0}};
  if (testing::kIsSanitized || !testing::kIsLong) return types;
  for (const KvTypes more : {KvTypes{DType::kF32, DType::kF32},
                             {DType::kBF16, DType::kBF16},
                             {DType::kQ8_0, DType::kF16},
                             {DType::kF16, DType::kBF16},
                             {DType::kF32, DType::kQ8_0}}) {
    types.push_back(more);
  }
  return types;
}

INSTANTIATE_TEST_SUITE_P(
    Backends, AttentionTypesTest,
    ::testing::Combine(::testing::ValuesIn(AttentionBackendNames()),
                       ::testing::ValuesIn(TestedTypes())),
    TestName);

}  // namespace
}  // namespace plimsoll::kernels
