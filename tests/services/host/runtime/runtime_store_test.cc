// Kept measurements survive restarts, crashes and one another; what is no
// profile is refused with a reason.
#include "services/host/runtime/runtime_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "services/host/runtime/runtime_key.h"
#include "tests/read_file.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::ReadFile;
using ::testing::HasSubstr;

planner::RuntimeProfile Seen(int64_t bytes) {
  return {.key = {.device = "cpu A \"quoted\" name",
                  .driver = "Linux 6.1",
                  .build = "0.1.0 abcdef"},
          .bytes = bytes,
          .load = {.n_threads = 2},
          .measured = "2026"};
}
// What the tests keep of two figures.
planner::RuntimeProfile Larger(const planner::RuntimeProfile& kept,
                               const planner::RuntimeProfile& seen) {
  return seen.bytes > kept.bytes ? seen : kept;
}
const planner::RuntimeKey& Key() {
  static const auto* const kKey = new planner::RuntimeKey(Seen(1).key);
  return *kKey;
}

class RuntimeStoreTest : public ::testing::Test {
 protected:
  // Keep() as its callers do it: again while another process writes.
  static void KeepSurely(const RuntimeStore& store,
                         const planner::RuntimeProfile& seen) {
    absl::Status status;
    do {
      status = store.Keep(seen, Larger).status();
    } while (absl::IsUnavailable(status));
    EXPECT_TRUE(status.ok()) << status;
  }

  int64_t KeptBytes() {
    const auto kept = store_.Read(Key());
    EXPECT_TRUE(kept.ok()) << kept.status();
    return kept.ok() && kept->has_value() ? (*kept)->bytes : 0;
  }

  void Write(const std::string& text) {
    std::ofstream(store_.PathOf(Key()), std::ios::binary) << text;
  }

  testing::TemporaryFolder folder_;
  RuntimeStore store_{folder_.File("")};
};

TEST_F(RuntimeStoreTest, WhatIsKeptIsReadAgain) {
  EXPECT_EQ(KeptBytes(), 0);
  planner::RuntimeProfile seen = Seen(planner::RuntimeProfile::kMaxBytes);
  seen.load = {.n_threads = 3, .n_slots = 5, .n_rows = 7, .n_vocab = 11};
  seen.measured = "2026-01-31 12:00 UTC";
  ASSERT_TRUE(store_.Keep(seen, Larger).ok());
  const auto kept = store_.Read(Key());
  ASSERT_TRUE(kept.ok() && kept->has_value()) << kept.status();
  EXPECT_EQ(**kept, seen);
  EXPECT_TRUE(folder_.Names(".tmp").empty());
}

TEST_F(RuntimeStoreTest, WhatTheCallerChoosesIsKept) {
  KeepSurely(store_, Seen(20'000'000));
  EXPECT_EQ(store_.Keep(Seen(10'000'000), Larger)->bytes, 20'000'000);
  EXPECT_EQ(KeptBytes(), 20'000'000);
  const auto mean = [](const planner::RuntimeProfile& kept,
                       const planner::RuntimeProfile& seen) {
    planner::RuntimeProfile chosen = seen;
    chosen.bytes = (kept.bytes + seen.bytes) / 2;
    return chosen;
  };
  EXPECT_EQ(store_.Keep(Seen(10'000'000), mean)->bytes, 15'000'000);
  EXPECT_EQ(KeptBytes(), 15'000'000);
}

TEST_F(RuntimeStoreTest, AProfileThatStaysIsNotWrittenAgain) {
  KeepSurely(store_, Seen(20'000'000));
  const auto written = std::filesystem::last_write_time(store_.PathOf(Key()));
  std::filesystem::last_write_time(store_.PathOf(Key()),
                                   written - std::chrono::hours(1));
  KeepSurely(store_, Seen(10'000'000));
  EXPECT_LT(std::filesystem::last_write_time(store_.PathOf(Key())), written);
}

TEST_F(RuntimeStoreTest, GarbageIsRefusedByNameAndReplaced) {
  KeepSurely(store_, Seen(1'000'000));
  const std::string good = ReadFile(store_.PathOf(Key()));
  const auto with = [&](const char* from, const char* to) {
    return absl::StrReplaceAll(good, {{from, to}});
  };
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[1]"),
        std::string("\0\xff", 2), std::string("{\"version\": 2}"),
        with("1000000", "-1"), with("1000000", "1e300"), with("1000000", "0.5"),
        with("1000000", "\"many\""), with("2026", "\\u0000"),
        with("2026", std::string(40, 'x').c_str()),
        with("\"n_threads\": 2", "\"n_threads\": 0")}) {
    Write(text);
    const auto kept = store_.Read(Key());
    EXPECT_TRUE(absl::IsDataLoss(kept.status()) ||
                absl::IsInvalidArgument(kept.status()))
        << text << ": " << kept.status();
    EXPECT_THAT(std::string(kept.status().message()),
                HasSubstr(store_.PathOf(Key())));
  }
  KeepSurely(store_, Seen(2'000'000));
  EXPECT_EQ(KeptBytes(), 2'000'000);
}

