// Queries, keys and values made ready for attention by one operation: the bytes
// of norms, rotations, transforms and stores one after the other, on every
// backend, whether it has a kernel for them or not.
#include <limits>

#include "kernels/hadamard.h"
#include "kernels/quant/kv_row.h"
#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

constexpr float kEps = 1e-6f;
// Between stored rows, where nothing is written.
constexpr int64_t kGap = 64;

// What both ways are given.
struct Given {
  DType k_type = DType::kF16;
  DType v_type = DType::kF16;
  RopeStyle style = RopeStyle::kNeox;
  int64_t n_rows = 3;
  int64_t n_heads = 4;
  int64_t n_kv_heads = 2;
  int64_t head_dim = 64;
  int64_t n_rot = 64;
  bool has_norms = true;
  bool has_prefix = false;
  int64_t n_places = 1;

  std::string Name() const {
    return absl::StrCat(DTypeName(k_type), " and ", DTypeName(v_type),
                        style == RopeStyle::kNeox ? ", neox, " : ", norm, ",
                        n_rows, " rows, ", n_heads, " over ", n_kv_heads,
                        " heads of ", head_dim, ", ", n_rot, " rotated, ",
                        has_norms ? "normed, " : "", n_places, " places");
  }
};

// The memory of one way: what goes in, and what comes out.
struct Heads {
  std::vector<float> q;
  std::vector<float> q_prefix;
  std::vector<float> k;
  std::vector<float> v;
  std::vector<std::byte> stored;
};

class PrepareHeadsTest : public BackendTest {
 protected:
  // The bytes of the operation beside those of its parts.
  void ExpectTheBytesOfItsParts(const Given& given) {
    SCOPED_TRACE(given.Name());
    RandomData random(51);
    Heads heads = RandomHeads(given, random);
    ExpectTheBytesOfItsParts(given, heads, random);
  }

  void ExpectTheBytesOfItsParts(const Given& given, Heads heads,
                                RandomData& random) {
    const auto q_norm = random.FloatsWithin(given.head_dim, 2.0f);
    const auto k_norm = random.FloatsWithin(given.head_dim, 2.0f);
    const auto angles = random.Floats(given.n_rows * given.n_rot);
    const auto prefix_angles = random.Floats(given.n_rows * given.n_rot);
    const std::vector<int64_t> offsets = Offsets(given);
    const auto args_for = [&](Heads& of) {
      return PrepareHeadsArgs{
          .q = of.q.data(),
          .q_prefix = given.has_prefix ? of.q_prefix.data() : nullptr,
          .k = of.k.data(),
          .v = of.v.data(),
          .q_norm = given.has_norms ? q_norm.data() : nullptr,
          .k_norm = given.has_norms ? k_norm.data() : nullptr,
          .angles = angles.data(),
          .prefix_angles = given.has_prefix ? prefix_angles.data() : nullptr,
          .n_rows = given.n_rows,
          .n_heads = given.n_heads,
          .n_kv_heads = given.n_kv_heads,
          .head_dim = given.head_dim,
          .n_rot = given.n_rot,
          .style = given.style,
          .eps = kEps,
          .k_type = given.k_type,
          .v_type = given.v_type,
          .base = of.stored.data(),
          .offsets = offsets.data(),
          .n_places = given.n_places};
    };
    Heads expected = heads;
    RunSeparately(args_for(expected));
    ASSERT_TRUE(backend().PrepareHeads(args_for(heads)).ok());
    if (given.n_rows == 0) return;
    EXPECT_EQ(Bits(heads.q), Bits(expected.q));
    if (given.has_prefix) {
      EXPECT_EQ(Bits(heads.q_prefix), Bits(expected.q_prefix));
    }
    EXPECT_TRUE(heads.stored == expected.stored);
  }

  static Heads RandomHeads(const Given& given, RandomData& random) {
    const int64_t n_q = given.n_rows * given.n_heads * given.head_dim;
    const int64_t n_kv = given.n_rows * given.n_kv_heads * given.head_dim;
    return {.q = random.FloatsWithin(n_q, 4.0f),
            .q_prefix = std::vector<float>(
                static_cast<size_t>(given.has_prefix ? n_q : 0),
                std::numeric_limits<float>::quiet_NaN()),
            .k = random.FloatsWithin(n_kv, 4.0f),
            .v = random.FloatsWithin(n_kv, 4.0f),
            .stored = std::vector<std::byte>(static_cast<size_t>(
                2 * given.n_places * given.n_rows * Stride(given)))};
  }

 private:
  // The bytes from one stored row to the next.
  static int64_t Stride(const Given& given) {
    const int64_t dim = given.n_kv_heads * given.head_dim;
    return KvBytes(DType::kF32, dim) + kGap;
  }

