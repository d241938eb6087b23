// Headers with every type, cut at every byte, and sources that fail: the
// error always comes through, and nothing is taken for whole.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "planner/gguf/gguf_arrays.h"
#include "planner/gguf/gguf_reader.h"
#include "tests/planner/gguf/gguf_builder.h"

namespace plimsoll::planner {
namespace {

GgufBuilder EveryType() {
  GgufBuilder b;
  const auto both = [&b](auto value, GgufType type, const std::string& name) {
    b.Raw(name, type, ByteWriter().Put(value).bytes());
    b.Array<decltype(value)>(name + "s", type, {value, value});
  };
  both(uint8_t{1}, GgufType::kU8, "u8");
  both(int8_t{-1}, GgufType::kI8, "i8");
  both(uint16_t{1}, GgufType::kU16, "u16");
  both(int16_t{-1}, GgufType::kI16, "i16");
  both(uint32_t{1}, GgufType::kU32, "u32");
  both(int32_t{-1}, GgufType::kI32, "i32");
  both(uint64_t{1}, GgufType::kU64, "u64");
  both(int64_t{-1}, GgufType::kI64, "i64");
  both(0.5f, GgufType::kF32, "f32");
  both(0.25, GgufType::kF64, "f64");
  both(uint8_t{1}, GgufType::kBool, "bool");
  b.Text("text", "word").Strings("texts", {"a", "", "ccc"});
  b.Array("long", GgufType::kU8,
          std::vector<uint8_t>(GgufHeader::kMaxInlineElements + 1));
  b.Tensor("one", DType::kQ8_0, {64, 3}).Tensor("two", DType::kF32, {5});
  return b;
}

TEST(GgufCutTest, NoPrefixOfAFileIsTakenForWhole) {
  const std::string header = EveryType().Header();
  const std::string file = EveryType().Build();
  for (size_t size = 0; size < header.size(); ++size) {
    const absl::Status status = Parse(file.substr(0, size)).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << size << ": " << status;
  }
  EXPECT_FALSE(Parse(file.substr(0, header.size())).ok());  // without its data
  EXPECT_TRUE(Parse(file).ok());
}

TEST(GgufCutTest, ShortArraysKeepTheirNumbers) {
  const auto header = Parse(EveryType().Build());
  ASSERT_TRUE(header.ok()) << header.status();
  struct Case {
    const char* key;
    double value;
  };
  for (const auto& [key, value] :
       {Case{"u8s", 1}, Case{"i8s", -1}, Case{"u16s", 1}, Case{"i16s", -1},
        Case{"u32s", 1}, Case{"i32s", -1}, Case{"u64s", 1}, Case{"i64s", -1},
        Case{"f32s", 0.5}, Case{"f64s", 0.25}, Case{"bools", 1}}) {
    EXPECT_EQ((*header->Array(key))->numbers, std::vector<double>(2, value))
        << key;
  }
  EXPECT_TRUE((*header->Array("long"))->numbers.empty());
}

// Fails from the read after `n_good` on.
class FailingSource final : public ByteSource {
 public:
  FailingSource(absl::string_view file, int n_good)
      : file_(AsBytes(file)), n_good_(n_good) {}
  int64_t Size() const override { return file_.Size(); }
  absl::Status Read(int64_t offset, std::span<std::byte> out) override {
    if (n_good_-- > 0) return file_.Read(offset, out);
    return absl::AbortedError("the disk is gone");
  }

 private:
  MemorySource file_;
  int n_good_;
};

TEST(GgufCutTest, AReadThatFailsIsWhatTheReaderReports) {
  // Strings shorter and longer than a buffer, in and outside an array.
  const std::string shorter(50'000, 'x');
  const std::string longer(200'000, 'y');
  GgufBuilder b = EveryType();
  b.Text("a", shorter).Text("b", longer).Text("c", shorter);
  b.Strings("d", {shorter, longer, "z", shorter}).Text("e", shorter);
  b.Array("f", GgufType::kU16, std::vector<uint16_t>(100'000)).U32("g", 1);
  const std::string file = b.Build();
  int n_good = 0;
  while (true) {
    FailingSource source(file, n_good);
    const auto header = ReadGgufHeader(source);
    if (header.ok()) break;
    EXPECT_TRUE(absl::IsAborted(header.status())) << header.status();
    ++n_good;
  }
  EXPECT_GT(n_good, 5);
}

TEST(GgufCutTest, UnknownTypesAreNamed) {
  for (const uint32_t type : {13u, 200u, ~0u}) {
    GgufBuilder scalar;
    scalar.Raw("odd", static_cast<GgufType>(type), "12345678");
    GgufBuilder array;
    array.Array<uint64_t>("odd", static_cast<GgufType>(type), {1, 2});
    for (const GgufBuilder& builder : {scalar, array}) {
      const absl::Status status = Parse(builder.Build()).status();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_NE(status.message().find(absl::StrCat("\"odd\" has the unknown")),
                absl::string_view::npos)
          << status;
    }
  }
}

TEST(GgufCutTest, AnArrayPastTheEndOfTheFileIsDataLoss) {
  for (const GgufType type : {GgufType::kU8, GgufType::kString}) {
    ByteWriter array;
    array.Put(static_cast<uint32_t>(type)).Put(uint64_t{1'000'000});
    GgufBuilder b;
    b.Raw("big", GgufType::kArray, array.bytes());
    const absl::Status status = Parse(b.Build()).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  }
}

TEST(GgufCutTest, ArraysThatNoHeaderDeclaresAreDataLoss) {
  const std::string file = EveryType().Build();
  const auto size = static_cast<int64_t>(file.size());
  MemorySource source(AsBytes(file));
  const auto visit = [](int64_t, absl::string_view) {
    return absl::OkStatus();
  };
  struct Case {
    int64_t n, offset, bytes;
  };
  for (const auto& [n, offset, bytes] :
       {Case{-1, 0, 8}, Case{1, -1, 8}, Case{1, 0, -1}, Case{1, 0, size + 1},
        Case{1, 1, size}, Case{1, 0, 7}}) {
    const GgufArray text = {GgufType::kString, n, offset, bytes, {}};
    const GgufArray numbers = {GgufType::kI64, n, offset, bytes, {}};
    EXPECT_TRUE(absl::IsDataLoss(ForEachString(source, text, visit))) << n;
    EXPECT_TRUE(absl::IsDataLoss(ReadInt32s(source, numbers).status())) << n;
  }
  const GgufArray numbers = {GgufType::kF64, 0, 0, 0, {}};
  EXPECT_TRUE(absl::IsInvalidArgument(ForEachString(source, numbers, visit)));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadInt32s(source, numbers).status()));
}

}  // namespace
}  // namespace plimsoll::planner
