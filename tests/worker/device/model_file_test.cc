// A model file that is missing, no file, or changes under us.
#include "worker/device/model_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "planner/layout/memory_plan.h"
#include "tests/worker/random_model.h"
#include "worker/device/host_resources.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::RandomModelBytes;
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
  const auto plan =
      planner::Layout(file.shape(), load, LocalCpuProfile(), int64_t{1} << 40);
  if (!plan.ok()) return plan.status();
  EngineOptions options;
  options.n_threads = 1;
  options.clock = [] { return absl::UnixEpoch(); };
  return Engine::Load(file, *plan, options,
                      [](const LoadProgress&) { return absl::OkStatus(); })
      .status();
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
