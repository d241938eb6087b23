// Typed getters of a header, and reading arrays that stayed in the file.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "planner/gguf/gguf_arrays.h"
#include "planner/gguf/gguf_reader.h"
#include "tests/planner/gguf/gguf_builder.h"

namespace plimsoll::planner {
namespace {

template <typename T>
std::string Bytes(T value) {
  return ByteWriter().Put(value).bytes();
}

GgufHeader AllTypes() {
  GgufBuilder b;
  b.Raw("u8", GgufType::kU8, Bytes(uint8_t{200}))
      .Raw("i8", GgufType::kI8, Bytes(int8_t{-100}))
      .Raw("u16", GgufType::kU16, Bytes(uint16_t{60'000}))
      .Raw("i16", GgufType::kI16, Bytes(int16_t{-30'000}))
      .Raw("i32", GgufType::kI32, Bytes(int32_t{-5}))
      .Raw("u64", GgufType::kU64, Bytes(uint64_t{1} << 40))
      .Raw("i64", GgufType::kI64, Bytes(int64_t{-1}))
      .Raw("huge", GgufType::kU64, Bytes(uint64_t{1} << 63))
      .Raw("f64", GgufType::kF64, Bytes(0.25))
      .Raw("yes", GgufType::kBool, "\x01")
      .U32("u32", 7)
      .F32("f32", 1.5f)
      .Text("text", "word")
      .Strings("texts", {"a", "", "ccc"});
  return *Parse(b.Build());
}

TEST(GgufValuesTest, IntTakesEveryIntegerType) {
  const GgufHeader h = AllTypes();
  EXPECT_EQ(**h.Int("u8"), 200);
  EXPECT_EQ(**h.Int("i8"), -100);
  EXPECT_EQ(**h.Int("u16"), 60'000);
  EXPECT_EQ(**h.Int("i16"), -30'000);
  EXPECT_EQ(**h.Int("u32"), 7);
  EXPECT_EQ(**h.Int("i32"), -5);
  EXPECT_EQ(**h.Int("u64"), int64_t{1} << 40);
  EXPECT_EQ(**h.Int("i64"), -1);
}

TEST(GgufValuesTest, GettersRejectOtherTypesNamingTheKey) {
  const GgufHeader h = AllTypes();
  for (const char* key : {"f32", "text", "texts", "yes", "huge"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(h.Int(key).status())) << key;
    EXPECT_NE(h.Int(key).status().message().find(key), std::string::npos);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(h.Float("u32").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(h.Bool("u8").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(h.String("texts").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(h.Array("text").status()));
}

TEST(GgufValuesTest, OtherGettersGiveTheirValues) {
  const GgufHeader h = AllTypes();
  EXPECT_EQ(**h.Float("f32"), 1.5);
  EXPECT_EQ(**h.Float("f64"), 0.25);
  EXPECT_EQ(**h.Bool("yes"), true);
  EXPECT_EQ(**h.String("text"), "word");
  EXPECT_EQ((*h.Array("texts"))->n, 3);
}

TEST(GgufValuesTest, AbsentKeysAreNothing) {
  const GgufHeader h = AllTypes();
  EXPECT_EQ(*h.Int("x"), std::nullopt);
  EXPECT_EQ(*h.Float("x"), std::nullopt);
  EXPECT_EQ(*h.Bool("x"), std::nullopt);
  EXPECT_EQ(*h.String("x"), std::nullopt);
  EXPECT_EQ(*h.Array("x"), nullptr);
}

TEST(GgufValuesTest, VisitsEveryStringInOrderAcrossChunks) {
  std::vector<std::string> texts;
  for (int i = 0; i < 50'000; ++i) {
    texts.push_back(
        absl::StrCat(std::string(static_cast<size_t>(i % 9), 'x'), i));
  }
  texts[777] = std::string(300'000, 'y');  // longer than any buffer
  GgufBuilder b;
  b.Strings("t", texts);
  const std::string file = b.Build();
  MemorySource source(AsBytes(file));
  const auto header = ReadGgufHeader(source);
  ASSERT_TRUE(header.ok());
  std::vector<std::string> seen;
  const absl::Status status = ForEachString(
      source, **header->Array("t"), [&](int64_t i, absl::string_view text) {
        EXPECT_EQ(i, static_cast<int64_t>(seen.size()));
        seen.emplace_back(text);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(seen, texts);
}

TEST(GgufValuesTest, ForEachStringReturnsTheVisitorsError) {
  GgufBuilder b;
  b.Strings("t", {"a", "b"});
  const std::string file = b.Build();
  MemorySource source(AsBytes(file));
  const auto header = ReadGgufHeader(source);
  int calls = 0;
  const absl::Status status =
      ForEachString(source, **header->Array("t"), [&](int64_t, auto) {
        ++calls;
        return absl::AbortedError("enough");
      });
  EXPECT_TRUE(absl::IsAborted(status));
  EXPECT_EQ(calls, 1);
}

TEST(GgufValuesTest, AFileThatChangedIsDataLoss) {
  GgufBuilder b;
  b.Strings("t", {"aaaa", "bbbb"});
  std::string file = b.Build();
  const GgufArray array = **Parse(file)->Array("t");
  const auto visit = [](int64_t, absl::string_view) {
    return absl::OkStatus();
  };
  file[static_cast<size_t>(array.offset)] = 100;  // the first length
  MemorySource changed(AsBytes(file));
  EXPECT_TRUE(absl::IsDataLoss(ForEachString(changed, array, visit)));
  MemorySource shorter(AsBytes(absl::string_view(file).substr(0, 30)));
  EXPECT_TRUE(absl::IsDataLoss(ForEachString(shorter, array, visit)));
  EXPECT_FALSE(ReadFloats(shorter, array).ok());
}

TEST(GgufValuesTest, ReadsNumbersWithinRangeOnly) {
  GgufBuilder b;
  b.Array<float>("f32", GgufType::kF32, {1.5f, -2.0f})
      .Array<double>("f64", GgufType::kF64, {1e300})
      .Array<int32_t>("i32", GgufType::kI32, {-7, 2'147'483'647})
      .Array<uint32_t>("u32", GgufType::kU32, {2'147'483'648u})
      .Array<uint64_t>("u64", GgufType::kU64, {~uint64_t{0}})
      .Strings("text", {"1"});
  const std::string file = b.Build();
  MemorySource source(AsBytes(file));
  const auto h = ReadGgufHeader(source);
  ASSERT_TRUE(h.ok());
  EXPECT_EQ(*ReadFloats(source, **h->Array("f32")),
            (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(*ReadInt32s(source, **h->Array("i32")),
            (std::vector<int32_t>{-7, 2'147'483'647}));
  EXPECT_FALSE(ReadFloats(source, **h->Array("f64")).ok());
  EXPECT_FALSE(ReadInt32s(source, **h->Array("u32")).ok());
  EXPECT_FALSE(ReadInt32s(source, **h->Array("u64")).ok());
  EXPECT_FALSE(ReadInt32s(source, **h->Array("f32")).ok());
  EXPECT_FALSE(ReadInt32s(source, **h->Array("text")).ok());
}

TEST(GgufValuesTest, MemorySourceStaysInBounds) {
  const std::string bytes = "abcd";
  MemorySource source(AsBytes(bytes));
  std::vector<std::byte> out(3);
  EXPECT_TRUE(source.Read(1, out).ok());
  EXPECT_FALSE(source.Read(2, out).ok());
  EXPECT_FALSE(source.Read(-1, out).ok());
  EXPECT_FALSE(source.Read(std::numeric_limits<int64_t>::max(), out).ok());
}

}  // namespace
}  // namespace plimsoll::planner
