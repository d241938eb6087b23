// Headers of safetensors files, and those that lie.
#include "services/convert/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "planner/gguf/byte_source.h"
#include "tests/services/convert/safetensors_bytes.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

absl::StatusOr<std::vector<SafeTensor>> ReadBytes(const std::string& bytes) {
  planner::MemorySource source(
      std::as_bytes(std::span(bytes.data(), bytes.size())));
  return ReadSafetensors(source);
}

absl::StatusOr<std::vector<SafeTensor>> Read(const std::string& header,
                                             size_t data_bytes) {
  return ReadBytes(SafetensorsBytes(header, data_bytes));
}

void ExpectError(const std::string& header, size_t data_bytes,
                 const std::string& words) {
  const auto tensors = Read(header, data_bytes);
  ASSERT_FALSE(tensors.ok()) << header;
  EXPECT_THAT(std::string(tensors.status().message()), HasSubstr(words))
      << header;
}

// One tensor "t" of these members.
std::string One(const std::string& type, const std::string& shape,
                const std::string& range) {
  const nlohmann::json tensor = {
      {"dtype", type},
      {"shape", nlohmann::json::parse(shape)},
      {"data_offsets", nlohmann::json::parse(range)}};
  return nlohmann::json{{"t", tensor}}.dump();
}

TEST(SafetensorsTest, TensorsComeInTheOrderOfTheirOffsets) {
  const std::string header = R"({
    "b": {"dtype": "F32", "shape": [2, 3], "data_offsets": [8, 32]},
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]},
    "ids": {"dtype": "I64", "shape": [1, 1], "data_offsets": [32, 40]},
    "one": {"dtype": "F16", "shape": [], "data_offsets": [40, 42]}})";
  const auto tensors = Read(header, 42);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_THAT(*tensors, SizeIs(4));
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[0].dtype, DType::kBF16);
  EXPECT_EQ((*tensors)[0].offset, 8 + static_cast<int64_t>(header.size()));
  EXPECT_EQ((*tensors)[1].name, "b");
  EXPECT_THAT((*tensors)[1].shape, ElementsAre(2, 3));
  EXPECT_EQ((*tensors)[1].bytes, 24);
  EXPECT_FALSE((*tensors)[2].dtype.has_value());
  EXPECT_EQ((*tensors)[2].type, "I64");
  EXPECT_THAT((*tensors)[3].shape, IsEmpty());
}

TEST(SafetensorsTest, AFileWithoutTensorsIsOne) {
  EXPECT_THAT(*Read("{}", 0), IsEmpty());
}

TEST(SafetensorsTest, LengthsThatLieAreRefused) {
  EXPECT_TRUE(absl::IsDataLoss(ReadBytes("1234567").status()));
  EXPECT_FALSE(ReadBytes(std::string(8, '\xff')).ok());
  std::string bytes = SafetensorsBytes("{}", 0);
  bytes[0] = 3;
  EXPECT_FALSE(ReadBytes(bytes).ok());
  bytes[0] = 0;
  EXPECT_FALSE(ReadBytes(bytes).ok());  // an empty header is no JSON
}

TEST(SafetensorsTest, HeadersThatAreNoTablesAreRefused) {
  ExpectError("[]", 0, "not an object");
  ExpectError("{", 0, "not JSON");
  ExpectError(R"({"t": 1})", 8, "unknown type");
  ExpectError("{\"\xff\": 1}", 8, "not JSON");
  ExpectError(R"({"t": {"dtype": "F32", "dtype": "F32"}})", 8, "named twice");
  ExpectError(R"({"t": {"dtype": {"a": {"b": {}}}}})", 8, "deep");
  const std::string one = One("F32", "[1]", "[0, 4]");
  ExpectError(absl::StrCat(one.substr(0, one.size() - 1), ", ", one.substr(1)),
              4, "named twice");
}

