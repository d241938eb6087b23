// KV bytes: pinned values, pages and rings, errors, and the shared oracle.
#include "planner/layout/kv_cache_bytes.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/planner/gguf/gguf_builder.h"
#include "tests/planner/shapes.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

ModelShape Shape(int64_t n_layers, int64_t n_kv_heads, int64_t head_dim) {
  ModelShape shape = {};
  shape.n_layers = n_layers;
  for (int64_t il = 0; il < n_layers; ++il) {
    shape.layers.push_back({n_kv_heads, head_dim, 1, 0, il});
  }
  return shape;
}

ModelShape WithWindow(ModelShape shape, int64_t window) {
  for (auto& layer : shape.layers) layer.window = window;
  return shape;
}

TEST(KvCacheBytesTest, EqualsThePublishedSizeOfLlama3) {
  const auto f16 =
      KvCacheBytes(Shape(32, 8, 128), {.n_ctx = 8'192, .n_slots = 1});
  ASSERT_TRUE(f16.ok());
  EXPECT_EQ(f16->full_bytes, 1'073'741'824);
  EXPECT_EQ(f16->window_bytes, 0);
  EXPECT_EQ(f16->bytes_per_token, 131'072);
  const auto q8 = KvCacheBytes(Shape(32, 8, 128), {.n_ctx = 8'192,
                                                   .n_slots = 1,
                                                   .k_type = DType::kQ8_0,
                                                   .v_type = DType::kQ8_0});
  ASSERT_TRUE(q8.ok());
  EXPECT_EQ(q8->full_bytes, 570'425'344);
}

TEST(KvCacheBytesTest, PagesAreSixteenToSixtyFourTokens) {
  EXPECT_EQ(PageTokens(1), 16);
  EXPECT_EQ(PageTokens(16), 16);
  EXPECT_EQ(PageTokens(17), 32);
  EXPECT_EQ(PageTokens(49), 64);
  EXPECT_EQ(PageTokens(64), 64);
  EXPECT_EQ(PageTokens(65), 64);
  EXPECT_EQ(PageTokens(std::numeric_limits<int64_t>::max()), 64);
}

TEST(KvCacheBytesTest, AWindowHasARingOnlyIfTheContextIsLonger) {
  EXPECT_FALSE(HasRing(0, 1'000'000));
  EXPECT_FALSE(HasRing(512, 512));
  EXPECT_TRUE(HasRing(512, 513));
  EXPECT_FALSE(HasRing(512, 449));
  EXPECT_TRUE(HasRing(500, 450));  // 450 tokens take pages for 512
  EXPECT_FALSE(HasRing(512, 1));
  EXPECT_TRUE(HasRing(8, 1));
  EXPECT_TRUE(HasRing(512, std::numeric_limits<int64_t>::max()));
}

TEST(KvCacheBytesTest, RingsHaveExactlyTheirWindow) {
  const auto kv = KvCacheBytes(
      WithWindow(Shape(2, 1, 16), 100),
      {.n_ctx = 4'096, .n_slots = 3, .n_idle = 2, .v_type = DType::kF32});
  ASSERT_TRUE(kv.ok());
  EXPECT_EQ(kv->full_bytes, 0);
  EXPECT_EQ(kv->page_bytes, 0);
  EXPECT_EQ(kv->ring_bytes, 2 * 100 * 16 * (2 + 4));
  EXPECT_EQ(kv->window_bytes, 5 * kv->ring_bytes);
}

TEST(KvCacheBytesTest, LayersThatShareKeysAndValuesCostNothing) {
  ModelShape shape = Shape(4, 2, 32);
  shape.layers[3].kv_source = 1;
  const auto kv = KvCacheBytes(shape, {.n_ctx = 64, .n_slots = 1});
  ASSERT_TRUE(kv.ok());
  EXPECT_EQ(kv->full_bytes, 64 * 3 * 2 * 32 * 4);
}

TEST(KvCacheBytesTest, RejectsCountsThatMakeNoSense) {
  const ModelShape shape = Shape(2, 1, 16);
  const auto bytes = [](const ModelShape& s, int64_t n_ctx, int64_t slots,
                        int64_t idle) {
    return KvCacheBytes(s, {.n_ctx = n_ctx, .n_slots = slots, .n_idle = idle})
        .status();
  };
  EXPECT_TRUE(bytes(shape, 1, 1, 0).ok());
  for (int64_t bad :
       {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(bytes(shape, bad, 1, 0)));
    EXPECT_TRUE(absl::IsInvalidArgument(bytes(shape, 1, bad, 0)));
    EXPECT_TRUE(absl::IsInvalidArgument(bytes(Shape(1, bad, 16), 1, 1, 0)));
    EXPECT_TRUE(absl::IsInvalidArgument(bytes(Shape(1, 1, bad), 1, 1, 0)));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(bytes(shape, 1, 1, -1)));
  EXPECT_TRUE(
      absl::IsInvalidArgument(bytes(WithWindow(Shape(1, 1, 16), -1), 1, 1, 0)));
}

TEST(KvCacheBytesTest, RejectsPartsOfABlock) {
  const auto kv = KvCacheBytes(
      Shape(1, 1, 48), {.n_ctx = 64, .n_slots = 1, .v_type = DType::kQ8_0});
  EXPECT_TRUE(absl::IsInvalidArgument(kv.status()));
}

TEST(KvCacheBytesTest, ReportsOverflow) {
  const auto bytes = [](int64_t n_ctx, int64_t slots, int64_t idle,
                        int64_t window) {
    return KvCacheBytes(WithWindow(Shape(2, 1, 16), window),
                        {.n_ctx = n_ctx, .n_slots = slots, .n_idle = idle})
        .status();
  };
  EXPECT_TRUE(absl::IsOutOfRange(bytes(kMax, 1, 0, 0)));
  EXPECT_TRUE(absl::IsOutOfRange(bytes(64, kMax, 0, 0)));
  EXPECT_TRUE(absl::IsOutOfRange(bytes(kMax, 1, kMax, 512)));
  EXPECT_TRUE(absl::IsOutOfRange(bytes(int64_t{1} << 60, 1, 0, 0)));
}

int64_t BytesOfSlots(int64_t n_slots, const ModelShape& shape,
                     const KvRules& rules, int64_t n_ctx) {
  const auto kv =
      KvCacheBytes(shape, {.n_ctx = n_ctx, .n_slots = n_slots, .rules = rules});
  EXPECT_TRUE(kv.ok()) << kv.status();
  return kv.ok() ? kv->full_bytes + kv->window_bytes : -1;
}

int64_t BytesBy(const ModelShape& shape, const KvRules& rules, int64_t n_ctx) {
  return BytesOfSlots(1, shape, rules, n_ctx);
}

TEST(KvRulesTest, RingsMayBeLongerThanTheirWindow) {
  const ModelShape shape =
      WithWindow(Shape(1, 1, 16), 100);  // 64 bytes a token
  const KvRules plus = {.ring = RingRule::kWindowPlusTokens, .ring_tokens = 28};
  EXPECT_EQ(BytesBy(shape, plus, 4'096), 128 * 64);
  EXPECT_EQ(BytesBy(shape, plus, 64), 64 * 64);  // no more than the context
  const KvRules ubatch = {.ring = RingRule::kWindowPlusUbatch,
                          .ring_tokens = 200};
  EXPECT_EQ(BytesBy(shape, ubatch, 4'096), 512 * 64);  // 300 padded
  EXPECT_EQ(BytesBy(shape, ubatch, 10), 256 * 64);
  const KvRules full = {.ring = RingRule::kFull};
  EXPECT_EQ(BytesBy(shape, full, 4'096), 4'096 * 64);
}

TEST(KvRulesTest, ContextsMayBeCountedInTokens) {
  const KvRules tokens = {.has_pages = false};
  EXPECT_EQ(BytesBy(Shape(1, 1, 16), tokens, 1), 64);
  EXPECT_EQ(BytesBy(Shape(1, 1, 16), tokens, 65), 65 * 64);
  EXPECT_EQ(BytesBy(WithWindow(Shape(1, 1, 16), 100), tokens, 99), 99 * 64);
  EXPECT_EQ(BytesBy(WithWindow(Shape(1, 1, 16), 100), tokens, 101), 100 * 64);
}

TEST(KvRulesTest, WithoutFlashAttentionValuesAreAsWideAsTheWidest) {
  ModelShape shape = Shape(2, 1, 16);
  shape.layers[1].n_kv_heads = 4;
  const KvRules off = {.has_flash_attention = false};
  EXPECT_EQ(BytesBy(shape, {}, 64), 64 * 2 * (16 + 16 + 64 + 64));
  EXPECT_EQ(BytesBy(shape, off, 64), 64 * 2 * (16 + 64 + 64 + 64));
}

TEST(KvRulesTest, EveryLayersKeysAndValuesAreRoundedApart) {
  const KvRules pow2 = {.has_pages = false,
                        .allocation = AllocationRule::kPow2};
  EXPECT_EQ(BytesBy(Shape(3, 1, 16), pow2, 100), 3 * 2 * 4'096);
  EXPECT_EQ(BytesOfSlots(2, Shape(3, 1, 16), pow2, 100), 3 * 2 * 8'192);
  const KvRules granular = {.allocation = AllocationRule::kGranularity,
                            .granularity_bytes = 10'000};
  EXPECT_EQ(BytesBy(Shape(3, 1, 16), granular, 64), 3 * 2 * 10'000);
}

TEST(KvRulesTest, WhatDoesNotFitIsReported) {
  const auto status = [](const KvRules& rules, int64_t n_ctx) {
    return KvCacheBytes(WithWindow(Shape(1, 1, 16), 100),
                        {.n_ctx = n_ctx, .n_slots = 1, .rules = rules})
        .status();
  };
  EXPECT_TRUE(absl::IsOutOfRange(status(
      {.ring = RingRule::kWindowPlusTokens, .ring_tokens = kMax}, kMax)));
  EXPECT_TRUE(absl::IsOutOfRange(
      status({.ring = RingRule::kFull, .allocation = AllocationRule::kPow2},
             kMax / 64)));
  EXPECT_TRUE(absl::IsOutOfRange(
      KvModel::Create(Shape(1, kMax, 16), DType::kF16, DType::kF16, {})
          .status()));
}

// Written apart from the code: cell by cell, token by token.
int64_t ByHand(const ModelShape& shape, const KvCacheOptions& options) {
  const int64_t n_ctx = options.n_ctx;
  const int64_t page = n_ctx >= 64 ? 64 : (n_ctx + 15) / 16 * 16;
  const int64_t cells = (n_ctx + page - 1) / page * page;
  int64_t bytes = 0;
  for (int64_t il = 0; il < shape.n_layers; ++il) {
    const LayerShape& layer = shape.layers[static_cast<size_t>(il)];
    if (layer.kv_source != il) continue;
    const auto row = [&](DType type) {
      const DTypeInfo& info = InfoOf(type);
      return layer.n_kv_heads * layer.head_dim / info.block_elems *
             info.block_bytes;
    };
    const bool is_ring = layer.window > 0 && layer.window < cells;
    const int64_t sequences =
        is_ring ? options.n_slots + options.n_idle : options.n_slots;
    for (int64_t i = 0; i < sequences; ++i) {
      bytes += (is_ring ? layer.window : cells) *
               (row(options.k_type) + row(options.v_type));
    }
  }
  return bytes;
}

TEST(KvCacheBytesTest, EqualsASumByHandForEveryTypeAndUpToSixtyFourSlots) {
  constexpr std::array<DType, 9> kTypes = {
      DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0, DType::kQ5_1,
      DType::kQ5_0, DType::kQ4_1, DType::kQ4_0, DType::kIq4Nl};
  std::mt19937_64 random(3);
  for (int64_t slots = 1; slots <= 64; ++slots) {
    for (const DType k_type : kTypes) {
      const DType v_type = kTypes[random() % kTypes.size()];
      ModelShape shape = RandomShape(random);
      if (shape.n_layers > 2) shape.layers.back().kv_source = 0;
      const int64_t n_ctx = LogUniform(random, 1 << 20);
      const KvCacheOptions options = {
          .n_ctx = n_ctx,
          .n_slots = slots,
          .n_idle = static_cast<int64_t>(random() % 3),
          .k_type = k_type,
          .v_type = v_type};
      const auto kv = KvCacheBytes(shape, options);
      ASSERT_TRUE(kv.ok()) << kv.status();
      ASSERT_EQ(kv->full_bytes + kv->window_bytes, ByHand(shape, options));
    }
  }
}

struct OracleRow {
  std::string model, architecture, type;
  int64_t context, full, ring, ring_llama;
  bool is_beyond_max;
};

// The shared oracle's rows beside header-only files of its models.
class KvOracleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists("../shared/data/kv_oracle.json")) {
      GTEST_SKIP() << "there is no shared data beside this checkout";
    }
    if (std::system("python3 -c pass 2> /dev/null") != 0) {
      GTEST_SKIP() << "there is no python3";
    }
    folder_ = std::filesystem::path(::testing::TempDir()) /
              absl::StrCat("kv_oracle_",
                           ::testing::UnitTest::GetInstance()->random_seed());
    std::filesystem::create_directories(folder_);
    const std::string rows = (folder_ / "rows.txt").string();
    const std::string command =
        absl::StrCat("python3 tests/planner/kv_oracle_rows.py ../shared '",
                     folder_.string(), "' > '", rows, "'");
    ASSERT_EQ(std::system(command.c_str()), 0);
    std::ifstream file(rows);
    OracleRow row;
    while (file >> row.model >> row.architecture >> row.context >>
           row.is_beyond_max >> row.type >> row.full >> row.ring >>
           row.ring_llama) {
      rows_.push_back(row);
    }
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  // Header-only: the file is sparse, so only its start is kept.
  ModelShape ShapeOf(const std::string& model) {
    const std::filesystem::path path = folder_ / (model + ".gguf");
    std::string header(4 << 20, '\0');
    std::ifstream(path, std::ios::binary)
        .read(header.data(), static_cast<std::streamsize>(header.size()));
    HeaderSource source(header,
                        static_cast<int64_t>(std::filesystem::file_size(path)));
    const auto gguf = ReadGgufHeader(source);
    EXPECT_TRUE(gguf.ok()) << model << ": " << gguf.status();
    const auto shape = ShapeFromGguf(*gguf);
    EXPECT_TRUE(shape.ok()) << model << ": " << shape.status();
    return *shape;
  }

  std::filesystem::path folder_;
  std::vector<OracleRow> rows_;
};

TEST_F(KvOracleTest, EveryRowIsReproducedToTheByte) {
  std::set<std::string> models;
  for (const OracleRow& row : rows_) models.insert(row.model);
  ASSERT_EQ(models.size(), 33u);
  std::string model;
  ModelShape shape;
  int64_t n_within = 0;
  for (const OracleRow& row : rows_) {
    if (row.model != model) shape = ShapeOf(model = row.model);
    const DTypeInfo* type = FindDType(absl::string_view(row.type));
    ASSERT_NE(type, nullptr) << row.type;
    EXPECT_EQ(row.is_beyond_max, row.context > shape.n_ctx_train) << row.model;
    const auto bytes = [&](RingRule ring) {
      const auto kv =
          KvCacheBytes(shape, {.n_ctx = row.context,
                               .n_slots = 1,
                               .k_type = type->dtype,
                               .v_type = type->dtype,
                               .rules = {.ring = ring, .ring_tokens = 512}});
      EXPECT_TRUE(kv.ok()) << kv.status();
      return kv.ok() ? kv->full_bytes + kv->window_bytes : -1;
    };
    const std::string what =
        absl::StrCat(row.model, " ", row.context, " ", row.type);
    EXPECT_EQ(bytes(RingRule::kExact), row.ring) << what;
    EXPECT_EQ(bytes(RingRule::kFull), row.full) << what;
    EXPECT_EQ(bytes(RingRule::kWindowPlusUbatch), row.ring_llama) << what;
    n_within += row.is_beyond_max ? 0 : 1;
  }
  EXPECT_GE(n_within, 100);
}

}  // namespace
}  // namespace plimsoll::planner
