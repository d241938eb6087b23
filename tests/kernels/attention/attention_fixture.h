// What the tests of attention share: a sequence's tokens, caches of pages and
// rings that hold them, and attention over listed keys in double.
#ifndef PLIMSOLL_TESTS_KERNELS_ATTENTION_ATTENTION_FIXTURE_H_
#define PLIMSOLL_TESTS_KERNELS_ATTENTION_ATTENTION_FIXTURE_H_

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {

// The tokens of one sequence in full, positions 0 .. n - 1.
struct Tokens {
  int64_t n_heads;
  int64_t n_kv_heads;
  int64_t head_dim;
  DType k_type;
  DType v_type;
  std::vector<float> q;         // [n, n_heads, head_dim]
  std::vector<float> q_prefix;  // has q's shape
  std::vector<float> k;         // [n, n_kv_heads, head_dim], rounded to k_type
  std::vector<float> v;         // like k; empty: values are rows of keys
  float soft_cap = 0;
  std::vector<float> sinks = {};  // [n_heads], or none
  int64_t value_dim = 0;          // as in AttentionArgs

  const std::vector<float>& Values() const { return v.empty() ? k : v; }
  int64_t ValueDim() const { return value_dim == 0 ? head_dim : value_dim; }
  int64_t OutDim() const { return n_heads * ValueDim(); }
  int64_t KvDim() const { return n_kv_heads * head_dim; }
  int64_t QDim() const { return n_heads * head_dim; }
  int64_t KBytes() const { return *RowBytes(k_type, KvDim()); }
  int64_t VBytes() const { return *RowBytes(v_type, KvDim()); }
  float Scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }
};

// `values` as a cache of `dtype` keeps them; storing them again changes
// nothing.
inline std::vector<float> RoundTo(DType dtype, std::vector<float> values) {
  const auto n = static_cast<int64_t>(values.size());
  std::vector<std::byte> row(static_cast<size_t>(*RowBytes(dtype, n)));
  const int64_t offset = 0;
  EXPECT_TRUE(NewReferenceBackend()
                  ->StoreRows({values.data(), 1, n, dtype, row.data(), &offset})
                  .ok());
  return Dequantized(dtype, 1, n, row);
}

struct HeadShape {
  int64_t n_heads;
  int64_t n_kv_heads;
  int64_t head_dim;
  DType k_type = DType::kF16;
  DType v_type = DType::kF16;
};

inline Tokens MakeTokens(RandomData& random, int64_t n,
                         const HeadShape& heads) {
  const auto& [n_heads, n_kv_heads, head_dim, k_type, v_type] = heads;
  Tokens tokens{n_heads, n_kv_heads, head_dim, k_type, v_type, {}, {}, {}, {}};
  tokens.q = random.FloatsWithin(n * tokens.QDim(), 3.0f);
  tokens.q_prefix = random.FloatsWithin(n * tokens.QDim(), 3.0f);
  tokens.k = RoundTo(k_type, random.FloatsWithin(n * tokens.KvDim(), 3.0f));
  tokens.v = RoundTo(v_type, random.FloatsWithin(n * tokens.KvDim(), 3.0f));
  return tokens;
}

// How scores may be changed.
struct ScoreChange {
  float soft_cap;
  bool has_sinks;
};
inline constexpr ScoreChange kScoreChanges[] = {
    {5, false}, {0, true}, {5, true}};

// Scores reach about 9, so that each change changes much.
inline void ChangeScores(RandomData& random, const ScoreChange& change,
                         Tokens& tokens) {
  tokens.soft_cap = change.soft_cap;
  tokens.sinks.clear();
  if (!change.has_sinks) return;
  for (int64_t h = 0; h < tokens.n_heads; ++h) {
    tokens.sinks.push_back(random.Uniform(2, 10));
  }
}

// A key that a row attends, and with which rotation of q.
struct SeenKey {
  int64_t token;
  bool is_prefix;
};

