// The reader's rules, one bad file a rule, and its limits.
#include "planner/gguf/gguf_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/planner/gguf/gguf_builder.h"

namespace plimsoll::planner {
namespace {

using ::testing::HasSubstr;

// The values at which counts and lengths have gone wrong in other readers.
const std::vector<uint64_t>& Extremes() {
  static const auto* const kValues =
      new std::vector<uint64_t>{0,
                                1,
                                (uint64_t{1} << 31) - 1,
                                uint64_t{1} << 31,
                                (uint64_t{1} << 31) + 1,
                                (uint64_t{1} << 32) - 1,
                                uint64_t{1} << 32,
                                (uint64_t{1} << 32) + 1,
                                (uint64_t{1} << 61) + 1,
                                (uint64_t{1} << 63) - 1,
                                uint64_t{1} << 63,
                                (uint64_t{1} << 63) + 1,
                                ~uint64_t{0} - 7,
                                ~uint64_t{0}};
  return *kValues;
}

GgufBuilder Small() {
  GgufBuilder builder;
  builder.Text("general.architecture", "llama")
      .U32("llama.block_count", 1)
      .Tensor("a", DType::kF32, {8, 2})
      .Tensor("b", DType::kQ8_0, {32});
  return builder;
}

void ExpectRejected(absl::string_view file, absl::string_view words) {
  const auto header = Parse(file);
  ASSERT_FALSE(header.ok()) << words;
  EXPECT_TRUE(absl::IsInvalidArgument(header.status()) ||
              absl::IsDataLoss(header.status()))
      << header.status();
  EXPECT_THAT(std::string(header.status().message()),
              HasSubstr(std::string(words)));
}

TEST(GgufReaderTest, ReadsAGoodFile) {
  const auto header = Parse(Small().Build());
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->version, 3u);
  EXPECT_EQ(header->alignment, 32);
  EXPECT_EQ(header->data_offset % 32, 0);
  EXPECT_EQ(header->metadata.size(), 2u);
  ASSERT_EQ(header->tensors.size(), 2u);
  EXPECT_EQ(header->tensors[0].bytes, 64);
  EXPECT_EQ(header->tensors[1].offset, 64);
  EXPECT_EQ(header->tensors[1].bytes, 34);
  EXPECT_EQ(header->FindTensor("b"), &header->tensors[1]);
  EXPECT_EQ(header->FindTensor("c"), nullptr);
}

TEST(GgufReaderTest, ReadsVersionTwo) {
  GgufBuilder builder = Small();
  builder.version = 2;
  EXPECT_TRUE(Parse(builder.Build()).ok());
}

TEST(GgufReaderTest, RejectsOtherVersionsByName) {
  GgufBuilder builder = Small();
  for (uint32_t version : {0u, 1u, 4u, 0xFFFFu, 0xFFFFFFFFu}) {
    builder.version = version;
    ExpectRejected(builder.Build(), absl::StrCat("version is ", version));
  }
}

TEST(GgufReaderTest, RejectsTheOtherByteOrder) {
  GgufBuilder builder = Small();
  builder.version = 3u << 24;
  ExpectRejected(builder.Build(), "byte order");
}

TEST(GgufReaderTest, RejectsOtherMagic) {
  std::string file = Small().Build();
  file[3] = 'X';
  ExpectRejected(file, "magic");
}

TEST(GgufReaderTest, RejectsEveryTinyFile) {
  const std::string file = Small().Build();
  for (size_t n = 0; n <= 64; ++n) {
    EXPECT_FALSE(Parse(absl::string_view(file).substr(0, n)).ok()) << n;
    EXPECT_FALSE(Parse(std::string(n, '\0')).ok()) << n;
  }
}

TEST(GgufReaderTest, AcceptsAFileWithoutTensorsAndPadding) {
  GgufBuilder builder;
  builder.U32("x", 1);
  EXPECT_TRUE(Parse(builder.Header()).ok());
}

TEST(GgufReaderTest, RejectsWrongTensorCounts) {
  for (uint64_t count : Extremes()) {
    if (count < 2) continue;
    GgufBuilder builder = Small();
    builder.tensor_count = count;
    ExpectRejected(builder.Build(), "tensor_count");
  }
}

TEST(GgufReaderTest, RejectsWrongMetadataCounts) {
  for (uint64_t count : Extremes()) {
    GgufBuilder builder = Small();
    builder.metadata_count = count;
    EXPECT_FALSE(Parse(builder.Build()).ok()) << count;
    if (count > 2) ExpectRejected(builder.Build(), "metadata_kv_count");
  }
}

TEST(GgufReaderTest, AcceptsMetadataUpToItsLimitAndNotPastIt) {
  for (int64_t extra : {0, 1}) {
    GgufBuilder builder;
    for (int64_t i = 0; i < GgufHeader::kMaxMetadata + extra; ++i) {
      builder.U32(absl::StrCat("k", i), 1);
    }
    EXPECT_EQ(Parse(builder.Build()).ok(), extra == 0);
  }
}

TEST(GgufReaderTest, AcceptsTensorsUpToTheirLimitAndNotPastIt) {
  for (int64_t extra : {0, 1}) {
    GgufBuilder builder;
    for (int64_t i = 0; i < GgufHeader::kMaxTensors + extra; ++i) {
      builder.Tensor(absl::StrCat("t", i), DType::kF32, {1});
    }
    EXPECT_EQ(Parse(builder.Build()).ok(), extra == 0);
  }
}

TEST(GgufReaderTest, RejectsWrongStringLengthsNamingTheKey) {
  for (uint64_t length : Extremes()) {
    if (length < 2) continue;
    GgufBuilder builder;
    builder.Raw("the.key", GgufType::kString,
                ByteWriter().Put(length).PutRaw("xy").bytes());
    ExpectRejected(builder.Build(), "the.key");
  }
}

TEST(GgufReaderTest, RejectsWrongKeyLengths) {
  for (uint64_t length : Extremes()) {
    if (length < 2) continue;
    ByteWriter file;
    file.PutRaw("GGUF").Put(uint32_t{3}).Put(uint64_t{0}).Put(uint64_t{1});
    file.Put(length).PutRaw(std::string(32, 'k'));
    ExpectRejected(file.bytes(), "key of metadata entry 0");
  }
}

TEST(GgufReaderTest, AcceptsKeysUpToTheirLimitAndNotPastIt) {
  for (size_t extra : {0u, 1u}) {
    GgufBuilder builder;
    builder.U32(std::string(GgufHeader::kMaxKeyBytes + extra, 'k'), 1);
    EXPECT_EQ(Parse(builder.Build()).ok(), extra == 0);
  }
}

TEST(GgufReaderTest, AcceptsStringsUpToTheirLimitAndNotPastIt) {
  for (size_t extra : {0u, 1u}) {
    const std::string text(GgufHeader::kMaxStringBytes + extra, 's');
    GgufBuilder builder;
    builder.Text("text", text);
    EXPECT_EQ(Parse(builder.Build()).ok(), extra == 0);
    GgufBuilder array;
    array.Strings("texts", {"a", text});
    EXPECT_EQ(Parse(array.Build()).ok(), extra == 0);
  }
}

TEST(GgufReaderTest, KeepsAtMostItsLimitOfMetadata) {
  GgufBuilder builder;
  const std::string text(GgufHeader::kMaxStringBytes, 's');
  for (int i = 0; i < 5; ++i) builder.Text(absl::StrCat("text", i), text);
  ExpectRejected(builder.Build(), "text3");
}

TEST(GgufReaderTest, RejectsEmptyAndRepeatedKeys) {
  GgufBuilder empty;
  empty.U32("", 1);
  ExpectRejected(empty.Build(), "is empty");
  GgufBuilder twice;
  twice.U32("k", 1).U32("k", 1);
  ExpectRejected(twice.Build(), "\"k\" appears twice");
}

TEST(GgufReaderTest, RejectsUnknownValueTypes) {
  for (uint32_t type : {13u, 255u, 0x80000000u, 0xFFFFFFFFu}) {
    GgufBuilder builder;
    builder.Raw("k", static_cast<GgufType>(type), "12345678");
    ExpectRejected(builder.Build(), absl::StrCat("value type ", type));
  }
}

TEST(GgufReaderTest, RejectsBoolsThatAreNeither) {
  GgufBuilder builder;
  builder.Raw("k", GgufType::kBool, "\x02");
  ExpectRejected(builder.Build(), "bool");
}

TEST(GgufReaderTest, RejectsNestedArrays) {
  GgufBuilder builder;
  builder.Raw("k", GgufType::kArray,
              ByteWriter().Put(uint32_t{9}).Put(uint64_t{0}).bytes());
  ExpectRejected(builder.Build(), "array of arrays");
}

TEST(GgufReaderTest, RejectsWrongArrayLengthsOfEveryElementType) {
  for (uint32_t type : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 10u, 11u, 12u}) {
    for (uint64_t n : Extremes()) {
      if (n < 2) continue;
      GgufBuilder builder;
      builder.Raw("the.key", GgufType::kArray,
                  ByteWriter().Put(type).Put(n).bytes());
      ExpectRejected(builder.Build(), "the.key");
    }
  }
}

