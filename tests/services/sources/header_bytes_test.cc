#include "services/sources/header_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "planner/layout/memory_plan.h"
#include "services/wire/to_proto.h"
#include "tests/planner/tiny_models.h"

namespace plimsoll::services {
namespace {

using planner::BuilderOf;
using planner::TinyModel;

struct Whole {
  std::string file;
  planner::GgufHeader header;
  planner::ModelShape shape;
};

Whole Make(const TinyModel& model) {
  Whole whole;
  whole.file = BuilderOf(model).Build();
  whole.header = *planner::Parse(whole.file);
  whole.shape = *planner::ShapeFromGguf(whole.header);
  return whole;
}

TEST(HeaderBytesTest, PlansAsTheWholeFileDoes) {
  for (const char* architecture : {"llama", "gemma3"}) {
    TinyModel model;
    model.architecture = architecture;
    model.window = model.architecture == "gemma3" ? 32 : 0;
    model.vocab = 2'000;  // longer than what stays inline
    model.has_vocab = true;
    const Whole whole = Make(model);
    const std::string bytes = HeaderBytes(whole.header, whole.shape.vocab);
    const auto shape = ShapeFromHeaderBytes(bytes, whole.file.size());
    ASSERT_TRUE(shape.ok()) << shape.status();
    EXPECT_LT(bytes.size(), whole.file.size());
    EXPECT_EQ(shape->vocab.n_tokens, 2'000);
    const planner::PlanOptions options;
    const auto profile = planner::CommittedCpuProfile();
    EXPECT_EQ(ToProto(*planner::Layout(*shape, options, profile, 1 << 30))
                  .SerializeAsString(),
              ToProto(*planner::Layout(whole.shape, options, profile, 1 << 30))
                  .SerializeAsString());
  }
}

TEST(HeaderBytesTest, AHeaderOfItsOwnOutputIsTheSame) {
  TinyModel model;
  model.has_vocab = true;
  const Whole whole = Make(model);
  const std::string once = HeaderBytes(whole.header, whole.shape.vocab);
  std::string padded = once;
  padded.resize(whole.file.size());
  const auto header = planner::Parse(padded);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(HeaderBytes(*header, planner::ShapeFromGguf(*header)->vocab), once);
}

TEST(HeaderBytesTest, LongStringsStayBehind) {
  auto builder = BuilderOf(TinyModel());
  builder.Text("general.short", std::string(kMaxHeaderStringBytes, 's'));
  builder.Text("general.long", std::string(kMaxHeaderStringBytes + 1, 'l'));
  const std::string file = builder.Build();
  const auto header = planner::Parse(file);
  ASSERT_TRUE(header.ok());
  const std::string bytes = HeaderBytes(*header, {});
  EXPECT_NE(bytes.find("general.short"), std::string::npos);
  EXPECT_EQ(bytes.find("general.long"), std::string::npos);
}

TEST(HeaderBytesTest, ABeginningOfARealFileIsAccepted) {
  const Whole whole = Make(TinyModel());
  const auto n = static_cast<size_t>(whole.header.data_offset);
  EXPECT_TRUE(
      ShapeFromHeaderBytes(whole.file.substr(0, n), whole.file.size()).ok());
}

TEST(HeaderBytesTest, AHeaderThatEndsEarlyIsRefused) {
  const Whole whole = Make(TinyModel());
  const std::string bytes = HeaderBytes(whole.header, whole.shape.vocab);
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(
        ShapeFromHeaderBytes(bytes.substr(0, n), whole.file.size()).ok())
        << n;
  }
}

// Such a header once cost seconds: gigabytes of zeros that nobody had sent were
// read as empty strings.
TEST(HeaderBytesTest, OnlyBytesThatWereSentAreRead) {
  std::string bytes = "GGUF";
  const auto put = [&bytes](uint64_t value, size_t n) {
    bytes.append(reinterpret_cast<const char*>(&value), n);
  };
  put(3, 4);  // version
  put(0, 8);  // tensors
  put(1, 8);  // metadata entries
  put(1, 8);  // bytes of its key
  put('a', 1);
  put(9, 4);  // an array
  put(8, 4);  // an array of strings
  put(uint64_t{1} << 27, 8);
  ASSERT_EQ(bytes.size(), 49u);
  const absl::Status status =
      ShapeFromHeaderBytes(bytes, uint64_t{1} << 50).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("only the first 49 are given"));
}

TEST(HeaderBytesTest, SizesAreLimited) {
  const Whole whole = Make(TinyModel());
  std::string bytes = HeaderBytes(whole.header, whole.shape.vocab);
  const uint64_t file_bytes = uint64_t{1} << 30;
  bytes.resize(kMaxHeaderBytes);
  EXPECT_TRUE(ShapeFromHeaderBytes(bytes, file_bytes).ok());
  bytes.push_back('\0');
  EXPECT_EQ(ShapeFromHeaderBytes(bytes, file_bytes).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(HeaderBytesTest, AFileSmallerThanItsHeaderIsRefused) {
  const Whole whole = Make(TinyModel());
  const std::string bytes = HeaderBytes(whole.header, whole.shape.vocab);
  EXPECT_FALSE(ShapeFromHeaderBytes(bytes, bytes.size() - 1).ok());
  EXPECT_FALSE(ShapeFromHeaderBytes(bytes, ~uint64_t{0}).ok());
}

TEST(HeaderBytesTest, CountsOfTheVocabularyAreChecked) {
  const Whole whole = Make(TinyModel());
  planner::VocabShape vocab = whole.shape.vocab;
  vocab.model = "gpt2";
  vocab.n_tokens = planner::ModelShape::kMaxVocab + 1;
  const std::string bytes = HeaderBytes(whole.header, vocab);
  EXPECT_EQ(ShapeFromHeaderBytes(bytes, whole.file.size()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace plimsoll::services
