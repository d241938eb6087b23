// Memory, device facts and the factories.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "kernels/memory.h"
#include "tests/kernels/backend_fixture.h"
#include "tests/sanitized.h"

namespace plimsoll::kernels {
namespace {

using MemoryTest = BackendTest;

TEST_P(MemoryTest, AllocationsAreRoundedAlignedZeroedAndCounted) {
  constexpr int64_t kHuge = int64_t{2} << 20;
  EXPECT_EQ(backend().Allocations(), 0);
  const Buffer buffer = *backend().Allocate(kHuge + 1);
  EXPECT_EQ(buffer.bytes(), 2 * kHuge);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) %
                static_cast<uintptr_t>(
                    IsCuda(GetParam()) ? backend().Device().alignment : kHuge),
            0u);
  for (const std::byte byte : Downloaded(backend(), buffer.view())) {
    ASSERT_EQ(byte, std::byte{0});
  }
  EXPECT_EQ(backend().Allocations(), 1);
}

TEST_P(MemoryTest, AnAllocationAsksBeforeEveryChunk) {
  std::vector<int64_t> asked;
  const auto fence = [&](int64_t bytes_done) {
    asked.push_back(bytes_done);
    return absl::OkStatus();
  };
  ASSERT_TRUE(backend().Allocate(kMaxChunkBytes, fence).ok());
  EXPECT_THAT(asked, ::testing::ElementsAre(0));
  asked.clear();
  ASSERT_TRUE(backend().Allocate(kMaxChunkBytes + 1, fence).ok());
  EXPECT_THAT(asked, ::testing::ElementsAre(0, kMaxChunkBytes));
}

