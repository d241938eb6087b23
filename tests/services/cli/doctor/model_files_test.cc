// Diagnoses of models' files: sound, cut off, planned only, too large.
#include "services/cli/doctor/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "services/cli/flags/model_path.h"
#include "tests/planner/tiny_models.h"
#include "tests/worker/fake_tree.h"
#include "tests/worker/random_model.h"

namespace plimsoll::cli {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::TemporaryFile;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A model's file without its data: it has a hole as long as that.
class WrittenModelTest : public ::testing::Test {
 protected:
  void Write(const planner::GgufBuilder& model) {
    const std::string header = model.Header();
    std::ofstream(path_, std::ios::binary) << header;
    std::filesystem::resize_file(
        path_, static_cast<uintmax_t>(model.FileBytes(header.size())));
  }

  const testing::FakeTree tree_;
  const std::string path_ = tree_.root() + "/model.gguf";
};

std::vector<std::byte> SoundModel() {
  return RandomModelBytes(FindRandomModel("llama_q4_1"));
}

TEST(ModelCheckTest, AModelThatRunsAndFitsIsOk) {
  const TemporaryFile file(SoundModel());
  for (const ModelOrigin origin : {ModelOrigin::kNamed, ModelOrigin::kCached}) {
    const Diagnosis found = CheckModel(file.path(), origin);
    EXPECT_EQ(found.health, Health::kOk) << found.found;
    EXPECT_THAT(
        found.found,
        AllOf(HasSubstr(std::filesystem::path(file.path()).filename().string()),
              HasSubstr("llama, fits with 4,096 tokens of context in")));
    EXPECT_THAT(found.fix, IsEmpty());
  }
}

TEST(ModelCheckTest, AFileThatLacksItsLastByteIsAnError) {
  std::vector<std::byte> bytes = SoundModel();
  bytes.resize(bytes.size() - 1);
  const TemporaryFile file(bytes);
  const Diagnosis found = CheckModel(file.path(), ModelOrigin::kCached);
  EXPECT_EQ(found.health, Health::kError);
  EXPECT_THAT(found.found,
              AllOf(HasSubstr(file.path()), HasSubstr("truncated")));
  EXPECT_THAT(found.fix, HasSubstr("get the file again"));
}

TEST(ModelCheckTest, AFileThatIsNoModelIsAnError) {
  const TemporaryFile file(std::vector<std::byte>(100, std::byte{'x'}));
  const Diagnosis found = CheckModel(file.path(), ModelOrigin::kNamed);
  EXPECT_EQ(found.health, Health::kError);
  EXPECT_THAT(found.fix, HasSubstr("GGUF"));
}

TEST(ModelCheckTest, AFileThatIsNotThereIsAnError) {
  const Diagnosis found = CheckModel("./no-such-file", ModelOrigin::kNamed);
  EXPECT_EQ(found.health, Health::kError);
  EXPECT_THAT(found.found,
              AllOf(HasSubstr("./no-such-file"), HasSubstr("No such file"),
                    Not(HasSubstr("try"))));
  EXPECT_THAT(found.fix, HasSubstr("'plimsoll models' lists"));
}

TEST(ModelCheckTest, WhatIsNoRegularFileIsAnError) {
  const testing::FakeTree tree;
  const Diagnosis found = CheckModel(tree.root(), ModelOrigin::kNamed);
  EXPECT_EQ(found.health, Health::kError);
  EXPECT_THAT(found.fix, HasSubstr("regular file"));
}

TEST_F(WrittenModelTest, AModelThatIsTooLargeIsAnErrorWhereItWasNamed) {
  planner::TinyModel large;
  large.n_layers = 32;  // 6.4 TiB of weights
  large.model_dim = 1 << 16;
  large.ffn_dim = 1 << 20;
  Write(planner::BuilderOf(large));
  const Diagnosis named = CheckModel(path_, ModelOrigin::kNamed);
  EXPECT_EQ(named.health, Health::kError) << named.found;
  EXPECT_THAT(named.found, AllOf(HasSubstr("model.gguf: "),
                                 HasSubstr("does not fit: wants")));
  EXPECT_THAT(named.fix, Not(IsEmpty()));
  EXPECT_EQ(CheckModel(path_, ModelOrigin::kCached).health, Health::kWarning);
}

TEST_F(WrittenModelTest, AModelThatIsPlannedOnlyIsAnErrorWhereItWasNamed) {
  Write(planner::PlannedOnlyBuilder());
  const Diagnosis named = CheckModel(path_, ModelOrigin::kNamed);
  EXPECT_EQ(named.health, Health::kError);
  EXPECT_THAT(named.found, HasSubstr("model.gguf: "));
  EXPECT_THAT(named.fix, HasSubstr("plan it only"));
  EXPECT_EQ(CheckModel(path_, ModelOrigin::kCached).health, Health::kWarning);
}

TEST_F(WrittenModelTest, AProjectorIsNoModelAndNothingIsWrongWithIt) {
  planner::GgufBuilder projector;
  projector.Text("general.architecture", "clip");
  projector.Tensor("v.patch_embd.weight", DType::kF32, {32, 4});
  Write(projector);
  const Diagnosis found = CheckModel(path_, ModelOrigin::kCached);
  EXPECT_EQ(found.health, Health::kOk) << found.found;
  EXPECT_THAT(found.found, HasSubstr("a projector"));
}

TEST(NoModelsTest, TheCacheIsNamed) {
  EXPECT_EQ(NoModels().health, Health::kSkipped);
  EXPECT_THAT(NoModels().found, HasSubstr(CacheDirectory()));
}

}  // namespace
}  // namespace plimsoll::cli
