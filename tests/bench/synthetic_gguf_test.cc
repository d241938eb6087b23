// A synthetic model of a small shape loads and generates; the seed decides its
// bytes.
#include "bench/synthetic_gguf.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/read_file.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"

namespace plimsoll {
namespace {

using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::LoadEngine;
using ::plimsoll::testing::ReadFile;
using ::plimsoll::testing::TemporaryFile;

SyntheticShape Small(DType type) {
  return {.layers = 7,
          .dim = 64,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 32,
          .ffn = 96,
          .vocab = 300,
          .window = 64,
          .context = 512,
          .type = type};
}

TEST(SyntheticGgufTest, EachTypeLoadsAndGenerates) {
  for (const DType type : {DType::kQ4_0, DType::kQ8_0}) {
    const TemporaryFile file({});
    ASSERT_TRUE(WriteSyntheticModel(file.path(), Small(type), 1).ok());
    const auto engine = LoadEngine(file.path(), {.n_ctx = 128});
    ASSERT_TRUE(engine.ok()) << engine.status();
    const Generated reply = Generate(**engine, Greedy({270, 280, 290}, 20));
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.tokens.size(), 20u);
  }
}

TEST(SyntheticGgufTest, TheSeedDecidesTheBytes) {
  const TemporaryFile a({});
  const TemporaryFile b({});
  ASSERT_TRUE(WriteSyntheticModel(a.path(), Small(DType::kQ4_0), 1).ok());
  ASSERT_TRUE(WriteSyntheticModel(b.path(), Small(DType::kQ4_0), 1).ok());
  EXPECT_EQ(ReadFile(a.path()), ReadFile(b.path()));
  ASSERT_TRUE(WriteSyntheticModel(b.path(), Small(DType::kQ4_0), 2).ok());
  EXPECT_NE(ReadFile(a.path()), ReadFile(b.path()));
}

TEST(SyntheticGgufTest, RefusesWhatIsNoModel) {
  const TemporaryFile file({});
  SyntheticShape shape = Small(DType::kF32);
  EXPECT_EQ(WriteSyntheticModel(file.path(), shape, 1).code(),
            absl::StatusCode::kInvalidArgument);
  shape = Small(DType::kQ4_0);
  shape.vocab = SyntheticShape::kMinVocab - 1;
  EXPECT_FALSE(WriteSyntheticModel(file.path(), shape, 1).ok());
  shape = Small(DType::kQ4_0);
  shape.dim = 33;
  EXPECT_FALSE(WriteSyntheticModel(file.path(), shape, 1).ok());
  EXPECT_FALSE(
      WriteSyntheticModel("/nowhere/model.gguf", Small(DType::kQ4_0), 1).ok());
}

}  // namespace
}  // namespace plimsoll
