#include "planner/layout/runtime_profile.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/layout/memory_plan.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kMiB = 1 << 20;
// A thread takes attention's scratch (212 KiB), top-k's, its stack and the
// allocator's arena.
constexpr int64_t kThreadBytes = 512 << 10;
// A slot takes the handles, queues and messages of one more stream.
constexpr int64_t kSlotBytes = 64 << 10;
// A row takes its token, its position and its place, in vectors that double.
constexpr int64_t kRowBytes = 64;
// A token takes a biased logit and, in a row that is sorted whole, a logit with
// its id, a weight as a double and a number. It also takes 19 bytes in the
// index of tokens by their bytes, which the first reply with a constraint
// makes.
constexpr int64_t kTokenBytes = 43;
// Code, libraries, server and channels take this before anything else.
constexpr int64_t kCpuBaseBytes = 30 * kMiB;

int64_t WholeMiB(int64_t bytes) { return (bytes + kMiB - 1) / kMiB * kMiB; }

absl::Status CheckCount(absl::string_view name, int64_t value, int64_t min,
                        int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, ", not ", min, " to ", max));
}

}  // namespace

std::string FileStem(const RuntimeKey& key) {
  // FNV-1a gives the same hash everywhere and always, as a file's name must be.
  // The lengths keep fields apart.
  uint64_t hash = 14695981039346656037u;
  for (const std::string* field : {&key.device, &key.driver, &key.build}) {
    for (const char c : absl::StrCat(field->size(), ":", *field)) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    }
  }
  std::string kind;
  for (const char c : key.device) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) break;
    kind.push_back(c);
  }
  if (kind.empty() || kind.size() > 16) kind = "device";
  return absl::StrCat(kind, "-", absl::Hex(hash, absl::kZeroPad16));
}

absl::Status CheckRuntimeProfile(int64_t version, const RuntimeProfile& profile,
                                 const RuntimeKey& key) {
  if (version != RuntimeProfile::kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("its version is ", version, ", this build reads ",
                     RuntimeProfile::kVersion));
  }
  if (!(profile.key == key)) {
    return absl::FailedPreconditionError(
        "it was measured on another device, driver or build");
  }
  const RuntimeLoad& load = profile.load;
  const bool is_text =
      profile.measured.size() <= RuntimeProfile::kMaxMeasuredBytes &&
      std::all_of(profile.measured.begin(), profile.measured.end(), [](char c) {
        return absl::ascii_isprint(static_cast<unsigned char>(c));
      });
  if (!is_text) {
    return absl::InvalidArgumentError(
        absl::StrCat("measured is no printable text of at most ",
                     RuntimeProfile::kMaxMeasuredBytes, " bytes"));
  }
  RETURN_IF_ERROR(
      CheckCount("bytes", profile.bytes, 1, RuntimeProfile::kMaxBytes));
  RETURN_IF_ERROR(
      CheckCount("n_threads", load.n_threads, 1, RuntimeLoad::kMaxThreads));
  RETURN_IF_ERROR(
      CheckCount("n_slots", load.n_slots, 1, LoadOptions::kMaxSlots));
  RETURN_IF_ERROR(
      CheckCount("n_rows", load.n_rows, 1, LoadOptions::kMaxUbatch));
  return CheckCount("n_vocab", load.n_vocab, 0, ModelShape::kMaxVocab);
}

RuntimeProfile MergeRuntime(const RuntimeProfile& kept,
                            const RuntimeProfile& seen, const RuntimeLoad& load,
                            bool may_shrink) {
  // Measurements of one state differ by less than this.
  constexpr int64_t kNoiseBytes = 512 << 10;
  if (seen.bytes > MeasuredRuntimeBytes(kept, load) - kNoiseBytes) return seen;
  const int64_t above = kept.bytes - seen.bytes;
  if (!may_shrink || above <= RuntimeShrinkBytes(kept.bytes)) return kept;
  RuntimeProfile merged = seen;
  merged.bytes = kept.bytes - above / 2;
  return merged;
}

int64_t RuntimeShrinkBytes(int64_t bytes) {
  return std::max(8 * kMiB, bytes / 4);
}

RuntimeLoad LargerLoad(const RuntimeLoad& a, const RuntimeLoad& b) {
  return {.n_threads = std::max(a.n_threads, b.n_threads),
          .n_slots = std::max(a.n_slots, b.n_slots),
          .n_rows = std::max(a.n_rows, b.n_rows),
          .n_vocab = std::max(a.n_vocab, b.n_vocab)};
}

int64_t RuntimeGrowth(const RuntimeLoad& from, const RuntimeLoad& to) {
  const auto more = [](int64_t a, int64_t b) {
    return std::max<int64_t>(b - a, 0);
  };
  return more(from.n_threads, to.n_threads) * kThreadBytes +
         more(from.n_slots, to.n_slots) * kSlotBytes +
         more(from.n_rows, to.n_rows) * kRowBytes +
         more(from.n_vocab, to.n_vocab) * kTokenBytes;
}

int64_t MeasuredRuntimeBytes(const RuntimeProfile& profile,
                             const RuntimeLoad& load) {
  return WholeMiB(profile.bytes + RuntimeGrowth(profile.load, load) +
                  kRuntimeSafetyBytes);
}

int64_t EstimatedRuntimeBytes(const RuntimeLoad& load) {
  const RuntimeLoad nothing = {.n_threads = 0, .n_slots = 0, .n_rows = 0};
  return std::max(CommittedCpuProfile().runtime_bytes,
                  WholeMiB(kCpuBaseBytes + RuntimeGrowth(nothing, load)));
}

void ApplyRuntime(const RuntimeProfile* measured, const RuntimeLoad& load,
                  DeviceProfile& profile) {
  if (measured == nullptr) {
    profile.runtime_bytes = EstimatedRuntimeBytes(load);
    profile.runtime_basis = Basis::kEstimated;
    return;
  }
  profile.runtime_bytes = MeasuredRuntimeBytes(*measured, load);
  profile.runtime_basis = Basis::kMeasured;
  profile.runtime_note = absl::StrCat(
      measured->bytes, " bytes held by this build's idle worker here",
      measured->measured.empty()
          ? ""
          : absl::StrCat(", measured on ", measured->measured),
      ", with ", measured->load.n_threads,
      measured->load.n_threads == 1 ? " thread" : " threads", ", + ",
      RuntimeGrowth(measured->load, load), " that this load may add + ",
      kRuntimeSafetyBytes / kMiB, " MiB, in whole MiB");
}

}  // namespace plimsoll::planner