TEST(SafetensorsTest, ShapesMustFitTheRange) {
  EXPECT_TRUE(Read(One("F32", "[2, 2]", "[0, 16]"), 16).ok());
  ExpectError(One("F32", "[2, 2]", "[0, 15]"), 16, "contradicts");
  ExpectError(One("F16", "[2, 2]", "[0, 16]"), 16, "contradicts");
  ExpectError(One("F32", "[-1]", "[0, 4]"), 16, "no count");
  ExpectError(One("F32", "[1.5]", "[0, 4]"), 16, "no count");
  ExpectError(One("F32", "[\"1\"]", "[0, 4]"), 16, "no count");
  ExpectError(One("F32", "[9223372036854775807]", "[0, 4]"), 16, "no count");
  ExpectError(One("F32", "[4611686018427387904, 4]", "[0, 0]"), 16,
              "contradicts");
  ExpectError(One("F32", "4", "[0, 4]"), 16, "no shape");
  ExpectError(One("F12", "[1]", "[0, 4]"), 16, "\"F12\"");
}

TEST(SafetensorsTest, RangesMustLieInTheFile) {
  for (const char* range :
       {"[0, 17]", "[16, 20]", "[4, 0]", "[-4, 0]", "[0]", "[0, 4, 8]", "{}",
        "null", "[0, 18446744073709551615]", "[0.0, 4.0]"}) {
    ExpectError(One("F32", "[1]", range), 16, "does not lie within");
  }
  EXPECT_TRUE(Read(One("F32", "[1]", "[12, 16]"), 16).ok());
}

TEST(SafetensorsTest, OverlapsAreRefusedAndGapsAreNot) {
  const auto two = [](int begin) {
    auto header = nlohmann::json::parse(
        R"({"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]},
            "b": {"dtype": "U8", "shape": [8]}})");
    header["b"]["data_offsets"] = {begin, begin + 8};
    return header.dump();
  };
  EXPECT_TRUE(Read(two(8), 20).ok());
  EXPECT_TRUE(Read(two(12), 20).ok());
  ExpectError(two(7), 20, "overlaps");
  ExpectError(two(0), 20, "overlaps");
}

TEST(SafetensorsTest, UpToItsLimitsAndNotPastThem) {
  const auto named = [](int64_t n) {
    std::string header = One("F32", "[1]", "[0, 4]");
    return header.replace(2, 1, std::string(static_cast<size_t>(n), 'n'));
  };
  EXPECT_TRUE(Read(named(kMaxSafetensorName), 4).ok());
  ExpectError(named(kMaxSafetensorName + 1), 4, "256 bytes");
  EXPECT_TRUE(Read(One("U8", "[1, 1, 1, 1, 1, 1, 1, 1]", "[0, 1]"), 1).ok());
  ExpectError(One("U8", "[1, 1, 1, 1, 1, 1, 1, 1, 1]", "[0, 1]"), 1,
              "8 dimensions");
  std::string padded = One("F32", "[1]", "[0, 4]");
  padded.resize(kMaxSafetensorsHeader, ' ');
  EXPECT_TRUE(Read(padded, 4).ok());
  padded.push_back(' ');
  ExpectError(padded, 4, "at most 16777216");
}

TEST(SafetensorsTest, AsManyTensorsAsItsLimitAndNoMore) {
  const auto many = [](int64_t n) {
    const auto empty = nlohmann::json::parse(
        R"({"dtype": "U8", "shape": [0], "data_offsets": [0, 0]})");
    auto header = nlohmann::json::parse(R"({"__metadata__": {}})");
    for (int64_t i = 0; i < n; ++i) header[absl::StrCat(i)] = empty;
    return header.dump();
  };
  EXPECT_THAT(*Read(many(kMaxSafetensors), 0), SizeIs(kMaxSafetensors));
  ExpectError(many(kMaxSafetensors + 1), 0, "more than 65536 tensors");
}

}  // namespace
}  // namespace plimsoll::services