  // Rows lie in none of the orders that they have in the arguments.
  static std::vector<int64_t> Offsets(const Given& given) {
    std::vector<int64_t> offsets;
    const int64_t n = 2 * given.n_places * given.n_rows;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = i % 2 == 0 ? i / 2 : n - 1 - i / 2;
      offsets.push_back(at * Stride(given));
    }
    return offsets;
  }

  void RunSeparately(const PrepareHeadsArgs& args) {
    const auto norm = [&](float* x, const float* weight, int64_t n_heads) {
      ASSERT_TRUE(backend()
                      .RmsNorm({x, weight, x, args.n_rows * n_heads,
                                args.head_dim, args.eps, false})
                      .ok());
    };
    const auto rotate = [&](const float* x, const float* angles,
                            int64_t n_heads, float* out) {
      ASSERT_TRUE(backend()
                      .Rope({x, angles, out, args.n_rows, n_heads,
                             args.head_dim, args.n_rot, args.style})
                      .ok());
    };
    const auto transform = [&](float* x, DType dtype, int64_t n_heads) {
      if (!IsTransformed(dtype)) return;
      ASSERT_TRUE(backend()
                      .Hadamard({x, args.n_rows, n_heads * args.head_dim,
                                 HadamardWidth(args.head_dim)})
                      .ok());
    };
    if (args.q_norm != nullptr) norm(args.q, args.q_norm, args.n_heads);
    if (args.q_prefix != nullptr) {
      rotate(args.q, args.prefix_angles, args.n_heads, args.q_prefix);
      transform(args.q_prefix, args.k_type, args.n_heads);
    }
    rotate(args.q, args.angles, args.n_heads, args.q);
    transform(args.q, args.k_type, args.n_heads);
    if (args.n_kv_heads == 0) return;
    if (args.k_norm != nullptr) norm(args.k, args.k_norm, args.n_kv_heads);
    rotate(args.k, args.angles, args.n_kv_heads, args.k);
    transform(args.k, args.k_type, args.n_kv_heads);
    transform(args.v, args.v_type, args.n_kv_heads);
    const int64_t* offsets = args.offsets;
    const auto store = [&](const float* x, DType dtype) {
      ASSERT_TRUE(
          backend()
              .StoreRows({x, args.n_rows, args.n_kv_heads * args.head_dim,
                          dtype, args.base, offsets})
              .ok());
      offsets += args.n_rows;
    };
    for (int64_t place = 0; place < args.n_places; ++place) {
      store(args.k, args.k_type);
      store(args.v, args.v_type);
    }
  }
};

TEST_P(PrepareHeadsTest, HasTheBytesOfItsPartsInEveryType) {
  constexpr DType kTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16,
                              DType::kQ8_0, DType::kQ5_1, DType::kQ4_0};
  for (const DType k_type : kTypes) {
    for (const DType v_type : kTypes) {
      ExpectTheBytesOfItsParts({.k_type = k_type, .v_type = v_type});
    }
  }
}

TEST_P(PrepareHeadsTest, HasTheBytesOfItsPartsForEveryRotation) {
  for (const RopeStyle style : {RopeStyle::kNorm, RopeStyle::kNeox}) {
    for (const int64_t n_rot : {0, 2, 20, 34, 64}) {
      for (const bool has_prefix : {false, true}) {
        ExpectTheBytesOfItsParts(
            {.style = style, .n_rot = n_rot, .has_prefix = has_prefix});
      }
    }
  }
}

TEST_P(PrepareHeadsTest, HasTheBytesOfItsPartsForEveryWidthOfHeads) {
  for (const int64_t head_dim : {16, 48, 80, 128, 144, 256, 272, 512}) {
    for (const bool has_norms : {false, true}) {
      ExpectTheBytesOfItsParts({.k_type = DType::kBF16,
                                .style = RopeStyle::kNorm,
                                .head_dim = head_dim,
                                .n_rot = head_dim / 8 * 4,
                                .has_norms = has_norms,
                                .has_prefix = true});
    }
  }
}

TEST_P(PrepareHeadsTest, HasTheBytesOfItsPartsForHeadsThatAreRotatedWhole) {
  for (const int64_t head_dim : {32, 64, 128, 256, 512}) {
    for (const RopeStyle style : {RopeStyle::kNorm, RopeStyle::kNeox}) {
      for (const bool has_prefix : {false, true}) {
        for (const DType k_type :
             {DType::kF16, DType::kQ8_0, DType::kQ5_1, DType::kQ4_0}) {
          ExpectTheBytesOfItsParts(
              {.k_type = k_type,
               .v_type = k_type == DType::kQ8_0 ? DType::kF32 : DType::kQ8_0,
               .style = style,
               .head_dim = head_dim,
               .n_rot = head_dim,
               .has_norms = has_prefix,
               .has_prefix = has_prefix,
               .n_places = 2});
        }
      }
    }
  }
}

