// Named points where a test has the product fail, as BUGGIFY of FoundationDB
// does. They are compiled in under AddressSanitizer and ThreadSanitizer, and
// with the CMake option PLIMSOLL_FAULTS; elsewhere each is the constant false.
//
// A point stands where something outside can fail, and takes the path of that
// error: `if (PLIMSOLL_FAULT("model.read")) return ReadError(EIO);`. Its name
// is a room or a thing, and what is done with it.
#ifndef PLIMSOLL_BASE_SYNC_FAULT_H_
#define PLIMSOLL_BASE_SYNC_FAULT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#if defined(PLIMSOLL_FAULTS)
#define PLIMSOLL_HAS_FAULTS_ 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PLIMSOLL_HAS_FAULTS_ 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLIMSOLL_HAS_FAULTS_ 1
#endif

#ifdef PLIMSOLL_HAS_FAULTS_
#define PLIMSOLL_FAULT(name) (::plimsoll::FaultFires(name))
#else
#define PLIMSOLL_FAULT(name) (false)
#endif

namespace plimsoll {

// Whether the points of this build can fire.
#ifdef PLIMSOLL_HAS_FAULTS_
inline constexpr bool kHasFaults = true;
#else
inline constexpr bool kHasFaults = false;
#endif

// When a point fires.
struct FaultRule {
  std::string point;       // "*": each point without a rule of its own
  double probability = 0;  // the chance that a pass fires
  int64_t pass = 0;        // the pass that fires, from 1 on; 0: none
};

struct FaultPlan {
  std::vector<FaultRule> rules;
  // Whether a pass fires depends on this, on the point's name and on how often
  // it was passed before, and on nothing else.
  uint64_t seed = 0;
};

// How often a point was passed, and how often it fired.
struct FaultCount {
  std::string point;
  int64_t passes = 0;
  int64_t fired = 0;
};

// Reads a plan such as "journal.append=3,model.read=0.1;seed=7": a whole number
// is the pass that fires, and a number with a point is a probability.
// Errors: kInvalidArgument, with the part that is not well formed.
absl::StatusOr<FaultPlan> ParseFaultPlan(absl::string_view text);

// While it lives, points fire as its plan says. Passes count from its beginning
// on. There is one at a time in a process. A process whose environment has
// PLIMSOLL_FAULTS, a plan, begins with one; what fires is then told on stderr.
// Thread-safe.
class ScopedFaults {
 public:
  explicit ScopedFaults(FaultPlan plan);
  ~ScopedFaults();
  ScopedFaults(const ScopedFaults&) = delete;
  ScopedFaults& operator=(const ScopedFaults&) = delete;

  // All points that were passed since the beginning, by name.
  std::vector<FaultCount> Counts() const;
  // The counts of one point, 0 if it was not passed.
  FaultCount CountOf(absl::string_view point) const;
};

// Whether the point of this name fires at this pass. Product code calls it by
// PLIMSOLL_FAULT. Without a plan it reads one atomic, and orders no threads.
bool FaultFires(absl::string_view point);

}  // namespace plimsoll

#endif  // PLIMSOLL_BASE_SYNC_FAULT_H_
