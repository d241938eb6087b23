// What the writer writes, the reader reads.
#include "planner/gguf/gguf_writer.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/gguf/gguf_arrays.h"
#include "planner/gguf/gguf_reader.h"
#include "planner/gguf/prefix_source.h"

namespace plimsoll::planner {
namespace {

class GgufWriterTest : public ::testing::Test {
 protected:
  // The header that a reader finds, in a file with `data_bytes` after it.
  absl::StatusOr<GgufHeader> Read(const GgufWriter& writer,
                                  int64_t data_bytes) {
    bytes_ = writer.Finish();
    bytes_.resize((bytes_.size() + 31) / 32 * 32, '\0');
    source_.emplace(std::as_bytes(std::span(bytes_.data(), bytes_.size())),
                    static_cast<int64_t>(bytes_.size()) + data_bytes);
    return ReadGgufHeader(*source_);
  }

  std::string bytes_;
  std::optional<PrefixSource> source_;
};

TEST_F(GgufWriterTest, NothingIsAHeaderToo) {
  const auto header = Read(GgufWriter(), /*data_bytes=*/0);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->version, 3u);
  EXPECT_TRUE(header->metadata.empty());
  EXPECT_TRUE(header->tensors.empty());
}

TEST_F(GgufWriterTest, EveryKindOfValueComesBack) {
  GgufWriter writer;
  writer.Add("u32", {GgufType::kU32, uint64_t{4'000'000'000}});
  writer.Add("u64", {GgufType::kU64, uint64_t{1} << 40});
  writer.Add("i32", {GgufType::kI32, int64_t{-7}});
  writer.Add("f32", {GgufType::kF32, 1.5});
  writer.Add("f64", {GgufType::kF64, 0.1});
  writer.Add("bool", {GgufType::kBool, uint64_t{1}});
  writer.Add("text", {GgufType::kString, std::string("a\0b", 3)});
  writer.Add("list",
             {GgufType::kArray, GgufArray{GgufType::kI16, 2, 0, 0, {-3, 4}}});
  const auto header = Read(writer, /*data_bytes=*/0);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->Int("u32")->value(), 4'000'000'000);
  EXPECT_EQ(header->Int("u64")->value(), int64_t{1} << 40);
  EXPECT_EQ(header->Int("i32")->value(), -7);
  EXPECT_EQ(header->Float("f32")->value(), 1.5);
  EXPECT_EQ(header->Float("f64")->value(), 0.1);
  EXPECT_EQ(header->Bool("bool")->value(), true);
  EXPECT_EQ(header->String("text")->value(), std::string("a\0b", 3));
  EXPECT_EQ((*header->Array("list"))->numbers, (std::vector<double>{-3, 4}));
}

TEST_F(GgufWriterTest, LongArraysComeBack) {
  const std::vector<std::string> texts = {"", "one", std::string(300, 'x')};
  const std::vector<float> floats = {0, -1.5f, 1e30f};
  const std::vector<int32_t> numbers(2'000, -5);
  GgufWriter writer;
  writer.AddStrings("texts", texts);
  writer.AddFloats("floats", floats);
  writer.AddInt32s("numbers", numbers);
  const auto header = Read(writer, /*data_bytes=*/0);
  ASSERT_TRUE(header.ok()) << header.status();
  std::vector<std::string> found;
  ASSERT_TRUE(ForEachString(*source_, **header->Array("texts"),
                            [&](int64_t, absl::string_view text) {
                              found.emplace_back(text);
                              return absl::OkStatus();
                            })
                  .ok());
  EXPECT_EQ(found, texts);
  EXPECT_EQ(*ReadFloats(*source_, **header->Array("floats")), floats);
  EXPECT_EQ(*ReadInt32s(*source_, **header->Array("numbers")), numbers);
}

TEST_F(GgufWriterTest, TensorsComeBack) {
  GgufWriter writer;
  writer.AddTensor({.name = "a",
                    .dtype = DType::kF32,
                    .n_dims = 1,
                    .ne = {8, 1, 1, 1},
                    .offset = 0,
                    .bytes = 32});
  writer.AddTensor({.name = "b",
                    .dtype = DType::kQ8_0,
                    .n_dims = 2,
                    .ne = {32, 3, 1, 1},
                    .offset = 32,
                    .bytes = 102});
  const auto header = Read(writer, /*data_bytes=*/134);
  ASSERT_TRUE(header.ok()) << header.status();
  ASSERT_EQ(header->tensors.size(), 2u);
  EXPECT_EQ(header->tensors[1].name, "b");
  EXPECT_EQ(header->tensors[1].dtype, DType::kQ8_0);
  EXPECT_EQ(header->tensors[1].ne, (std::array<int64_t, 4>{32, 3, 1, 1}));
  EXPECT_EQ(header->tensors[1].bytes, 102);
}

}  // namespace
}  // namespace plimsoll::planner
