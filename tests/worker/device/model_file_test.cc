// A model file that is missing, no file, or changes under us.
#include "worker/device/model_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/layout/memory_plan.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/device/host_resources.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::LoadEngine;
using ::plimsoll::testing::RandomIds;
using ::plimsoll::testing::RandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::RandomModelShards;
using ::plimsoll::testing::SameBits;
using ::plimsoll::testing::TemporaryFile;
using ::testing::HasSubstr;

std::vector<std::byte> SomeModel() {
  return RandomModelBytes(FindRandomModel("llama_f32"));
}

// Moves the file's modification time by a second.
void Touch(const std::string& path) {
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  struct timespec times[2] = {info.st_atim, info.st_mtim};
  times[1].tv_sec += 1;
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

absl::Status LoadFrom(ModelFile& file) {
  planner::LoadOptions load;
  load.n_ctx = 64;
  const auto plan = planner::Layout(file.shape(), {load}, LocalCpuProfile(),
                                    int64_t{1} << 40);
  if (!plan.ok()) return plan.status();
  EngineOptions options;
  options.n_threads = 1;
  options.clock = [] { return absl::UnixEpoch(); };
  return Engine::Load(file, *plan, options,
                      [](const LoadProgress&) { return absl::OkStatus(); })
      .status();
}

TEST(ModelFileTest, ReadsAllBytesOfAllFilesInOrder) {
  const std::vector<std::byte> bytes = SomeModel();
  const TemporaryFile on_disk(bytes);
  const auto file = ModelFile::Open(on_disk.path());
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::byte> read;
  const auto take = [&read](std::span<const std::byte> piece) {
    read.insert(read.end(), piece.begin(), piece.end());
    return absl::OkStatus();
  };
  ASSERT_TRUE((*file)->ReadAll(take).ok());
  EXPECT_EQ((*file)->AllBytes(), static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(read, bytes);
  EXPECT_EQ((*file)->ReadAll([](std::span<const std::byte>) {
    return absl::CancelledError("enough");
  }),
            absl::CancelledError("enough"));
}

TEST(ModelFileTest, ReadsHeaderAndShape) {
  const std::vector<std::byte> bytes = SomeModel();
  const TemporaryFile on_disk(bytes);
  const auto file = ModelFile::Open(on_disk.path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->Size(), static_cast<int64_t>(bytes.size()));
  EXPECT_EQ((*file)->shape().architecture, "llama");
  EXPECT_EQ((*file)->shape().n_layers, 2);
  std::vector<std::byte> read(100);
  ASSERT_TRUE((*file)->Read(1'000, read).ok());
  EXPECT_TRUE(std::equal(read.begin(), read.end(), bytes.begin() + 1'000));
  EXPECT_TRUE((*file)->CheckUnchanged().ok());
  EXPECT_TRUE(LoadFrom(**file).ok());
}

// A model in several files, in a folder of its own.
class SplitModel {
 public:
  explicit SplitModel(const RandomModel& model) {
    std::string folder = ::testing::TempDir() + "plimsoll_split_XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    const auto parts = RandomModelShards(model, kShards);
    for (int i = 0; i < kShards; ++i) {
      const auto& bytes = parts[static_cast<size_t>(i)];
      std::ofstream(PathOf(i), std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    }
  }
  ~SplitModel() { std::filesystem::remove_all(folder_); }
  SplitModel(const SplitModel&) = delete;
  SplitModel& operator=(const SplitModel&) = delete;

  std::string PathOf(int part) const {
    return folder_ / absl::StrCat("m-", absl::Dec(part + 1, absl::kZeroPad5),
                                  "-of-", absl::Dec(kShards, absl::kZeroPad5),
                                  ".gguf");
  }

 private:
  static constexpr int kShards = 3;
  std::filesystem::path folder_;
};

Generated GenerateFrom(const std::string& path, bool is_mapped) {
  EngineSetup setup;
  setup.device = &LocalCpu();
  setup.mmap_weights = is_mapped;
  auto engine = LoadEngine(path, setup);
  EXPECT_TRUE(engine.ok()) << engine.status();
  if (!engine.ok()) return {};
  return Generate(**engine, Greedy(RandomIds(20, 3), 5));
}

TEST(ModelFileTest, SeveralFilesAreOneModel) {
  const RandomModel& model = FindRandomModel("llama_q4_1");
  const TemporaryFile whole(RandomModelBytes(model));
  const SplitModel split(model);
  const Generated expected = GenerateFrom(whole.path(), /*is_mapped=*/false);
  EXPECT_TRUE(
      SameBits(GenerateFrom(split.PathOf(0), /*is_mapped=*/false), expected));
  EXPECT_TRUE(
      SameBits(GenerateFrom(split.PathOf(0), /*is_mapped=*/true), expected));
  const auto file = ModelFile::Open(split.PathOf(0));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->Size(), (*file)->header().file_bytes);
  Touch(split.PathOf(2));
  EXPECT_EQ((*file)->CheckUnchanged().code(), absl::StatusCode::kDataLoss);
}

TEST(ModelFileTest, AFileThatIsNotTheFirstOfItsModelIsRefused) {
  const SplitModel split(FindRandomModel("llama_q4_1"));
  const absl::Status status = ModelFile::Open(split.PathOf(1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("name the first one, which must end with "
                        "-00001-of-00003.gguf"));
}

TEST(ModelFileTest, AFileOfSeveralThatIsMissingIsNamed) {
  const SplitModel split(FindRandomModel("llama_q4_1"));
  ASSERT_EQ(unlink(split.PathOf(1).c_str()), 0);
  const absl::Status status = ModelFile::Open(split.PathOf(0)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("m-00002-of-00003.gguf: "));
}

TEST(ModelFileTest, AMissingFileIsNotFound) {
  const std::string missing = ::testing::TempDir() + "plimsoll_no_such.gguf";
  EXPECT_EQ(ModelFile::Open(missing).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ModelFile::Open(missing + "/below").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ModelFile::Open("").status().code(), absl::StatusCode::kNotFound);
}

TEST(ModelFileTest, ADirectoryIsNoModel) {
  EXPECT_EQ(ModelFile::Open(::testing::TempDir()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ModelFileTest, AFifoIsNoModelAndDoesNotBlock) {
  const std::string path =
      ::testing::TempDir() + "plimsoll_fifo_" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(ModelFile::Open(path).status().code(),
            absl::StatusCode::kFailedPrecondition);
  unlink(path.c_str());
}

TEST(ModelFileTest, AMappingHasTheBytesOfEveryFile) {
  const SplitModel split(FindRandomModel("llama_q4_1"));
  auto file = ModelFile::Open(split.PathOf(0));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto mapping = (*file)->Map();
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  for (const planner::WeightTensor& weight : (*file)->shape().weights) {
    std::vector<std::byte> read(static_cast<size_t>(weight.file_bytes));
    ASSERT_TRUE((*file)->Read(weight.file_offset, read).ok());
    const auto bytes = mapping->Bytes(weight.file_offset, weight.file_bytes);
    EXPECT_TRUE(std::ranges::equal(bytes, read)) << weight.name;
  }
  // The mapping has a share in the files.
  file->reset();
  EXPECT_TRUE(mapping->CheckUnchanged().ok());
  Touch(split.PathOf(1));
  EXPECT_EQ(mapping->CheckUnchanged().code(), absl::StatusCode::kDataLoss);
}

TEST(ModelFileTest, AFileThatWasCutIsNotMapped) {
  const TemporaryFile on_disk(SomeModel());
  const auto file = ModelFile::Open(on_disk.path());
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(truncate(on_disk.path().c_str(), 1'000), 0);
  EXPECT_EQ((*file)->Map().status().code(), absl::StatusCode::kDataLoss);
}

TEST(ModelFileTest, AnEmptyFileIsRefused) {
  const TemporaryFile empty({});
  EXPECT_FALSE(ModelFile::Open(empty.path()).ok());
}

TEST(ModelFileTest, ATruncatedFileIsDataLoss) {
  const std::vector<std::byte> bytes = SomeModel();
  const TemporaryFile on_disk(bytes);
  const auto file = ModelFile::Open(on_disk.path());
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(truncate(on_disk.path().c_str(),
                     static_cast<off_t>(bytes.size() - 1'000)),
            0);
  std::vector<std::byte> read(100);
  const absl::Status status =
      (*file)->Read(static_cast<int64_t>(bytes.size()) - 100, read);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ((*file)->CheckUnchanged().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(LoadFrom(**file).code(), absl::StatusCode::kDataLoss);
}

TEST(ModelFileTest, AFileWrittenToWhileItIsOpenIsDataLoss) {
  const TemporaryFile on_disk(SomeModel());
  const auto file = ModelFile::Open(on_disk.path());
  ASSERT_TRUE(file.ok()) << file.status();
  std::fstream out(on_disk.path(), std::ios::in | std::ios::out);
  out.seekp(-8, std::ios::end);
  out << "changed!";
  out.close();
  Touch(on_disk.path());
  EXPECT_EQ((*file)->CheckUnchanged().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(LoadFrom(**file).code(), absl::StatusCode::kDataLoss);
}

TEST(ModelFileTest, AFileThatGrewIsDataLoss) {
  const TemporaryFile on_disk(SomeModel());
  const auto file = ModelFile::Open(on_disk.path());
  ASSERT_TRUE(file.ok()) << file.status();
  std::ofstream(on_disk.path(), std::ios::app) << "more";
  EXPECT_EQ((*file)->CheckUnchanged().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace plimsoll::worker