TEST(GgufReaderTest, RejectsArraysPastTheirLimitThoughTheFileHoldsThem) {
  for (int64_t extra : {0, 1}) {
    GgufBuilder builder;
    const int64_t n = GgufHeader::kMaxArrayElements + extra;
    builder.Raw("k", GgufType::kArray,
                ByteWriter().Put(uint32_t{0}).Put(n).bytes());
    const std::string header = builder.Header();
    HeaderSource source(header, static_cast<int64_t>(header.size()) + n);
    const auto parsed = ReadGgufHeader(source);
    EXPECT_EQ(parsed.ok(), extra == 0) << parsed.status();
    EXPECT_LT(source.bytes_read(), 1 << 20);  // skipped, not read
  }
}

TEST(GgufReaderTest, KeepsShortNumericArraysInline) {
  constexpr size_t kMost = GgufHeader::kMaxInlineElements;
  for (size_t n : {kMost, kMost + 1}) {
    GgufBuilder builder;
    builder.Array("k", GgufType::kI16, std::vector<int16_t>(n, -5));
    const auto header = Parse(builder.Build());
    ASSERT_TRUE(header.ok()) << header.status();
    const GgufArray* array = *header->Array("k");
    EXPECT_EQ(array->n, static_cast<int64_t>(n));
    EXPECT_EQ(array->bytes, static_cast<int64_t>(2 * n));
    if (n > kMost) {
      EXPECT_TRUE(array->numbers.empty());
    } else {
      EXPECT_EQ(array->numbers, std::vector<double>(n, -5.0));
    }
  }
}

