#include "planner/layout/idle_sessions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/layout/kv_cache_bytes.h"
#include "planner/layout/plan_regions.h"

namespace plimsoll::planner {

absl::StatusOr<int64_t> DecideIdleSessions(const ModelShape& shape,
                                           const PlanOptions& options) {
  if (!options.idle_session_bytes) return options.n_idle_sessions;
  if (options.n_idle_sessions != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("idle_session_bytes is given beside n_idle_sessions, ",
                     options.n_idle_sessions, "; give one of them"));
  }
  const int64_t bytes = *options.idle_session_bytes;
  ASSIGN_OR_RETURN(const KvBytes slot,
                   KvCacheBytes(shape, {.n_ctx = shape.n_ctx_train,
                                        .k_type = options.k_type,
                                        .v_type = options.v_type,
                                        .rules = KvRulesOf(options)}));
  const int64_t place_bytes = slot.PlaceBytes();
  if (bytes == 0 || place_bytes == 0) return 0;
  const int64_t n = bytes / place_bytes;
  if (n > 0) return std::min(n, LoadOptions::kMaxIdleSessions);
  return absl::InvalidArgumentError(absl::StrCat(
      "idle_session_bytes is ", bytes, ", but the rings and states of one ",
      "idle session take ", place_bytes, "; give at least as many, or 0"));
}

}  // namespace plimsoll::planner