// One row of attention over listed keys, in double.
inline std::vector<double> Expected(const Tokens& tokens, int64_t row,
                                    const std::vector<SeenKey>& keys) {
  const int64_t value_dim = tokens.ValueDim();
  std::vector<double> out(static_cast<size_t>(tokens.OutDim()), 0.0);
  const int64_t group = tokens.n_heads / tokens.n_kv_heads;
  for (int64_t h = 0; h < tokens.n_heads; ++h) {
    std::vector<double> scores;
    for (const SeenKey& key : keys) {
      const auto& q = key.is_prefix ? tokens.q_prefix : tokens.q;
      double dot = 0;
      for (int64_t i = 0; i < tokens.head_dim; ++i) {
        dot += double{q[static_cast<size_t>(row * tokens.QDim() +
                                            h * tokens.head_dim + i)]} *
               tokens.k[static_cast<size_t>(key.token * tokens.KvDim() +
                                            h / group * tokens.head_dim + i)];
      }
      scores.push_back(dot * tokens.Scale());
      if (tokens.soft_cap > 0) {
        scores.back() =
            tokens.soft_cap * std::tanh(scores.back() / tokens.soft_cap);
      }
    }
    double max = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    if (!tokens.sinks.empty()) {
      const double sink = tokens.sinks[static_cast<size_t>(h)];
      max = std::max(max, sink);
      total = std::exp(sink - max);
    }
    for (size_t j = 0; j < keys.size(); ++j) {
      const double weight = std::exp(scores[j] - max);
      total += weight;
      for (int64_t i = 0; i < value_dim; ++i) {
        out[static_cast<size_t>(h * value_dim + i)] +=
            weight *
            tokens
                .Values()[static_cast<size_t>(keys[j].token * tokens.KvDim() +
                                              h / group * tokens.head_dim + i)];
      }
    }
    for (int64_t i = 0; i < value_dim; ++i) {
      out[static_cast<size_t>(h * value_dim + i)] /= total;
    }
  }
  return out;
}

// True if the running test's backend rounds to F16 what it multiplies: on
// tensor cores, heads of up to 256 elements of these types
// (docs/cuda-kernels.md).
inline bool RoundsToHalves(const Tokens& tokens) {
  const std::string name =
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const auto is_rounded = [](DType type) {
    return type == DType::kF16 || type == DType::kBF16 || type == DType::kQ8_0;
  };
  const auto has = [&](const char* part) {
    return name.find(part) != std::string::npos;
  };
  return (has("cuda_emulated_prompt") || has("cuda_emulated_group") ||
          has("cuda_0_prompt") || has("cuda_0_group")) &&
         tokens.head_dim <= 256 && is_rounded(tokens.k_type) &&
         is_rounded(tokens.v_type);
}

// Scores are sums of head_dim products below 9 in float32; an error e in a
// score is a relative error e in a weight, and values are below 3. A soft-cap
// makes errors smaller, and a sink takes part in a total like any weight.
inline void ExpectRow(const Tokens& tokens, const float* out, int64_t row,
                      const std::vector<SeenKey>& keys) {
  const double score_size =
      9.0 * static_cast<double>(tokens.head_dim) * tokens.Scale();
  double tolerance = 3.0 * 4.0 * score_size * 0x1p-24 * 8 + 1e-6;
  // Rounding to F16 changes a factor by up to 2^-11: a query's element, and a
  // key's of Q8_0. The head_dim errors of a score are of either sign: their sum
  // is a few times 9 2^-11 / 3. Weights and values lose 2^-11 of themselves
  // too.
  if (RoundsToHalves(tokens)) tolerance += 3.0 * 6.0 * 0x1p-11;
  const auto expected = Expected(tokens, row, keys);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(out[i], expected[i], tolerance) << "row " << row << " at " << i;
  }
}

// Attention that packs what it gives, where that is whole blocks, as
// PackActivations does.
inline void AttendAndPack(Backend& backend, AttentionArgs args) {
  const int64_t dim = args.n_heads * args.ValueDim();
  if (dim % kActivationBlock != 0) {
    EXPECT_TRUE(backend.Attention(args).ok());
    return;
  }
  int64_t n_rows = 0;
  for (const AttentionSegment& segment : args.segments) {
    n_rows += segment.n_rows;
  }
  std::vector<std::byte> packed(
      static_cast<size_t>(n_rows * PackedRowBytes(dim)));
  std::vector<std::byte> expected(packed.size());
  args.packed = packed.data();
  EXPECT_TRUE(backend.Attention(args).ok());
  EXPECT_TRUE(
      backend.PackActivations({args.out, n_rows, dim, expected.data()}).ok());
  EXPECT_TRUE(packed == expected) << n_rows << " rows of " << dim;
}