TEST_P(PrepareHeadsTest, TransformsHeadsOfEveryWidthAndQueriesForAPrefix) {
  for (const int64_t head_dim : {32, 96, 256, 512}) {
    for (const int64_t n_kv_heads : {0, 2}) {
      ExpectTheBytesOfItsParts({.k_type = DType::kQ4_0,
                                .v_type = DType::kQ5_1,
                                .n_kv_heads = n_kv_heads,
                                .head_dim = head_dim,
                                .n_rot = head_dim / 2,
                                .has_prefix = true});
    }
  }
}

TEST_P(PrepareHeadsTest, HasTheBytesOfItsPartsForEveryNumberOfRowsAndHeads) {
  // Less than a task of the CPU's and more, blocks of threads whole or not.
  for (const int64_t n_rows : {1, 2, 7, 33}) {
    for (const int64_t n_kv_heads : {1, 3}) {
      ExpectTheBytesOfItsParts({.k_type = DType::kQ8_0,
                                .n_rows = n_rows,
                                .n_heads = 3,
                                .n_kv_heads = n_kv_heads,
                                .head_dim = 256,
                                .n_rot = 256});
    }
  }
}

TEST_P(PrepareHeadsTest, StoresTheSameRowsInEveryPlace) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0}) {
    for (const int64_t n_places : {2, 3}) {
      ExpectTheBytesOfItsParts({.k_type = dtype,
                                .v_type = DType::kQ8_0,
                                .n_rows = 5,
                                .n_places = n_places});
    }
  }
}

TEST_P(PrepareHeadsTest, PreparesQueriesAloneWithoutKvHeads) {
  for (const bool has_prefix : {false, true}) {
    ExpectTheBytesOfItsParts(
        {.n_rows = 5, .n_kv_heads = 0, .has_prefix = has_prefix});
  }
}

TEST_P(PrepareHeadsTest, ShowsWhatIsNotFiniteAsItsPartsDo) {
  const Given given = {.k_type = DType::kQ8_0, .v_type = DType::kQ8_0};
  RandomData random(52);
  Heads heads = RandomHeads(given, random);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  heads.v[5] = kInfinity;
  heads.v[70] = std::numeric_limits<float>::quiet_NaN();
  std::fill_n(heads.v.begin() + 128, 64, 0.0f);
  std::fill_n(heads.k.begin(), 64, 0.0f);
  heads.k[64] = 1e30f;  // its square is not finite
  ExpectTheBytesOfItsParts(given, heads, random);
}

TEST_P(PrepareHeadsTest, DoesNothingForNoRows) {
  ExpectTheBytesOfItsParts({.n_rows = 0});
}

TEST_P(PrepareHeadsTest, RefusesWhatItCannotPrepare) {
  std::vector<float> x(1024);
  std::vector<std::byte> stored(8192);
  const std::vector<int64_t> offsets = {0, 4096};
  const PrepareHeadsArgs good = {.q = x.data(),
                                 .q_prefix = nullptr,
                                 .k = x.data() + 512,
                                 .v = x.data() + 768,
                                 .q_norm = nullptr,
                                 .k_norm = nullptr,
                                 .angles = x.data() + 256,
                                 .prefix_angles = nullptr,
                                 .n_rows = 1,
                                 .n_heads = 1,
                                 .n_kv_heads = 1,
                                 .head_dim = 64,
                                 .n_rot = 64,
                                 .style = RopeStyle::kNeox,
                                 .eps = kEps,
                                 .k_type = DType::kF16,
                                 .v_type = DType::kF16,
                                 .base = stored.data(),
                                 .offsets = offsets.data()};
  EXPECT_TRUE(backend().PrepareHeads(good).ok());
  const auto code = [&](auto change) {
    PrepareHeadsArgs args = good;
    change(args);
    return backend().PrepareHeads(args).code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code([](auto& args) { args.head_dim = kMaxHeadDim + 16; }),
            kInvalid);
  EXPECT_EQ(code([](auto& args) { args.head_dim = 0; }), kInvalid);
  EXPECT_EQ(code([](auto& args) { args.n_rot = 66; }), kInvalid);
  EXPECT_EQ(code([](auto& args) { args.n_rot = 63; }), kInvalid);
  EXPECT_EQ(code([](auto& args) { args.n_places = 0; }), kInvalid);
  EXPECT_EQ(code([&](auto& args) { args.q_prefix = x.data(); }), kInvalid);
  EXPECT_EQ(code([](auto& args) { args.v_type = DType::kQ4_1; }),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code([](auto& args) {
              args.k_type = DType::kQ8_0;
              args.head_dim = 48;
              args.n_rot = 48;
            }),
            kInvalid);
}

INSTANTIATE_TEST_SUITE_P(Backends, PrepareHeadsTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
