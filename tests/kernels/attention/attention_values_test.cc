// Attention whose values are narrower than its keys, and values that are the
// beginnings of keys: against listed keys, and the same bits however a prompt
// is cut.
#include <algorithm>
#include <string>

#include "tests/kernels/attention/attention_fixture.h"

namespace plimsoll::kernels {
namespace {

using AttentionValuesTest = BackendTest;

struct ValuesCase {
  HeadShape heads;
  int64_t value_dim;
  bool are_keys;  // values are rows of keys
  int64_t n = 40;
  int64_t page = 64;
};

Tokens TokensOf(RandomData& random, const ValuesCase& c) {
  Tokens tokens = MakeTokens(random, c.n, c.heads);
  tokens.value_dim = c.value_dim;
  if (c.are_keys) tokens.v.clear();
  return tokens;
}

constexpr auto kF32 = DType::kF32;
constexpr auto kF16 = DType::kF16;
constexpr auto kBF16 = DType::kBF16;
constexpr auto kQ80 = DType::kQ8_0;
constexpr auto kQ51 = DType::kQ5_1;
constexpr auto kQ40 = DType::kQ4_0;
constexpr ValuesCase kCases[] = {
    {{4, 1, 48, kF32, kF32}, 32, true, 70, 16},
    {{6, 2, 64, kF16, kF32}, 16, false},
    {{5, 1, 128, kBF16, kBF16}, 112, true},
    {{4, 2, 256, kF16, kQ80}, 224, false},
    {{3, 1, 512, kF16, kF16}, 256, true},
    {{2, 1, 576, kF32, kF32}, 512, true},
    {{16, 1, 576, kF16, kF16}, 512, true, 20},
    {{2, 2, 576, kQ80, kQ80}, 512, true, 20},
    {{5, 1, 576, kQ40, kQ40}, 512, true, 20},
    {{2, 1, 96, kQ51, kQ51}, 64, true},
    {{1, 1, 528, kF16, kBF16}, 496, false, 20},
};

TEST_P(AttentionValuesTest, PagesAgreeWithPlainArithmetic) {
  RandomData random(50);
  for (const ValuesCase& c : kCases) {
    SCOPED_TRACE(::testing::Message()
                 << c.heads.head_dim << " and " << c.value_dim);
    const Tokens tokens = TokensOf(random, c);
    PagedSequence sequence(tokens, c.n, c.page);
    sequence.Append(backend(), 0, c.n);
    const auto out = sequence.Attend(backend(), 0, c.n, sequence.Table(c.n));
    for (int64_t row = 0; row < c.n; ++row) {
      ExpectRow(tokens, out.data() + row * tokens.OutDim(), row,
                Keys(0, row + 1));
    }
  }
}

TEST_P(AttentionValuesTest, RingsAgreeWithPlainArithmetic) {
  RandomData random(51);
  constexpr int64_t kWindow = 40;
  const ValuesCase c = {{4, 2, 64}, 48, false, 90};
  const Tokens tokens = TokensOf(random, c);
  ExpectWindows(backend(), tokens, kWindow, {60, 1, 29});
}

// A decode's keys are reduced in spans; a rolled context has both rotations.
TEST_P(AttentionValuesTest, ALongRowAgreesToo) {
  RandomData random(52);
  for (const ValuesCase& c : {ValuesCase{{20, 1, 576}, 512, true, 400},
                              {{6, 1, 48}, 32, true, 400}}) {
    Tokens tokens = TokensOf(random, c);
    PagedSequence sequence(tokens, c.n, c.page);
    sequence.Append(backend(), 0, c.n);
    auto table = sequence.Table(c.n);
    table[0].is_prefix = true;
    table[0].live_end = 20;
    table[1].live_begin = 6;
    std::vector<SeenKey> keys = PrefixKeys(0, 20);
    for (const SeenKey& key : Keys(70, c.n)) keys.push_back(key);
    for (const float soft_cap : {0.0f, 5.0f}) {
      tokens.soft_cap = soft_cap;
      const auto out = sequence.Attend(backend(), c.n - 1, 1, table);
      ExpectRow(tokens, out.data(), c.n - 1, keys);
    }
  }
}

// Cuts a prompt in three ways, each for another number of threads.
void ExpectSameBits(const std::string& backend, const ValuesCase& c) {
  RandomData random(53);
  const Tokens tokens = TokensOf(random, c);
  std::vector<std::vector<uint32_t>> results;
  for (const auto& [chunk, n_threads] :
       {std::pair<int64_t, int>{7, 1}, {64, 2}, {c.n, 3}}) {
    const BackendUnderTest made = MakeBackend(backend, n_threads);
    PagedSequence sequence(tokens, c.n, c.page);
    std::vector<float> all;
    for (int64_t first = 0; first < c.n; first += chunk) {
      const int64_t n = std::min(chunk, c.n - first);
      sequence.Append(*made.backend, first, n);
      const auto out =
          sequence.Attend(*made.backend, first, n, sequence.Table(first + n));
      all.insert(all.end(), out.begin(), out.end());
    }
    results.push_back(Bits(all));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_P(AttentionValuesTest, ChunksAndThreadsChangeNoBit) {
  for (const DType type : {kQ80, kQ40}) {
    SCOPED_TRACE(DTypeName(type));
    ExpectSameBits(GetParam(), {{6, 1, 576, type, type}, 512, true, 80});
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, AttentionValuesTest,
                         ::testing::ValuesIn(AttentionBackendNames()),
                         BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