TEST(GgufReaderTest, BoundsTheMemoryOfShortArrays) {
  GgufBuilder builder;
  for (int i = 0; i < 1'025; ++i) {
    builder.Array(absl::StrCat("k", i), GgufType::kU8,
                  std::vector<uint8_t>(1'024));
  }
  ExpectRejected(builder.Build(), "short arrays");
}

TEST(GgufReaderTest, RejectsAStringArrayWithOneBadLength) {
  for (uint64_t length : Extremes()) {
    if (length < 2) continue;
    GgufBuilder builder;
    builder.Raw("tokens", GgufType::kArray,
                ByteWriter()
                    .Put(uint32_t{8})
                    .Put(uint64_t{3})
                    .PutString("a")
                    .Put(length)
                    .Put(uint64_t{0})
                    .bytes());
    ExpectRejected(builder.Build(), "tokens\"[1]");
  }
}

TEST(GgufReaderTest, ChecksTheAlignment) {
  for (uint32_t alignment : {8u, 16u, 64u, 1u << 20}) {
    GgufBuilder builder;
    builder.alignment = alignment;
    builder.U32("general.alignment", alignment).Tensor("t", DType::kF32, {1});
    EXPECT_TRUE(Parse(builder.Build()).ok()) << alignment;
  }
  for (uint32_t alignment :
       {0u, 1u, 3u, 4u, 7u, 24u, 33u, 1u << 21, 1u << 31, 0xFFFFFFFFu}) {
    GgufBuilder builder = Small();
    builder.U32("general.alignment", alignment);
    ExpectRejected(builder.Build(), "general.alignment");
  }
  GgufBuilder text = Small();
  text.Text("general.alignment", "32");
  ExpectRejected(text.Build(), "general.alignment");
}

TEST(GgufReaderTest, RejectsWrongNumbersOfDimensions) {
  for (uint32_t n_dims : {0u, 5u, 6u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu}) {
    GgufBuilder builder;
    builder.RawTensor("t", n_dims, {1, 1, 1, 1, 1}, 0, 0);
    builder.extra_data = 64;
    ExpectRejected(builder.Build(), "\"t\"");
  }
}

TEST(GgufReaderTest, RejectsWrongDimensions) {
  for (size_t dim = 0; dim < 4; ++dim) {
    for (uint64_t n : Extremes()) {
      if (n == 1) continue;
      GgufBuilder builder;
      std::vector<uint64_t> ne = {1, 1, 1, 1};
      ne[dim] = n;
      builder.RawTensor("t", 4, ne, 0, 0);
      builder.extra_data = 64;
      ExpectRejected(builder.Build(), "\"t\"");
    }
  }
}

TEST(GgufReaderTest, RejectsProductsThatWrapToASmallSize) {
  const std::vector<std::vector<uint64_t>> shapes = {
      {uint64_t{1} << 32, uint64_t{1} << 32},
      {4, (uint64_t{1} << 62) + 1},
      {1024, (uint64_t{1} << 42) + 1, 1024, 1024},
      {uint64_t{1} << 61, 2, 2},
      {3037000500, 3037000500}};
  for (const auto& ne : shapes) {
    GgufBuilder builder;
    builder.RawTensor("t", static_cast<uint32_t>(ne.size()), ne, 0, 0);
    builder.extra_data = 1024;
    ExpectRejected(builder.Build(), "\"t\"");
  }
}

TEST(GgufReaderTest, RejectsUnknownElementTypesAndPartsOfBlocks) {
  for (uint32_t type : {4u, 5u, 31u, 33u, 36u, 38u, 41u, 43u, 0xFFFFFFFFu}) {
    GgufBuilder builder;
    builder.RawTensor("t", 1, {32}, type, 0);
    builder.extra_data = 1024;
    ExpectRejected(builder.Build(), absl::StrCat("element type ", type));
  }
  for (uint64_t n : {1u, 31u, 33u}) {
    GgufBuilder builder;
    builder.RawTensor("t", 1, {n}, static_cast<uint32_t>(DType::kQ8_0), 0);
    builder.extra_data = 1024;
    ExpectRejected(builder.Build(), "\"t\"");
  }
}

TEST(GgufReaderTest, RejectsOffsetsOutsideTheFileOrMisaligned) {
  for (uint64_t offset : Extremes()) {
    if (offset == 0) continue;
    GgufBuilder builder;
    builder.RawTensor("t", 1, {8}, 0, offset);
    builder.extra_data = 32;
    ExpectRejected(builder.Build(), "\"t\"");
  }
}

TEST(GgufReaderTest, ATensorMayEndAtTheEndOfTheFileAndNotPastIt) {
  for (int64_t missing : {0, 1}) {
    GgufBuilder builder;
    builder.Tensor("t", DType::kF32, {8});
    builder.extra_data = -missing;
    EXPECT_EQ(Parse(builder.Build()).ok(), missing == 0);
  }
  GgufBuilder unpadded;  // the last tensor's padding may be missing
  unpadded.Tensor("t", DType::kF32, {1});
  unpadded.extra_data = -28;
  EXPECT_TRUE(Parse(unpadded.Build()).ok());
  unpadded.extra_data = -29;
  ExpectRejected(unpadded.Build(), "truncated");
}

TEST(GgufReaderTest, TensorsMayLieInAnyOrderButNotOverlap) {
  GgufBuilder swapped;
  swapped.RawTensor("a", 1, {8}, 0, 32).RawTensor("b", 1, {8}, 0, 0);
  swapped.extra_data = 64;
  EXPECT_TRUE(Parse(swapped.Build()).ok());
  GgufBuilder overlapping;
  overlapping.RawTensor("a", 1, {16}, 0, 0).RawTensor("b", 1, {8}, 0, 32);
  overlapping.extra_data = 64;
  ExpectRejected(overlapping.Build(), "overlap");
  GgufBuilder same;
  same.RawTensor("a", 1, {8}, 0, 0).RawTensor("b", 1, {8}, 0, 0);
  same.extra_data = 64;
  ExpectRejected(same.Build(), "overlap");
}

TEST(GgufReaderTest, RejectsRepeatedEmptyAndLongTensorNames) {
  GgufBuilder twice;
  twice.Tensor("a", DType::kF32, {8}).Tensor("a", DType::kF32, {8});
  ExpectRejected(twice.Build(), "\"a\" appears twice");
  GgufBuilder empty;
  empty.Tensor("", DType::kF32, {8});
  ExpectRejected(empty.Build(), "is empty");
  for (size_t extra : {0u, 1u}) {
    GgufBuilder builder;
    builder.Tensor(std::string(GgufHeader::kMaxTensorNameBytes + extra, 'n'),
                   DType::kF32, {8});
    EXPECT_EQ(Parse(builder.Build()).ok(), extra == 0);
  }
}

TEST(GgufReaderTest, MessagesEscapeAndCutWhatTheFileSays) {
  GgufBuilder builder;
  const std::string key = "k\n\x1b[31m" + std::string(1'000, 'x');
  builder.Raw(key, static_cast<GgufType>(99), "1234");
  const auto header = Parse(builder.Build());
  ASSERT_FALSE(header.ok());
  const std::string message(header.status().message());
  EXPECT_LT(message.size(), 300u);
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
}

TEST(GgufReaderTest, EveryMutationOfEveryWordEndsInAStatus) {
  const std::string good = Small().Build();
  for (size_t at = 0; at + 8 <= good.size(); ++at) {
    for (uint64_t value : Extremes()) {
      std::string file = good;
      std::memcpy(file.data() + at, &value, sizeof(value));
      static_cast<void>(Parse(file).ok());
      file = good;
      const auto narrow = static_cast<uint32_t>(value);
      std::memcpy(file.data() + at, &narrow, sizeof(narrow));
      static_cast<void>(Parse(file).ok());
    }
  }
}

// 49 bytes that claim as many empty strings as an array may have.
std::string ManyEmptyStrings() {
  GgufBuilder builder;
  builder.Raw("a", GgufType::kArray,
              ByteWriter()
                  .Put(static_cast<uint32_t>(GgufType::kString))
                  .Put(static_cast<uint64_t>(GgufHeader::kMaxArrayElements))
                  .bytes());
  return builder.Header();
}

TEST(GgufReaderTest, NothingIsReadBeyondTheBytesThatAreThere) {
  const std::string header = ManyEmptyStrings();
  const auto n = static_cast<int64_t>(header.size());
  HeaderSource source(header, int64_t{1} << 50);
  source.SetPresentBytes(n);
  const absl::Status status = ReadGgufHeader(source).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("only the first " + std::to_string(n) + " are given"));
  EXPECT_LE(source.bytes_read(), n);
}

TEST(GgufReaderTest, AHeaderHasALimitHoweverLargeItsFileIs) {
  const std::string header = ManyEmptyStrings();
  HeaderSource source(header, int64_t{1} << 50);
  const absl::Status status = ReadGgufHeader(source).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 268435456"));
  EXPECT_LE(source.bytes_read(), GgufHeader::kMaxHeaderBytes);
}

TEST(GgufReaderTest, AHeaderMayBeAsLongAsItsLimit) {
  // It ends with an array of whole words; its key's length fits the rest.
  const auto of_array = [](size_t key_bytes, int64_t n) {
    GgufBuilder builder;
    builder.Raw(std::string(key_bytes, 'k'), GgufType::kArray,
                ByteWriter()
                    .Put(static_cast<uint32_t>(GgufType::kU32))
                    .Put(static_cast<uint64_t>(n))
                    .bytes());
    return builder.Header();
  };
  constexpr int64_t kWord = 4;
  size_t key_bytes = 1;
  while (of_array(key_bytes, 0).size() % kWord != 0) ++key_bytes;
  const auto before = static_cast<int64_t>(of_array(key_bytes, 0).size());
  const int64_t n = (GgufHeader::kMaxHeaderBytes - before) / kWord;
  for (const size_t extra : {0u, 1u}) {
    const std::string header = of_array(key_bytes + extra, n);
    HeaderSource source(header, int64_t{1} << 50);
    const auto read = ReadGgufHeader(source);
    EXPECT_EQ(read.ok(), extra == 0) << read.status();
  }
}

TEST(GgufReaderTest, ASourceThatFailsIsReported) {
  class FailingSource final : public ByteSource {
   public:
    int64_t Size() const override { return 1 << 20; }
    absl::Status Read(int64_t, std::span<std::byte>) override {
      return absl::UnavailableError("the mount is gone");
    }
  } source;
  EXPECT_TRUE(absl::IsUnavailable(ReadGgufHeader(source).status()));
}

}  // namespace
}  // namespace plimsoll::planner