TEST_P(MemoryTest, AFenceThatFailsEndsTheAllocation) {
  for (const int64_t last : {int64_t{0}, kMaxChunkBytes}) {
    int64_t n_asked = 0;
    const auto buffer =
        backend().Allocate(3 * kMaxChunkBytes, [&](int64_t bytes_done) {
          ++n_asked;
          return bytes_done == last ? absl::CancelledError("too late")
                                    : absl::OkStatus();
        });
    EXPECT_EQ(buffer.status().code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(n_asked, last / kMaxChunkBytes + 1);
  }
}

TEST(AllocateHugeTest, NothingIsTouchedAfterTheFenceFails) {
  int64_t touched = 0;
  const auto buffer = AllocateHuge(
      4 * kMaxChunkBytes,
      [](int64_t bytes_done) {
        return bytes_done < 2 * kMaxChunkBytes
                   ? absl::OkStatus()
                   : absl::CancelledError("too late");
      },
      [&](std::byte* /*data*/, int64_t bytes) {
        EXPECT_LE(bytes, kMaxChunkBytes);
        touched += bytes;
      });
  EXPECT_EQ(buffer.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(touched, 2 * kMaxChunkBytes);
}

TEST_P(MemoryTest, RefusesAnAllocationThatCannotBe) {
  EXPECT_EQ(backend().Allocate(0).status().code(),
            absl::StatusCode::kInvalidArgument);
  const absl::Status status =
      backend().Allocate(std::numeric_limits<int64_t>::max()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("9223372036854775807"));
}

TEST_P(MemoryTest, BytesComeBackAsTheyWent) {
  const Buffer buffer = *backend().Allocate(100);
  const std::vector<std::byte> host = {std::byte{1}, std::byte{2}};
  std::vector<std::byte> back(2);
  ASSERT_TRUE(backend().Upload(host, buffer.view().Slice(10, 2)).ok());
  ASSERT_TRUE(backend().Download(buffer.view().Slice(10, 2), back).ok());
  EXPECT_EQ(back, host);
  EXPECT_EQ(backend().Upload(host, buffer.view().Slice(10, 1)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(backend().Synchronize().ok());
}

// What the system says of the mapping that begins at `address`.
std::string FlagsOf(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const std::string begin =
      absl::StrFormat("%x-", reinterpret_cast<uintptr_t>(address));
  bool is_there = false;
  for (std::string line; std::getline(maps, line);) {
    is_there = is_there || absl::StartsWith(line, begin);
    if (is_there && absl::StartsWith(line, "VmFlags:")) return line;
  }
  ADD_FAILURE() << "no mapping begins with " << begin;
  return "";
}

// False under an emulator that drops what madvise asks for.
bool SystemTellsWhatIsNotDumped() {
  const auto bytes = static_cast<size_t>(getpagesize());
  // Other access than its neighbours' makes it a mapping of its own.
  void* const page =
      mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(page, MAP_FAILED);
  EXPECT_EQ(madvise(page, bytes, MADV_DONTDUMP), 0);
  const bool tells = absl::StrContains(FlagsOf(page), " dd");
  munmap(page, bytes);
  return tells;
}

// Keys, values and weights are in no core dump.
TEST(AllocateHugeTest, TheSystemDumpsNoneOfIt) {
  if (!SystemTellsWhatIsNotDumped()) {
    GTEST_SKIP() << "the system does not say which mappings it dumps";
  }
  const auto buffer = AllocateHuge(
      kMaxChunkBytes, [](int64_t) { return absl::OkStatus(); },
      [](std::byte* /*data*/, int64_t /*bytes*/) {});
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_THAT(FlagsOf(buffer->data()), ::testing::HasSubstr(" dd"));
}

// More than one thread's share, at odd ends, and nothing.
TEST_P(MemoryTest, ClearZeroesItsBytesAndNoOthers) {
  constexpr int64_t kBytes = int64_t{1} << 20;
  const Buffer buffer = *backend().Allocate(kBytes);
  const std::vector<std::byte> ones(kBytes, std::byte{1});
  for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{700'001}}) {
    SCOPED_TRACE(n);
    ASSERT_TRUE(backend().Upload(ones, buffer.view()).ok());
    ASSERT_TRUE(backend().Clear(buffer.view().Slice(3, n)).ok());
    std::vector<std::byte> wanted = ones;
    std::fill_n(wanted.begin() + 3, n, std::byte{0});
    EXPECT_TRUE(Downloaded(backend(), buffer.view().Slice(0, kBytes)) ==
                wanted);
  }
  EXPECT_EQ(backend().Allocations(), 1);
}

TEST_P(MemoryTest, HostMemoryIsZeroedAndNotCounted) {
  constexpr int64_t kBytes = int64_t{3} << 20;  // more than the emulator spoils
  const Buffer buffer = *backend().Allocate(kBytes);
  const Buffer host = *backend().AllocateHost(kBytes);
  EXPECT_EQ(host.bytes(), kBytes);
  EXPECT_EQ(backend().Allocations(), 1);
  const std::span<std::byte> bytes(host.data(), kBytes);
  EXPECT_EQ(std::ranges::count(bytes, std::byte{0}), kBytes);
  host.data()[kBytes - 1] = std::byte{7};
  ASSERT_TRUE(backend().Upload(bytes, buffer.view()).ok());
  host.data()[kBytes - 1] = std::byte{0};
  ASSERT_TRUE(backend().Download(buffer.view().Slice(0, kBytes), bytes).ok());
  EXPECT_EQ(host.data()[kBytes - 1], std::byte{7});
}

TEST_P(MemoryTest, TheDeviceStatesItsStorageRules) {
  const DeviceInfo& info = backend().Device();
  EXPECT_EQ(info.kind, IsCuda(GetParam()) ? "cuda" : "cpu");
  EXPECT_FALSE(info.name.empty());
  EXPECT_GT(info.total_bytes, 0);
  EXPECT_EQ(info.activation_block, 32);
  EXPECT_EQ(info.activation_block_bytes, 80);
  EXPECT_EQ(info.storage.size(), WeightTypes().size());
  for (const DType dtype : WeightTypes()) {
    const bool is_as_in_file =
        GetParam() == kReferenceName ||
        (IsCuda(GetParam()) && InfoOf(dtype).block_elems == 1);
    EXPECT_EQ(RowMultiple(backend(), dtype), is_as_in_file ? 1 : 16);
  }
}

TEST(CpuTargetTest, NamesTheChosenPathAndRefusesOthers) {
  for (const std::string& name : AvailableCpuTargets()) {
    ASSERT_TRUE(SetCpuTarget(name).ok());
    EXPECT_EQ(CpuTarget(), name);
  }
  EXPECT_EQ(SetCpuTarget("AVX9000").code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(SetCpuTarget("").ok());
  EXPECT_EQ(CpuTarget(), AvailableCpuTargets().front());
}

// The paths that ChooseCpuTarget chooses from.
std::vector<std::string> PathsOfEqualVectors() {
  std::vector<std::string> names = AvailableCpuTargets();
  std::erase_if(names, [](const std::string& name) {
    return !absl::StartsWith(name, CpuVectors());
  });
  return names;
}

class ChooseCpuTargetTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(SetCpuTarget("").ok()); }
  void TearDown() override { ASSERT_TRUE(SetCpuTarget("").ok()); }
};

TEST_F(ChooseCpuTargetTest, TakesTheOneThatWasOnceTheFastest) {
  for (const std::string& fastest : PathsOfEqualVectors()) {
    ASSERT_TRUE(SetCpuTarget("").ok());
    int n_disturbed = 2;
    ChooseCpuTarget([&] {
      if (CpuTarget() != fastest) return 2.0;
      return n_disturbed-- > 0 ? 3.0 : 1.0;
    });
    EXPECT_EQ(CpuTarget(), fastest);
  }
}

TEST_F(ChooseCpuTargetTest, TimesOnlyOnce) {
  int n_timed = 0;
  const auto seconds = [&] {
    ++n_timed;
    return 1.0;
  };
  ChooseCpuTarget(seconds);
  const int n_first = n_timed;
  EXPECT_EQ(n_first > 0, PathsOfEqualVectors().size() > 1);
  ChooseCpuTarget(seconds);
  EXPECT_EQ(n_timed, n_first);
}

TEST_F(ChooseCpuTargetTest, LeavesAPathThatWasChosenByName) {
  for (const std::string& name : AvailableCpuTargets()) {
    ASSERT_TRUE(SetCpuTarget(name).ok());
    ChooseCpuTarget([]() -> double {
      ADD_FAILURE() << "nothing is to be chosen";
      return 0;
    });
    EXPECT_EQ(CpuTarget(), name);
  }
}

TEST_F(ChooseCpuTargetTest, AFirstAllocationChoosesAndTheDeviceKeepsItsName) {
  ThreadPool pool(1, WorkerCpus::kAny);
  const std::string name = NewCpuBackend(pool)->Device().name;
  ASSERT_TRUE(NewCpuBackend(pool)->Allocate(1).ok());
  EXPECT_THAT(PathsOfEqualVectors(), ::testing::Contains(CpuTarget()));
  EXPECT_EQ(NewCpuBackend(pool)->Device().name, name);
  ChooseCpuTarget([]() -> double {
    ADD_FAILURE() << "it was chosen already";
    return 0;
  });
}

// What the build promises of an architecture: without this, a suite over
// AvailableCpuTargets() could lose a path and still pass.
TEST(CpuTargetTest, TheArchitectureHasItsPath) {
#if defined(__aarch64__)
  EXPECT_THAT(AvailableCpuTargets(), ::testing::ElementsAre("NEON"));
#elif defined(__x86_64__)
  // Some builds with sanitizers have the path of AVX2 alone.
  const std::string last = AvailableCpuTargets().back();
  EXPECT_TRUE(last == "SSE4" || (testing::kIsSanitized && last == "AVX2"));
#else
  EXPECT_FALSE(AvailableCpuTargets().empty());
#endif
}

#ifdef PLIMSOLL_TEST_CUDA
TEST(CudaBackendTest, ADeviceThatIsNotThereIsNotFound) {
  EXPECT_EQ(NewCudaBackend(-1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(NewCudaBackend(9'999).status().code(), absl::StatusCode::kNotFound);
}
#else
TEST(CudaBackendTest, IsRefusedInABuildWithoutCuda) {
  EXPECT_EQ(NewCudaBackend(0).status().code(),
            absl::StatusCode::kUnimplemented);
}
#endif

INSTANTIATE_TEST_SUITE_P(Backends, MemoryTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