inline AttentionArgs CommonArgs(const Tokens& tokens, int64_t first_token,
                                float* out) {
  AttentionArgs args = {};
  args.q = tokens.q.data() + first_token * tokens.QDim();
  args.q_prefix = tokens.q_prefix.data() + first_token * tokens.QDim();
  args.out = out;
  args.n_heads = tokens.n_heads;
  args.n_kv_heads = tokens.n_kv_heads;
  args.head_dim = tokens.head_dim;
  args.scale = tokens.Scale();
  args.k_type = tokens.k_type;
  args.v_type = tokens.v_type;
  args.soft_cap = tokens.soft_cap;
  args.value_dim = tokens.value_dim;
  if (!tokens.sinks.empty()) args.sinks = tokens.sinks.data();
  return args;
}

inline void StoreTokens(Backend& backend, const std::vector<float>& rows,
                        int64_t dim, int64_t first, int64_t n, DType dtype,
                        std::byte* base, const std::vector<int64_t>& offsets) {
  ASSERT_TRUE(backend
                  .StoreRows({rows.data() + first * dim, n, dim, dtype, base,
                              offsets.data()})
                  .ok());
}

// A sequence whose cache is in pages of a pool, scattered on purpose.
class PagedSequence {
 public:
  PagedSequence(const Tokens& tokens, int64_t n, int64_t page_tokens)
      : tokens_(tokens), page_tokens_(page_tokens) {
    n_pages_ = (n + page_tokens - 1) / page_tokens;
    kv_.page_tokens = page_tokens;
    kv_.k_offset = 64;
    const int64_t k_end = 64 + page_tokens * tokens.KBytes();
    kv_.v_offset = tokens.v.empty() ? kv_.k_offset : k_end;
    kv_.page_bytes = k_end + page_tokens * tokens.VBytes() + 64;
    pool_.resize(static_cast<size_t>(n_pages_ * kv_.page_bytes));
    // Garbage in cells that hold no token must not reach a result: NaN.
    std::fill(pool_.begin(), pool_.end(), std::byte{0xFF});
    kv_.pool = pool_.data();
  }

  void Append(Backend& backend, int64_t first, int64_t n) {
    std::vector<int64_t> k_offsets;
    std::vector<int64_t> v_offsets;
    for (int64_t p = first; p < first + n; ++p) {
      const int64_t base = PageOf(p / page_tokens_) * kv_.page_bytes;
      const int64_t cell = p % page_tokens_;
      k_offsets.push_back(base + kv_.k_offset + cell * tokens_.KBytes());
      v_offsets.push_back(base + kv_.v_offset + cell * tokens_.VBytes());
    }
    StoreTokens(backend, tokens_.k, tokens_.KvDim(), first, n, tokens_.k_type,
                kv_.pool, k_offsets);
    if (tokens_.v.empty()) return;
    StoreTokens(backend, tokens_.v, tokens_.KvDim(), first, n, tokens_.v_type,
                kv_.pool, v_offsets);
  }

  // The table of tokens [0, n) all live.
  std::vector<PageEntry> Table(int64_t n) const {
    std::vector<PageEntry> table;
    for (int64_t i = 0; i * page_tokens_ < n; ++i) {
      const auto live = std::min(page_tokens_, n - i * page_tokens_);
      table.push_back(
          {i * page_tokens_, PageOf(i), 0, static_cast<int32_t>(live), false});
    }
    return table;
  }

  // Attention of tokens [first, first + n).
  std::vector<float> Attend(Backend& backend, int64_t first, int64_t n,
                            const std::vector<PageEntry>& table) const {
    std::vector<float> out(static_cast<size_t>(n * tokens_.OutDim()));
    AttentionArgs args = CommonArgs(tokens_, first, out.data());
    const AttentionSegment segment = {0, n, first, table, {}, 0};
    args.segments = {&segment, 1};
    args.paged = kv_;
    AttendAndPack(backend, args);
    return out;
  }

  const PagedKv& kv() const { return kv_; }

 private:
  int32_t PageOf(int64_t i) const {
    return static_cast<int32_t>(n_pages_ - 1 - i);
  }

  const Tokens& tokens_;
  int64_t page_tokens_;
  int64_t n_pages_;
  PagedKv kv_;
  std::vector<std::byte> pool_;
};

