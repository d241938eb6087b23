// Measured overheads: what is kept of them, and what is planned from them.
#include "planner/layout/runtime_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "planner/layout/memory_plan.h"
#include "planner/model/model_shape.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RuntimeProfile SeenWith(const RuntimeLoad& load, int64_t bytes) {
  return {.key = {.device = "cpu X", .driver = "Linux 6", .build = "1 abc"},
          .bytes = bytes,
          .load = load};
}

RuntimeProfile Seen(int64_t bytes) { return SeenWith({}, bytes); }

absl::Status Check(const RuntimeProfile& profile) {
  return CheckRuntimeProfile(RuntimeProfile::kVersion, profile, Seen(1).key);
}

TEST(RuntimeProfileTest, AnotherVersionOrKeyIsRefused) {
  EXPECT_TRUE(Check(Seen(kMiB)).ok());
  for (const int64_t version : {0, 1, 3}) {
    const absl::Status status =
        CheckRuntimeProfile(version, Seen(kMiB), Seen(1).key);
    EXPECT_TRUE(absl::IsFailedPrecondition(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("version"));
  }
  for (std::string RuntimeKey::*field :
       {&RuntimeKey::device, &RuntimeKey::driver, &RuntimeKey::build}) {
    RuntimeProfile other = Seen(kMiB);
    other.key.*field += "x";
    EXPECT_TRUE(absl::IsFailedPrecondition(Check(other)));
  }
}

TEST(RuntimeProfileTest, EveryFieldIsLimited) {
  const auto message = [](auto change) {
    RuntimeProfile profile = Seen(kMiB);
    change(profile);
    const absl::Status status = Check(profile);
    return status.ok() ? "ok" : std::string(status.message());
  };
  using R = RuntimeProfile;
  EXPECT_EQ(message([](R& p) { p.bytes = R::kMaxBytes; }), "ok");
  EXPECT_THAT(message([](R& p) { p.bytes = R::kMaxBytes + 1; }),
              HasSubstr("bytes"));
  EXPECT_THAT(message([](R& p) { p.bytes = 0; }), HasSubstr("bytes"));
  const auto measured = [&](const std::string& text) {
    return message([&](R& p) { p.measured = text; });
  };
  EXPECT_EQ(measured(std::string(R::kMaxMeasuredBytes, 'x')), "ok");
  EXPECT_THAT(measured(std::string(R::kMaxMeasuredBytes + 1, 'x')),
              HasSubstr("measured"));
  EXPECT_THAT(measured("a\nb"), HasSubstr("measured"));
  struct Limit {
    int64_t RuntimeLoad::*field;
    int64_t min;
    int64_t max;
    const char* name;
  };
  for (const Limit& limit :
       {Limit{&RuntimeLoad::n_threads, 1, RuntimeLoad::kMaxThreads,
              "n_threads"},
        Limit{&RuntimeLoad::n_slots, 1, LoadOptions::kMaxSlots, "n_slots"},
        Limit{&RuntimeLoad::n_rows, 1, LoadOptions::kMaxUbatch, "n_rows"},
        Limit{&RuntimeLoad::n_vocab, 0, ModelShape::kMaxVocab, "n_vocab"}}) {
    const auto with = [&](int64_t value) {
      return message([&](R& p) { p.load.*limit.field = value; });
    };
    EXPECT_EQ(with(limit.min), "ok");
    EXPECT_EQ(with(limit.max), "ok");
    EXPECT_THAT(with(limit.min - 1), HasSubstr(limit.name));
    EXPECT_THAT(with(limit.max + 1), HasSubstr(limit.name));
  }
}

TEST(RuntimeProfileTest, FilesAreNamedByTheWholeKey) {
  // Fields do not run into one another.
  const std::vector<RuntimeKey> keys = {
      {"cpu X", "a", "b"},    {"cpu X", "ab", ""},
      {"cpu Xa", "", "b"},    {"cuda X", "a", "b"},
      {"", "", ""},           {"averylongkindofdevice X", "a", "b"},
      {"../../etc", "a", "b"}};
  std::set<std::string> stems;
  for (const RuntimeKey& key : keys) stems.insert(FileStem(key));
  EXPECT_EQ(stems.size(), keys.size());
  for (const std::string& stem : stems) {
    EXPECT_EQ(stem.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"),
              std::string::npos)
        << stem;
  }
  // For ever: a file that was written is found again.
  EXPECT_EQ(FileStem({"cpu X", "Linux 6", "1 abc"}), FileStem(Seen(kMiB).key));
  EXPECT_EQ(FileStem({"cpu", "a", "b"}), "cpu-f878e508f5b9f9a3");
}

TEST(RuntimeProfileTest, AMeasurementThatIsCoveredChangesNothing) {
  const RuntimeLoad load = {
      .n_threads = 2, .n_slots = 4, .n_rows = 512, .n_vocab = 49'152};
  const RuntimeProfile kept = SeenWith({.n_threads = 2}, 20 * kMiB);
  const int64_t planned = MeasuredRuntimeBytes(kept, load);
  const int64_t highest = planned - 512 * 1'024;
  for (const bool may_shrink : {false, true}) {
    for (const int64_t bytes : {12 * kMiB, 20 * kMiB, 21 * kMiB, highest}) {
      EXPECT_EQ(MergeRuntime(kept, Seen(bytes), load, may_shrink), kept);
    }
  }
  // One byte more, and what was seen is kept.
  const RuntimeProfile more = SeenWith({.n_threads = 2}, highest + 1);
  EXPECT_EQ(MergeRuntime(kept, more, load, false), more);
}

TEST(RuntimeProfileTest, AFigureThatIsFarTooLargeHalvesItsDistance) {
  RuntimeProfile kept = Seen(400 * kMiB);
  const RuntimeProfile seen = Seen(20 * kMiB);
  EXPECT_EQ(MergeRuntime(kept, seen, {}, /*may_shrink=*/false), kept);
  int n_steps = 0;
  while (true) {
    const RuntimeProfile next = MergeRuntime(kept, seen, {}, true);
    // It never comes below what was seen.
    EXPECT_GE(next.bytes, seen.bytes);
    if (next == kept) break;
    EXPECT_EQ(next.bytes, kept.bytes - (kept.bytes - seen.bytes) / 2);
    kept = next;
    ++n_steps;
  }
  EXPECT_EQ(n_steps, 6);
  EXPECT_LE(kept.bytes, 28 * kMiB);
  // The limits of what counts as far.
  EXPECT_EQ(RuntimeShrinkBytes(kMiB), 8 * kMiB);
  EXPECT_EQ(RuntimeShrinkBytes(100 * kMiB), 25 * kMiB);
  const RuntimeProfile large = Seen(100 * kMiB);
  EXPECT_EQ(MergeRuntime(large, Seen(75 * kMiB), {}, true), large);
  EXPECT_NE(MergeRuntime(large, Seen(75 * kMiB - 1), {}, true), large);
}

TEST(RuntimeProfileTest, WhateverIsSeenThePlanCoversIt) {
  const std::vector<RuntimeLoad> loads = {
      {}, {.n_threads = 8}, {.n_slots = 64, .n_vocab = 262'144}};
  for (const int64_t a : {1, 15, 20, 60, 400}) {
    for (const int64_t b : {1, 15, 20, 60, 400}) {
      for (const RuntimeLoad& load : loads) {
        const RuntimeProfile merged =
            MergeRuntime(Seen(a * kMiB), Seen(b * kMiB), load, true);
        EXPECT_GE(MeasuredRuntimeBytes(merged, load), b * kMiB);
      }
    }
  }
}

TEST(RuntimeProfileTest, OfTwoLoadsEachFieldIsTheLarger) {
  const RuntimeLoad a = {
      .n_threads = 1, .n_slots = 9, .n_rows = 2, .n_vocab = 8};
  const RuntimeLoad b = {
      .n_threads = 3, .n_slots = 4, .n_rows = 5, .n_vocab = 6};
  EXPECT_EQ(LargerLoad(a, b), (RuntimeLoad{3, 9, 5, 8}));
  EXPECT_EQ(LargerLoad(b, a), (RuntimeLoad{3, 9, 5, 8}));
}

TEST(RuntimeProfileTest, WhatIsPlannedIsNeverBelowWhatWasSeen) {
  const RuntimeProfile seen = SeenWith({.n_threads = 4}, 21 * kMiB + 1);
  for (const int64_t n_threads : {1, 4, 5, 64}) {
    const int64_t bytes = MeasuredRuntimeBytes(seen, {.n_threads = n_threads});
    EXPECT_GE(bytes, seen.bytes + kRuntimeSafetyBytes);
    EXPECT_EQ(bytes % kMiB, 0);
  }
  // No observation is too large to be planned.
  EXPECT_GT(MeasuredRuntimeBytes(Seen(RuntimeProfile::kMaxBytes),
                                 {.n_threads = RuntimeLoad::kMaxThreads,
                                  .n_slots = LoadOptions::kMaxSlots,
                                  .n_rows = LoadOptions::kMaxUbatch,
                                  .n_vocab = ModelShape::kMaxVocab}),
            RuntimeProfile::kMaxBytes);
}

// Peaks of workers of one build on one machine: threads, slots, rows, tokens of
// the vocabulary, and bytes beside arena and vocabulary.
struct Observation {
  RuntimeLoad load;
  double mib;
};
const std::vector<Observation>& Observations() {
  static const auto* const kAll = new std::vector<Observation>{
      {{.n_threads = 1, .n_slots = 1, .n_rows = 512, .n_vocab = 49'152}, 21.18},
      {{.n_threads = 2, .n_slots = 4, .n_rows = 512, .n_vocab = 49'152}, 21.40},
      {{.n_threads = 1, .n_slots = 1, .n_rows = 32, .n_vocab = 262'144}, 25.91},
      {{.n_threads = 2, .n_slots = 4, .n_rows = 512, .n_vocab = 262'144},
       27.15},
      {{.n_threads = 16, .n_slots = 4, .n_rows = 512, .n_vocab = 49'152},
       25.29}};
  return *kAll;
}

TEST(RuntimeProfileTest, ASmallWorkersFigureCoversALargerWorker) {
  // The smallest one, before it drew from a whole row.
  const RuntimeProfile smallest = SeenWith({.n_threads = 1}, 21'768'438);
  for (const Observation& seen : Observations()) {
    const auto bytes = static_cast<int64_t>(seen.mib * kMiB);
    EXPECT_GE(MeasuredRuntimeBytes(smallest, seen.load), bytes);
    EXPECT_GE(EstimatedRuntimeBytes(seen.load), bytes);
    // The index of tokens is estimated, too; no request had made it there.
    const int64_t index_bytes = 19 * seen.load.n_vocab;
    EXPECT_LE(EstimatedRuntimeBytes(seen.load),
              bytes + index_bytes + 15 * kMiB);
  }
}

// Its libraries are larger than those of Debian 12, where the others were seen.
TEST(RuntimeProfileTest, TheBoundCoversAnIdleWorkerOnDebian13) {
  EXPECT_GE(
      EstimatedRuntimeBytes(
          {.n_threads = 2, .n_slots = 2, .n_rows = 512, .n_vocab = 49'152}),
      29'483'522 + kRuntimeSafetyBytes / 2);
}

// A worker of a rehearsal in Kubernetes, beside two busy cores and after
// hundreds of streams, was planned with 33 MiB by what its predecessor had
// measured.
TEST(RuntimeProfileTest, TheBoundCoversAWorkerThatWasBusy) {
  EXPECT_GE(
      EstimatedRuntimeBytes(
          {.n_threads = 1, .n_slots = 4, .n_rows = 512, .n_vocab = 49'152}),
      33 * kMiB);
}

TEST(RuntimeProfileTest, MoreOfAnythingNeverTakesLess) {
  const RuntimeProfile seen = Seen(20 * kMiB);
  for (int64_t RuntimeLoad::*field :
       {&RuntimeLoad::n_threads, &RuntimeLoad::n_slots, &RuntimeLoad::n_rows,
        &RuntimeLoad::n_vocab}) {
    int64_t measured = 0;
    int64_t estimated = 0;
    for (int64_t value = 1; value <= 4'096; value *= 2) {
      RuntimeLoad load;
      load.*field = value;
      EXPECT_GE(MeasuredRuntimeBytes(seen, load), measured);
      EXPECT_GE(EstimatedRuntimeBytes(load), estimated);
      measured = MeasuredRuntimeBytes(seen, load);
      estimated = EstimatedRuntimeBytes(load);
    }
  }
  EXPECT_EQ(EstimatedRuntimeBytes({}), CommittedCpuProfile().runtime_bytes);
}

TEST(RuntimeProfileTest, AProfileSaysWhereItsRuntimeComesFrom) {
  DeviceProfile profile = CommittedCpuProfile();
  ApplyRuntime(nullptr, {.n_threads = 64}, profile);
  EXPECT_EQ(profile.runtime_basis, Basis::kEstimated);
  EXPECT_EQ(profile.runtime_bytes, EstimatedRuntimeBytes({.n_threads = 64}));
  const RuntimeProfile seen = SeenWith({.n_threads = 2}, 12'345'678);
  ApplyRuntime(&seen, {.n_threads = 2}, profile);
  EXPECT_EQ(profile.runtime_basis, Basis::kMeasured);
  EXPECT_EQ(profile.runtime_bytes, 16 * kMiB);
  EXPECT_THAT(profile.runtime_note, HasSubstr("12345678 bytes"));
  EXPECT_THAT(profile.runtime_note, HasSubstr("2 threads"));
  EXPECT_THAT(profile.runtime_note, Not(HasSubstr("measured on")));
  RuntimeProfile dated = seen;
  dated.measured = std::string(RuntimeProfile::kMaxMeasuredBytes, '7');
  dated.load.n_threads = RuntimeLoad::kMaxThreads;
  dated.bytes = RuntimeProfile::kMaxBytes;
  ApplyRuntime(&dated,
               {.n_threads = RuntimeLoad::kMaxThreads,
                .n_slots = LoadOptions::kMaxSlots,
                .n_rows = LoadOptions::kMaxUbatch,
                .n_vocab = ModelShape::kMaxVocab},
               profile);
  EXPECT_THAT(profile.runtime_note, HasSubstr(", measured on 777"));
  EXPECT_LE(profile.runtime_note.size(), 256u);  // the limit of a message
  EXPECT_TRUE(ValidateProfile(profile).ok());
}

}  // namespace
}  // namespace plimsoll::planner
