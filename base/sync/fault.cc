#include "base/sync/fault.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"

namespace plimsoll {
namespace {

// FNV-1a and the end of splitmix64: the same in every build.
uint64_t Hash(uint64_t seed, absl::string_view name, int64_t pass) {
  uint64_t hash = 0xcbf29ce484222325 ^ seed;
  for (const char letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  }
  hash += static_cast<uint64_t>(pass) * 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
  return hash ^ (hash >> 31);
}

// The plan of this process and what it has counted.
class Faults {
 public:
  static Faults& Get() {
    static auto& faults = *new Faults;  // threads may outlive main
    return faults;
  }

  bool has_plan() const { return has_plan_.load(std::memory_order_relaxed); }

  void Begin(FaultPlan plan, bool tells) {
    absl::MutexLock lock(&mu_);
    if (has_plan()) {
      std::fprintf(stderr, "there is a plan of faults already\n");
      std::abort();
    }
    plan_ = std::move(plan);
    counts_.clear();
    tells_ = tells;
    has_plan_ = true;
  }

  void End() { has_plan_ = false; }

  bool Passes(absl::string_view point) {
    absl::MutexLock lock(&mu_);
    if (!has_plan()) return false;
    FaultCount& count = counts_[std::string(point)];
    ++count.passes;
    if (!Fires(point, count.passes)) return false;
    ++count.fired;
    if (tells_) {
      std::fprintf(stderr, "fault: %.*s fails at pass %lld\n",
                   static_cast<int>(point.size()), point.data(),
                   static_cast<long long>(count.passes));
    }
    return true;
  }

  std::vector<FaultCount> Counts() const {
    absl::MutexLock lock(&mu_);
    std::vector<FaultCount> counts;
    for (const auto& [point, count] : counts_) {
      counts.push_back({point, count.passes, count.fired});
    }
    return counts;
  }

 private:
  bool Fires(absl::string_view point, int64_t pass) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const FaultRule* rule = nullptr;
    for (const FaultRule& one : plan_.rules) {
      if (one.point == point) rule = &one;
      if (one.point == "*" && rule == nullptr) rule = &one;
    }
    if (rule == nullptr) return false;
    if (rule->pass > 0) return pass == rule->pass;
    // 53 bits, which a double holds.
    const uint64_t hash = Hash(plan_.seed, point, pass) >> 11;
    return static_cast<double>(hash) * 0x1p-53 < rule->probability;
  }

  std::atomic<bool> has_plan_ = false;
  mutable absl::Mutex mu_;
  FaultPlan plan_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, FaultCount> counts_ ABSL_GUARDED_BY(mu_);
  bool tells_ ABSL_GUARDED_BY(mu_) = false;
};

absl::StatusOr<FaultRule> ParseRule(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  FaultRule rule;
  rule.point = std::string(absl::StripAsciiWhitespace(parts.first));
  bool is_number = absl::SimpleAtoi(parts.second, &rule.pass);
  if (is_number) {
    is_number = rule.pass >= 0;
  } else {
    rule.pass = 0;  // SimpleAtoi may have read a part of the text
    is_number = absl::SimpleAtod(parts.second, &rule.probability) &&
                rule.probability >= 0 && rule.probability <= 1;
  }
  if (rule.point.empty() || !is_number) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" is no POINT=PASS and no POINT=PROBABILITY"));
  }
  return rule;
}

// Begins with the plan of the environment before main does.
[[maybe_unused]] const bool begun_by_environment = [] {
  const char* const text = std::getenv("PLIMSOLL_FAULTS");
  if (text == nullptr) return false;
  absl::StatusOr<FaultPlan> plan = ParseFaultPlan(text);
  if (!plan.ok()) {
    std::fprintf(stderr, "PLIMSOLL_FAULTS: %s\n",
                 std::string(plan.status().message()).c_str());
    std::_Exit(2);
  }
  Faults::Get().Begin(*std::move(plan), /*tells=*/true);
  return true;
}();

}  // namespace

absl::StatusOr<FaultPlan> ParseFaultPlan(absl::string_view text) {
  FaultPlan plan;
  for (const absl::string_view part : absl::StrSplit(text, ';')) {
    absl::string_view value = part;
    if (absl::ConsumePrefix(&value, "seed=")) {
      if (!absl::SimpleAtoi(value, &plan.seed)) {
        return absl::InvalidArgumentError(
            absl::StrCat("\"", part, "\" is no seed"));
      }
      continue;
    }
    for (const absl::string_view rule :
         absl::StrSplit(part, ',', absl::SkipWhitespace())) {
      absl::StatusOr<FaultRule> parsed = ParseRule(rule);
      if (!parsed.ok()) return std::move(parsed).status();
      plan.rules.push_back(*std::move(parsed));
    }
  }
  return plan;
}

ScopedFaults::ScopedFaults(FaultPlan plan) {
  Faults::Get().Begin(std::move(plan), /*tells=*/false);
}

ScopedFaults::~ScopedFaults() { Faults::Get().End(); }

std::vector<FaultCount> ScopedFaults::Counts() const {
  return Faults::Get().Counts();
}

FaultCount ScopedFaults::CountOf(absl::string_view point) const {
  for (FaultCount& count : Faults::Get().Counts()) {
    if (count.point == point) return std::move(count);
  }
  return {std::string(point), 0, 0};
}

bool FaultFires(absl::string_view point) {
  Faults& faults = Faults::Get();
  return faults.has_plan() && faults.Passes(point);
}

}  // namespace plimsoll