inline std::vector<SeenKey> Keys(int64_t begin, int64_t end) {
  std::vector<SeenKey> keys;
  for (int64_t t = begin; t < end; ++t) {
    keys.push_back({.token = t, .is_prefix = false});
  }
  return keys;
}

inline std::vector<SeenKey> PrefixKeys(int64_t begin, int64_t end) {
  std::vector<SeenKey> keys = Keys(begin, end);
  for (SeenKey& key : keys) key.is_prefix = true;
  return keys;
}

// A sequence on a ring layer of `window` cells.
class RingSequence {
 public:
  RingSequence(const Tokens& tokens, int64_t window)
      : tokens_(tokens),
        k_(static_cast<size_t>(window * tokens.KBytes()), std::byte{0xFF}),
        v_(static_cast<size_t>(window * tokens.VBytes()), std::byte{0xFF}) {
    ring_ = {k_.data(), v_.data(), window};
  }

  // Attention of tokens [first, first + n), whose K/V enter the ring after.
  std::vector<float> Step(Backend& backend, int64_t first, int64_t n) {
    return StepOfLive(backend, /*live_begin=*/0, first, n);
  }
  // Does what Step does; the tokens before `live_begin` were evicted.
  std::vector<float> StepOfLive(Backend& backend, int64_t live_begin,
                                int64_t first, int64_t n) {
    std::vector<std::byte> chunk_k(static_cast<size_t>(n * tokens_.KBytes()));
    std::vector<std::byte> chunk_v(static_cast<size_t>(n * tokens_.VBytes()));
    std::vector<int64_t> k_offsets;
    std::vector<int64_t> v_offsets;
    for (int64_t r = 0; r < n; ++r) {
      k_offsets.push_back(r * tokens_.KBytes());
      v_offsets.push_back(r * tokens_.VBytes());
    }
    StoreTokens(backend, tokens_.k, tokens_.KvDim(), first, n, tokens_.k_type,
                chunk_k.data(), k_offsets);
    StoreTokens(backend, tokens_.v, tokens_.KvDim(), first, n, tokens_.v_type,
                chunk_v.data(), v_offsets);
    std::vector<float> out(static_cast<size_t>(n * tokens_.OutDim()));
    AttentionArgs args = CommonArgs(tokens_, first, out.data());
    const AttentionSegment segment = {0, n, first, {}, ring_, live_begin};
    args.segments = {&segment, 1};
    args.is_ring = true;
    args.chunk_k = chunk_k.data();
    args.chunk_v = chunk_v.data();
    AttendAndPack(backend, args);
    Enter(backend, chunk_k, chunk_v, first, n);
    return out;
  }

 private:
  void Enter(Backend& backend, const std::vector<std::byte>& chunk_k,
             const std::vector<std::byte>& chunk_v, int64_t first, int64_t n) {
    for (int64_t r = std::max<int64_t>(0, n - ring_.window); r < n; ++r) {
      const int64_t cell = (first + r) % ring_.window;
      for (const auto& [from, to, bytes] :
           {std::tuple{chunk_k.data(), ring_.k, tokens_.KBytes()},
            {chunk_v.data(), ring_.v, tokens_.VBytes()}}) {
        const int64_t from_at = r * bytes;
        const int64_t to_at = cell * bytes;
        EXPECT_TRUE(
            backend.CopyRows({from, &from_at, to, &to_at, 1, bytes}).ok());
      }
    }
  }

  const Tokens& tokens_;
  std::vector<std::byte> k_;
  std::vector<std::byte> v_;
  RingKv ring_;
};

// Expects each row of a ring layer to see exactly its window, itself included.
// The tokens arrive in chunks of so many.
inline void ExpectWindows(Backend& backend, const Tokens& tokens,
                          int64_t window,
                          std::initializer_list<int64_t> chunks) {
  RingSequence sequence(tokens, window);
  int64_t first = 0;
  for (const int64_t n : chunks) {
    const auto out = sequence.Step(backend, first, n);
    for (int64_t row = first; row < first + n; ++row) {
      ExpectRow(tokens, out.data() + (row - first) * tokens.OutDim(), row,
                Keys(std::max<int64_t>(0, row - window + 1), row + 1));
    }
    first += n;
  }
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_TESTS_KERNELS_ATTENTION_ATTENTION_FIXTURE_H_
