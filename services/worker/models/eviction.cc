#include "services/worker/models/eviction.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

bool GoesBefore(const EvictionCandidate& a, const EvictionCandidate& b) {
  if (a.idle_since.has_value() != b.idle_since.has_value()) {
    return a.idle_since.has_value();
  }
  if (a.idle_since != b.idle_since) return *a.idle_since < *b.idle_since;
  return a.name < b.name;
}

int64_t SumOf(const std::vector<EvictionCandidate>& models) {
  int64_t bytes = 0;
  for (const EvictionCandidate& one : models) bytes += one.bytes;
  return bytes;
}

// The refusal of a load for which all that may go is not enough.
absl::Status NotEnough(const absl::Status& refusal,
                       const std::vector<EvictionCandidate>& movable,
                       const std::vector<EvictionCandidate>& kept,
                       int64_t missing_bytes) {
  std::string message(refusal.message());
  if (!movable.empty()) {
    absl::StrAppend(&message, "; unloading ", movable.size(),
                    movable.size() == 1 ? " other model" : " other models",
                    " would give ", SumOf(movable), " bytes, so that ",
                    missing_bytes - SumOf(movable), " would still be missing");
  }
  for (const EvictionCandidate& one : kept) {
    absl::StrAppend(&message, "; ", one.name, " keeps ", one.bytes,
                    " bytes because ", one.kept_because);
  }
  return WithDetails(absl::Status(refusal.code(), message), DetailsOf(refusal));
}

}  // namespace

std::optional<int64_t> MissingBytes(const absl::Status& refusal) {
  const ErrorDetails details = DetailsOf(refusal);
  const auto found = details.metadata.find("missing_bytes");
  int64_t bytes = 0;
  if (details.reason != v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED ||
      found == details.metadata.end() ||
      !absl::SimpleAtoi(found->second, &bytes) || bytes <= 0) {
    return std::nullopt;
  }
  return bytes;
}

absl::StatusOr<std::vector<std::string>> ChooseEvicted(
    std::vector<EvictionCandidate> candidates, const absl::Status& refusal) {
  const std::optional<int64_t> missing = MissingBytes(refusal);
  if (!missing.has_value()) return refusal;
  std::sort(candidates.begin(), candidates.end(), GoesBefore);
  std::vector<EvictionCandidate> movable;
  std::vector<EvictionCandidate> kept;
  std::partition_copy(
      std::make_move_iterator(candidates.begin()),
      std::make_move_iterator(candidates.end()), std::back_inserter(movable),
      std::back_inserter(kept),
      [](const EvictionCandidate& one) { return one.kept_because.empty(); });
  if (SumOf(movable) < *missing) {
    return NotEnough(refusal, movable, kept, *missing);
  }
  size_t n_chosen = 0;
  int64_t bytes = 0;
  while (bytes < *missing) bytes += movable[n_chosen++].bytes;
  movable.resize(n_chosen);
  std::vector<std::string> names;
  for (const EvictionCandidate& one : movable) {
    if (bytes - one.bytes >= *missing) {
      bytes -= one.bytes;  // the others are enough
    } else {
      names.push_back(one.name);
    }
  }
  return names;
}

}  // namespace plimsoll::services