TEST_F(RuntimeStoreTest, AnotherVersionOrKeyIsRefusedWithAReason) {
  KeepSurely(store_, Seen(1'000'000));
  const std::string good = ReadFile(store_.PathOf(Key()));
  // A version that has other fields.
  Write("{\"version\": 3, \"figures\": []}");
  const auto newer = store_.Read(Key());
  EXPECT_TRUE(absl::IsFailedPrecondition(newer.status())) << newer.status();
  EXPECT_THAT(std::string(newer.status().message()), HasSubstr("version is 3"));
  // One that kept peaks.
  Write(absl::StrReplaceAll(good, {{"\"version\": 2", "\"version\": 1"}}));
  const auto older = store_.Read(Key());
  EXPECT_TRUE(absl::IsFailedPrecondition(older.status())) << older.status();
  EXPECT_THAT(std::string(older.status().message()), HasSubstr("version is 1"));
  // A file that was copied from another machine.
  Write(absl::StrReplaceAll(good, {{"Linux 6.1", "Linux 6.2"}}));
  EXPECT_TRUE(absl::IsFailedPrecondition(store_.Read(Key()).status()));
  // Another key is another file.
  planner::RuntimeKey key = Key();
  key.build += "0";
  EXPECT_NE(store_.PathOf(key), store_.PathOf(Key()));
  EXPECT_FALSE(store_.Read(key)->has_value());
}

TEST_F(RuntimeStoreTest, AFileIsReadUpToItsLimit) {
  KeepSurely(store_, Seen(1'000'000));
  std::string text = ReadFile(store_.PathOf(Key()));
  text.resize(static_cast<size_t>(RuntimeStore::kMaxFileBytes), ' ');
  Write(text);
  EXPECT_EQ(KeptBytes(), 1'000'000);
  Write(text + " ");
  EXPECT_TRUE(absl::IsDataLoss(store_.Read(Key()).status()));
}

TEST_F(RuntimeStoreTest, AFolderThatCannotBeWrittenIsAnErrorThatNamesIt) {
  std::ofstream(folder_.File("file")) << "not a folder";
  const RuntimeStore store(folder_.File("file") + "/profiles");
  const auto kept = store.Keep(Seen(1), Larger);
  EXPECT_TRUE(absl::IsPermissionDenied(kept.status())) << kept.status();
  EXPECT_THAT(std::string(kept.status().message()), HasSubstr("/file/"));
  const RuntimeStore nowhere("");
  EXPECT_TRUE(nowhere.Keep(Seen(1), Larger).ok());
  EXPECT_FALSE(nowhere.Read(Key())->has_value());
}

TEST_F(RuntimeStoreTest, ConcurrentWritersLoseNothing) {
  std::vector<std::thread> writers;
  for (int64_t i = 1; i <= 8; ++i) {
    writers.emplace_back([this, i] {
      for (int64_t round = 0; round < 5; ++round) {
        KeepSurely(store_, Seen(1'000 * i + round));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(KeptBytes(), 8'004);
}

TEST_F(RuntimeStoreTest, AWriterThatWasKilledLeavesAWholeFile) {
  KeepSurely(store_, Seen(1));
  for (int round = 0; round < 10; ++round) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      for (int64_t bytes = 1;; ++bytes) {
        store_.Keep(Seen(1'000 * (round + 1) + bytes), Larger).IgnoreError();
        if (write(ready[1], "x", 1) != 1) _exit(1);
      }
    }
    // After a different number of writes in each round.
    char byte;
    for (int i = 0; i <= round; ++i) ASSERT_EQ(read(ready[0], &byte, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(ready[0]);
    close(ready[1]);
    EXPECT_GE(KeptBytes(), 1'000 * (round + 1) + round + 1);
  }
  // What such a writer leaves behind is in nobody's way.
  std::ofstream(store_.PathOf(Key()) + ".tmp") << "{\"version\": 1, \"by";
  KeepSurely(store_, Seen(1'000'000));
  EXPECT_EQ(KeptBytes(), 1'000'000);
  EXPECT_TRUE(folder_.Names(".tmp").empty());
}

TEST(RuntimeKeyTest, ProgramsAreToldApartByTheirBuildIds) {
  const planner::DeviceProfile device = planner::CommittedCpuProfile();
  const planner::RuntimeKey own = RuntimeKeyOf(device, OwnProgram());
  EXPECT_EQ(own, RuntimeKeyOf(device, OwnProgram()));
  EXPECT_EQ(own.device, "cpu CPU");
  EXPECT_THAT(own.driver, HasSubstr("Linux"));
  EXPECT_EQ(BuildIdOf(OwnProgram()).size(), 40u);
  testing::TemporaryFolder folder;
  for (const std::string& text : {std::string(),
                                  std::string("\x7f"
                                              "ELF"),
                                  std::string(4'096, '\xff'),
                                  absl::StrCat("\x7f"
                                               "ELF\x02\x01\x01",
                                               std::string(57, '\xff'))}) {
    std::ofstream(folder.File("program"), std::ios::binary) << text;
    EXPECT_EQ(BuildIdOf(folder.File("program")), "");
    EXPECT_FALSE(RuntimeKeyOf(device, folder.File("program")) == own);
  }
  EXPECT_EQ(BuildIdOf(folder.File("nothing")), "");
}

}  // namespace
}  // namespace plimsoll::services
