// Attention: masks, rings, pages and both rotations against an explicit list
// of keys, and the same bits however a prompt is cut.
#include <algorithm>
#include <cmath>

#include "tests/kernels/attention/attention_fixture.h"

namespace plimsoll::kernels {
namespace {

using AttentionTest = BackendTest;

// Compares all `n` rows with their tokens in pages of `page_tokens`.
void ExpectPages(Backend& backend, const Tokens& tokens, int64_t n,
                 int64_t page_tokens) {
  PagedSequence sequence(tokens, n, page_tokens);
  sequence.Append(backend, 0, n);
  const auto out = sequence.Attend(backend, 0, n, sequence.Table(n));
  for (int64_t row = 0; row < n; ++row) {
    ExpectRow(tokens, out.data() + row * tokens.OutDim(), row,
              Keys(0, row + 1));
  }
}

TEST_P(AttentionTest, PagesGiveCausalAttentionForEveryShape) {
  RandomData random(30);
  struct Case {
    int64_t n, heads, kv_heads, head_dim, page;
    DType k_type, v_type;
  };
  for (const Case& c : {Case{1, 1, 1, 16, 16, DType::kF32, DType::kF32},
                        {70, 9, 3, 64, 64, DType::kF16, DType::kF16},
                        {131, 4, 1, 256, 64, DType::kF16, DType::kF16},
                        {33, 8, 8, 48, 16, DType::kF16, DType::kF32},
                        {40, 32, 1, 32, 64, DType::kF32, DType::kF16},
                        {20, 2, 1, 512, 32, DType::kF16, DType::kF16}}) {
    const Tokens tokens = MakeTokens(
        random, c.n, {c.heads, c.kv_heads, c.head_dim, c.k_type, c.v_type});
    ExpectPages(backend(), tokens, c.n, c.page);
  }
}

TEST_P(AttentionTest, PagesGiveTheSameBitsHoweverThePromptIsCut) {
  RandomData random(31);
  constexpr int64_t kN = 200;
  const Tokens tokens = MakeTokens(random, kN, {6, 2, 64});
  std::vector<std::vector<uint32_t>> results;
  for (const int64_t chunk : {int64_t{1}, int64_t{7}, int64_t{64}, kN}) {
    PagedSequence sequence(tokens, kN, 64);
    std::vector<float> all;
    for (int64_t first = 0; first < kN; first += chunk) {
      const int64_t n = std::min(chunk, kN - first);
      sequence.Append(backend(), first, n);
      const auto out =
          sequence.Attend(backend(), first, n, sequence.Table(first + n));
      all.insert(all.end(), out.begin(), out.end());
    }
    results.push_back(Bits(all));
  }
  for (size_t i = 1; i < results.size(); ++i) {
    EXPECT_EQ(results[i], results[0]) << "cut " << i;
  }
}

TEST_P(AttentionTest, EvictedTokensAreNotSeenAndPrefixPagesMeetTheirOwnQuery) {
  RandomData random(32);
  constexpr int64_t kN = 150;
  constexpr int64_t kPage = 16;
  const Tokens tokens = MakeTokens(random, kN, {4, 2, 32});
  PagedSequence sequence(tokens, kN, kPage);
  sequence.Append(backend(), 0, kN);
  // Tokens 0..19 are the pinned prefix; 20..85 are evicted.
  std::vector<PageEntry> table;
  for (PageEntry entry : sequence.Table(kN)) {
    const int64_t first = entry.first_position;
    entry.is_prefix = first < 32;
    if (first == 16) entry.live_end = 4;
    if (first == 80) entry.live_begin = 6;
    if (first >= 32 && first < 80) continue;
    table.push_back(entry);
  }
  const auto out = sequence.Attend(backend(), 140, 10, table);
  for (int64_t row = 140; row < kN; ++row) {
    std::vector<SeenKey> keys = PrefixKeys(0, 20);
    for (const SeenKey& key : Keys(86, row + 1)) keys.push_back(key);
    ExpectRow(tokens, out.data() + (row - 140) * tokens.QDim(), row, keys);
  }
}

TEST_P(AttentionTest, TwoRotationsOfQueryEqualKeysMovedCloser) {
  // Keys rotated at their own positions; the prefix must look 1000 positions
  // closer than it is, as if the query stood there.
  RandomData random(33);
  constexpr int64_t kN = 40;
  constexpr int64_t kEvicted = 1000;
  Tokens tokens = MakeTokens(random, kN, {2, 1, 32, DType::kF32, DType::kF32});
  const auto plain_q = tokens.q;
  const auto plain_k = tokens.k;
  const auto rotate = [&](const std::vector<float>& x, int64_t heads,
                          const std::vector<int64_t>& positions) {
    std::vector<float> angles(positions.size() * 32);
    std::vector<float> out(x.size());
    EXPECT_TRUE(backend()
                    .RopeAngles({positions.data(), kN, 32, 10000.0, 1.0,
                                 nullptr, 1.0f, angles.data()})
                    .ok());
    EXPECT_TRUE(backend()
                    .Rope({x.data(), angles.data(), out.data(), kN, heads, 32,
                           32, RopeStyle::kNeox})
                    .ok());
    return out;
  };
  // Tokens 0..15 keep positions 0..15; the rest stand 1000 later.
  std::vector<int64_t> absolute;
  std::vector<int64_t> moved;
  for (int64_t t = 0; t < kN; ++t) {
    absolute.push_back(t < 16 ? t : t + kEvicted);
    moved.push_back(t);
  }
  tokens.q = rotate(plain_q, 2, absolute);
  tokens.q_prefix = rotate(plain_q, 2, moved);
  tokens.k = rotate(plain_k, 1, absolute);
  PagedSequence sequence(tokens, kN, 16);
  sequence.Append(backend(), 0, kN);
  auto table = sequence.Table(kN);
  table[0].is_prefix = true;
  const auto twice = sequence.Attend(backend(), 16, kN - 16, table);
  tokens.q = rotate(plain_q, 2, moved);
  tokens.k = rotate(plain_k, 1, moved);
  for (int64_t row = 16; row < kN; ++row) {
    const auto expected = Expected(tokens, row, Keys(0, row + 1));
    for (size_t i = 0; i < expected.size(); ++i) {
      // Angles are rounded to float32 once each: 2^-24 of every product.
      EXPECT_NEAR(twice[static_cast<size_t>(row - 16) * 64 + i], expected[i],
                  3e-5);
    }
  }
}

TEST_P(AttentionTest, ARingRowSeesExactlyItsWindowItselfIncluded) {
  RandomData random(34);
  constexpr int64_t kN = 150;
  const Tokens tokens = MakeTokens(random, kN, {4, 1, 32});
  for (const int64_t window : {1, 31, 32, 33, 64, 149, 150, 151}) {
    ExpectWindows(backend(), tokens, window, {60, 1, 89});
  }
}

TEST_P(AttentionTest, RingsGiveTheSameBitsHoweverThePromptIsCut) {
  RandomData random(35);
  constexpr int64_t kN = 600;
  const Tokens tokens = MakeTokens(random, kN, {4, 1, 64});
  for (const int64_t window : {int64_t{100}, int64_t{128}}) {
    std::vector<std::vector<uint32_t>> results;
    for (const int64_t chunk : {1, 7, 64, 512}) {
      // The emulator takes half a minute over rows that come one by one.
      if (chunk == 1 && GetParam() == kCudaEmulatedGroupName) continue;
      RingSequence sequence(tokens, window);
      std::vector<float> all;
      for (int64_t first = 0; first < kN; first += chunk) {
        const auto out = sequence.Step(backend(), first,
                                       std::min<int64_t>(chunk, kN - first));
        all.insert(all.end(), out.begin(), out.end());
      }
      results.push_back(Bits(all));
    }
    for (size_t i = 1; i < results.size(); ++i) {
      EXPECT_EQ(results[i], results[0]) << "window " << window << " cut " << i;
    }
  }
}

TEST_P(AttentionTest, EvictedCellsOfARingAreMasked) {
  RandomData random(36);
  const Tokens tokens = MakeTokens(random, 90, {2, 1, 16});
  RingSequence sequence(tokens, 64);
  (void)sequence.Step(backend(), 0, 80);
  const auto out = sequence.StepOfLive(backend(), /*live_begin=*/70, 80, 10);
  for (int64_t row = 80; row < 90; ++row) {
    ExpectRow(tokens, out.data() + (row - 80) * tokens.QDim(), row,
              Keys(70, row + 1));
  }
}

TEST_P(AttentionTest, SeveralSequencesInAStepDoNotMixAndThreadsChangeNoBit) {
  RandomData random(37);
  constexpr int64_t kN = 100;
  const Tokens tokens = MakeTokens(random, kN, {4, 1, 64});
  std::vector<std::vector<uint32_t>> results;
  for (const int n_threads : {1, 2, 3}) {
    const BackendUnderTest made = MakeBackend(GetParam(), n_threads);
    PagedSequence sequence(tokens, kN, 64);
    sequence.Append(*made.backend, 0, kN);
    // Two segments: rows 0..29 as a prompt, row 30 as the decode of token 99.
    const auto prompt = sequence.Table(30);
    const auto decode = sequence.Table(kN);
    std::vector<float> q(tokens.q.begin(),
                         tokens.q.begin() + 30 * tokens.QDim());
    q.insert(q.end(), tokens.q.begin() + 99 * tokens.QDim(), tokens.q.end());
    std::vector<float> out(q.size());
    AttentionArgs args = CommonArgs(tokens, 0, out.data());
    args.q = q.data();
    args.q_prefix = q.data();
    const AttentionSegment segments[] = {{0, 30, 0, prompt, {}, 0},
                                         {30, 1, 99, decode, {}, 0}};
    args.segments = segments;
    args.paged = sequence.kv();
    ASSERT_TRUE(made.backend->Attention(args).ok());
    results.push_back(Bits(out));
    // The decode row alone, where heads are split among threads.
    const auto alone = sequence.Attend(*made.backend, 99, 1, decode);
    EXPECT_EQ(Bits(alone),
              Bits(out.data() + 30 * tokens.QDim(), tokens.QDim()));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_P(AttentionTest, ScoresFarApartStayFinite) {
  RandomData random(38);
  Tokens tokens = MakeTokens(random, 70, {1, 1, 16, DType::kF32, DType::kF32});
  for (float& value : tokens.q) value *= 1000;
  PagedSequence sequence(tokens, 70, 64);
  sequence.Append(backend(), 0, 70);
  for (const float value :
       sequence.Attend(backend(), 0, 70, sequence.Table(70))) {
    EXPECT_TRUE(std::isfinite(value));
    EXPECT_LE(std::abs(value), 3.0f);
  }
}

// The weights of scores, to which a soft-cap unless it is 0 and a sink, if
// there is one, belong; and the largest score in size, whose rounding counts.
struct ExpectedWeights {
  std::vector<double> weights;
  double largest;
};

ExpectedWeights WeightsOf(const std::vector<double>& scores, double cap,
                          const double* sink) {
  ExpectedWeights expected = {{}, 0};
  double total = sink == nullptr ? 0 : std::exp(*sink);
  for (const double score : scores) {
    const double capped = cap == 0 ? score : cap * std::tanh(score / cap);
    expected.largest = std::max(expected.largest, std::abs(capped));
    expected.weights.push_back(std::exp(capped));
    total += expected.weights.back();
  }
  for (double& weight : expected.weights) weight /= total;
  return expected;
}

// Queries and keys have one element each, so that scores are exact, and each
// key a value that shows its weight.
TEST_P(AttentionTest, WeightsFollowTheFormulaOfSoftCapAndSinks) {
  constexpr float kKeys[] = {0, 0x1p-10f, -0.5f, 1, 3, -3, 30, -30};
  constexpr float kQueries[] = {8, -80};
  constexpr double kSinks[] = {1.5, -2};
  constexpr size_t kN = 8;
  RandomData random(43);
  Tokens tokens = MakeTokens(random, kN, {2, 1, 16});
  for (auto* x : {&tokens.q, &tokens.q_prefix, &tokens.k, &tokens.v}) {
    std::fill(x->begin(), x->end(), 0.0f);
  }
  for (size_t t = 0; t < kN; ++t) {
    tokens.q[t * 32] = kQueries[0];
    tokens.q[t * 32 + 16] = kQueries[1];
    tokens.k[t * 16] = kKeys[t];
    tokens.v[t * 16 + t] = 1;
  }
  PagedSequence sequence(tokens, kN, 64);
  sequence.Append(backend(), 0, kN);
  // Under the largest cap scores are as good as they are without.
  for (const float cap : {0.0f, 0.5f, 5.0f, 50.0f, 1e6f}) {
    for (const bool has_sinks : {false, true}) {
      tokens.soft_cap = cap;
      tokens.sinks.assign(kSinks, kSinks + (has_sinks ? 2 : 0));
      const auto out = sequence.Attend(backend(), 0, kN, sequence.Table(kN));
      for (size_t i = 0; i < 2 * kN; ++i) {  // heads of rows
        std::vector<double> scores;
        for (size_t t = 0; t <= i / 2; ++t) {
          scores.push_back(double{kQueries[i % 2]} * kKeys[t] / 4);
        }
        const auto [weights, largest] =
            WeightsOf(scores, cap, has_sinks ? &kSinks[i % 2] : nullptr);
        for (size_t t = 0; t < weights.size(); ++t) {
          // A quotient, a tanh and a product: some 8 units in the last place.
          double tolerance = largest * 0x1p-24 * 8 + 1e-6;
          // In F16 a weight loses up to 2^-11, and a fast tanh 2^-20.
          if (RoundsToHalves(tokens)) tolerance += largest * 0x1p-19 + 0x1p-11;
          ASSERT_NEAR(out[i * 16 + t], weights[t], tolerance)
              << "cap " << cap << " row " << i / 2 << " key " << t
              << (has_sinks ? " with sinks" : "");
        }
      }
    }
  }
}

TEST_P(AttentionTest, SoftCapAndSinksHoldForEveryShape) {
  RandomData random(44);
  struct Case {
    int64_t n, heads, kv_heads, head_dim, page;
  };
  for (const Case& c : {Case{33, 8, 8, 48, 16},
                        {20, 32, 1, 32, 64},
                        {20, 6, 2, 128, 64},
                        {20, 4, 1, 256, 64},
                        {20, 2, 1, 512, 32}}) {
    Tokens tokens = MakeTokens(random, c.n, {c.heads, c.kv_heads, c.head_dim});
    ChangeScores(random, {5, true}, tokens);
    ExpectPages(backend(), tokens, c.n, c.page);
  }
}

TEST_P(AttentionTest, ASinkFarFromTheScoresTakesAllOrNothing) {
  RandomData random(45);
  constexpr int64_t kN = 300;
  Tokens tokens = MakeTokens(random, kN, {4, 2, 32});
  PagedSequence sequence(tokens, kN, 64);
  sequence.Append(backend(), 0, kN);
  const auto table = sequence.Table(kN);
  // Alone, where keys are reduced in spans, and in a chunk.
  for (const int64_t n_rows : {1, 30}) {
    const auto attend = [&](float sink) {
      tokens.sinks.assign(4, sink);
      return sequence.Attend(backend(), kN - n_rows, n_rows, table);
    };
    for (const float sink : {90.0f, 200.0f, 1e30f}) {
      for (const float x : attend(sink)) {
        ASSERT_LE(std::abs(x), 1e-30f) << sink;  // not if it is NaN
      }
    }
    tokens.sinks.clear();
    const auto without =
        Bits(sequence.Attend(backend(), kN - n_rows, n_rows, table));
    for (const float sink : {-200.0f, -1e30f, -HUGE_VALF}) {
      EXPECT_EQ(Bits(attend(sink)), without) << sink;
    }
  }
}

TEST_P(AttentionTest, RefusesShapesOutsideOfItsLimits) {
  float value = 0;
  AttentionArgs args = {};
  args.q = args.q_prefix = &value;
  args.out = &value;
  args.n_heads = 4;
  args.n_kv_heads = 2;
  args.head_dim = kMaxHeadDim;
  args.k_type = args.v_type = DType::kF16;
  args.paged.page_tokens = kAttentionBlock;
  EXPECT_TRUE(backend().Attention(args).ok());  // no segment
  args.value_dim = kMaxHeadDim;
  args.head_dim = kMaxKeyDim;
  EXPECT_TRUE(backend().Attention(args).ok());
  const auto code_with = [&](auto change) {
    AttentionArgs changed = args;
    change(changed);
    return backend().Attention(changed).code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code_with([](auto& a) { a.head_dim = kMaxKeyDim + 16; }), kInvalid);
  for (const int64_t value_dim :
       {int64_t{0}, int64_t{-16}, int64_t{24}, kMaxHeadDim + 16}) {
    EXPECT_EQ(code_with([&](auto& a) { a.value_dim = value_dim; }), kInvalid)
        << value_dim;
  }
  EXPECT_EQ(code_with([](auto& a) { a.head_dim = a.value_dim - 16; }),
            kInvalid);
  EXPECT_EQ(code_with([](auto& a) { a.head_dim = 24; }), kInvalid);
  EXPECT_EQ(code_with([](auto& a) { a.n_kv_heads = 3; }), kInvalid);
  EXPECT_EQ(
      code_with([](auto& a) { a.paged.page_tokens = kAttentionBlock + 1; }),
      kInvalid);
  for (const float cap : {-1.0f, HUGE_VALF, NAN}) {
    EXPECT_EQ(code_with([&](auto& a) { a.soft_cap = cap; }), kInvalid) << cap;
  }
  EXPECT_EQ(code_with([](auto& a) { a.k_type = DType::kQ4_1; }),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code_with([](auto& a) {
              a.head_dim = 48;
              a.value_dim = 0;
              a.v_type = DType::kQ8_0;
            }),
            kInvalid);
  EXPECT_EQ(code_with([](auto& a) {
              a.head_dim = 64;
              a.value_dim = 48;
              a.v_type = DType::kQ8_0;
            }),
            kInvalid);
}

#ifdef PLIMSOLL_TEST_CUDA_EMULATION
TEST(CudaAttentionTest, PromptsHaveTheBitsOfTheirKernelAndOthersOfTheirs) {
  const auto backend = *NewEmulatedCudaBackend();
  CudaOptions all_alike;
  all_alike.tensor_attention = CudaOptions::TensorAttention::kAll;
  const auto prompts = *NewEmulatedCudaBackend(all_alike);
  RandomData random(39);
  constexpr int64_t kN = 40;
  const Tokens tokens = MakeTokens(random, kN, {6, 2, 64});
  PagedSequence sequence(tokens, kN, 64);
  sequence.Append(*backend, 0, kN);
  const auto table = sequence.Table(kN);
  const auto few = sequence.Attend(*backend, 0, kN, table);
  const auto many = sequence.Attend(*prompts, 0, kN, table);
  EXPECT_NE(Bits(few), Bits(many));  // or the test would show nothing
  // Two prompts, cut anywhere, and two sequences that decode, in one step.
  std::vector<float> out(tokens.q.size());
  AttentionArgs args = CommonArgs(tokens, 0, out.data());
  const AttentionSegment segments[] = {{0, 1, 0, table, {}, 0, true},
                                       {1, 3, 1, table, {}, 0, false},
                                       {4, 35, 4, table, {}, 0, true},
                                       {39, 1, 39, table, {}, 0, false}};
  args.segments = segments;
  args.paged = sequence.kv();
  ASSERT_TRUE(backend->Attention(args).ok());
  for (const AttentionSegment& segment : segments) {
    const auto& expected = segment.is_prompt ? many : few;
    const int64_t first = segment.first_row * tokens.QDim();
    const int64_t n = segment.n_rows * tokens.QDim();
    EXPECT_EQ(Bits(out.data() + first, n), Bits(expected.data() + first, n))
        << "row " << segment.first_row;
  }
}

// Blocks of a task count those that have ended, and there are 4,096 counts. The
// rows of this step have more tasks, of one span and of two.
TEST(CudaAttentionTest, MoreRowsThanThereAreCountsHaveTheBitsOfARowAlone) {
  const auto backend = *NewEmulatedCudaBackend();
  RandomData random(40);
  constexpr int64_t kN = 70;
  constexpr int64_t kHeads = 64;
  constexpr int64_t kRows = 66;
  const Tokens tokens = MakeTokens(random, kN, {kHeads, kHeads, 64});
  PagedSequence sequence(tokens, kN, 64);
  sequence.Append(*backend, 0, kN);
  const auto table = sequence.Table(kN);
  const auto position_of = [](int64_t r) {
    return r % 8 == 0 ? kN - 1 : int64_t{5};
  };
  std::vector<float> q;
  std::vector<AttentionSegment> segments;
  for (int64_t r = 0; r < kRows; ++r) {
    const auto row = tokens.q.begin() + position_of(r) * tokens.QDim();
    q.insert(q.end(), row, row + tokens.QDim());
    segments.push_back({r, 1, position_of(r), table, {}, 0});
  }
  std::vector<float> out(q.size());
  AttentionArgs args = CommonArgs(tokens, 0, out.data());
  args.q = args.q_prefix = q.data();
  args.segments = segments;
  args.paged = sequence.kv();
  ASSERT_TRUE(backend->Attention(args).ok());
  for (const int64_t position : {kN - 1, int64_t{5}}) {
    const auto alone = Bits(sequence.Attend(*backend, position, 1, table));
    for (int64_t r = 0; r < kRows; ++r) {
      if (position_of(r) != position) continue;
      EXPECT_EQ(Bits(out.data() + r * tokens.QDim(), tokens.QDim()), alone)
          << "row " << r;
    }
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(Backends, AttentionTest,
                         ::testing::ValuesIn(AttentionBackendNames()),
                         BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
