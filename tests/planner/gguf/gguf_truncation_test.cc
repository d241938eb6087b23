// Real headers, cut at every place that could matter: always a status, never a
// crash, and never taken for whole.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"
#include "planner/gguf/gguf_reader.h"
#include "planner/model/model_shape.h"
#include "tests/planner/gguf/gguf_builder.h"
#include "tests/sanitized.h"

namespace plimsoll::planner {
namespace {

// One of the models that scripts/fetch_model.sh fetches.
class TruncationTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* cache = std::getenv("XDG_CACHE_HOME");
    const char* home = std::getenv("HOME");
    const std::string path = absl::StrCat(
        cache != nullptr ? cache
                         : absl::StrCat(home != nullptr ? home : "", "/.cache"),
        "/plimsoll/models/", GetParam());
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) GTEST_SKIP() << GetParam() << " is not in the model cache";
    file_bytes_ = file.tellg();
    // Both headers end before this.
    header_.resize(
        static_cast<size_t>(std::min<int64_t>(file_bytes_, int64_t{8} << 20)));
    file.seekg(0);
    ASSERT_TRUE(file.read(header_.data(),
                          static_cast<std::streamsize>(header_.size())));
    HeaderSource source(header_, file_bytes_);
    auto whole = ReadGgufHeader(source);
    ASSERT_TRUE(whole.ok()) << whole.status();
    whole_ = *std::move(whole);
    ASSERT_LT(whole_.data_offset, static_cast<int64_t>(header_.size()));
    const std::string& first = whole_.tensors.front().name;
    // The tensor table starts at its first name's length.
    table_ = static_cast<int64_t>(
        header_.find(ByteWriter().PutString(first).bytes()));
    ASSERT_LT(table_, whole_.data_offset);
  }

  void ExpectTruncated(int64_t size) {
    HeaderSource source(header_, size);
    const auto header = ReadGgufHeader(source);
    ASSERT_FALSE(header.ok()) << size;
    ASSERT_TRUE(absl::IsDataLoss(header.status()) ||
                absl::IsInvalidArgument(header.status()))
        << size << ": " << header.status();
    ASSERT_FALSE(header.status().message().empty());
  }

  std::string header_;
  int64_t file_bytes_ = 0;
  int64_t table_ = 0;
  GgufHeader whole_;
};

TEST_P(TruncationTest, DescribesTheWholeModel) {
  const auto shape = ShapeFromGguf(whole_);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_TRUE(shape->tied_output);
  EXPECT_GT(shape->vocab.token_bytes, shape->vocab.n_tokens);
}

TEST_P(TruncationTest, EveryByteOfTheFirst64KiB) {
  for (int64_t size = 0; size < 64 << 10; ++size) {
    ASSERT_NO_FATAL_FAILURE(ExpectTruncated(size));
  }
}

// The long run takes every byte, and others one of seven, which are in every
// field in turn.
TEST_P(TruncationTest, EveryByteOfTheTensorTable) {
  constexpr int64_t kStep = testing::kIsLong && !testing::kIsSanitized ? 1 : 7;
  for (int64_t size = table_ - 1; size <= whole_.data_offset + 1;
       size += kStep) {
    ASSERT_NO_FATAL_FAILURE(ExpectTruncated(size));
  }
}

TEST_P(TruncationTest, EveryTensorsEndAndItsNeighbours) {
  int64_t last = 0;
  for (const GgufTensor& tensor : whole_.tensors) {
    last = std::max(last, whole_.data_offset + tensor.offset + tensor.bytes);
  }
  ASSERT_NO_FATAL_FAILURE(ExpectTruncated(last - 1));
  for (int64_t size : {last, last + 1}) {
    HeaderSource source(header_, size);
    EXPECT_TRUE(ReadGgufHeader(source).ok()) << size;
  }
}

TEST_P(TruncationTest, TenThousandSeededPlaces) {
  std::mt19937_64 random(20'240'611);
  // Half of them in the header, where reading stops early; the rest anywhere.
  for (int i = 0; i < 10'000; ++i) {
    const int64_t limit = i % 16 == 0 ? file_bytes_ : whole_.data_offset;
    const auto size =
        static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
    ASSERT_NO_FATAL_FAILURE(ExpectTruncated(size));
  }
}

INSTANTIATE_TEST_SUITE_P(RealModels, TruncationTest,
                         ::testing::Values("SmolLM2-135M-Instruct.Q4_1.gguf",
                                           "gemma-3-270m-q4_k_m.gguf"),
                         [](const auto& info) {
                           return absl::StrCat("model", info.index);
                         });

}  // namespace
}  // namespace plimsoll::planner
