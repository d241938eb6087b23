// Chooses the models that make room for one that does not fit.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_EVICTION_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_EVICTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace plimsoll::services {

// A model in memory.
struct EvictionCandidate {
  std::string name;
  int64_t bytes = 0;  // bytes of its plan
  // When its last use ended; absent while it is in use.
  std::optional<absl::Time> idle_since;
  std::string kept_because = {};  // not empty: it must stay, and why
};

// The bytes that a refused load lacks; absent if the refusal does not say.
std::optional<int64_t> MissingBytes(const absl::Status& refusal);

// Chooses models whose plans together have at least the bytes that `refusal`
// lacks, and no model without which they would still have them. Idle models go
// first, the longest idle one before the others, and then those in use.
// Errors: kResourceExhausted if the models that may go have too few bytes, with
// what each one holds; `refusal` if it names no bytes.
absl::StatusOr<std::vector<std::string>> ChooseEvicted(
    std::vector<EvictionCandidate> candidates, const absl::Status& refusal);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_EVICTION_H_
