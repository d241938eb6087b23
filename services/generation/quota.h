// The quotas of a worker's tenants, which a file contains.
#ifndef PLIMSOLL_SERVICES_GENERATION_QUOTA_H_
#define PLIMSOLL_SERVICES_GENERATION_QUOTA_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::services {

inline constexpr size_t kMaxQuotaFileBytes = 1 << 20;
inline constexpr size_t kMaxQuotaTenants = 4'096;
// The largest value of a limit.
inline constexpr int64_t kMaxQuota = int64_t{1} << 50;

// The limits of one tenant. An absent value means no limit.
struct Quota {
  std::optional<int64_t> requests = {};  // waiting and running ones together
  std::optional<int64_t> waiting = {};  // requests without a token yet, at once
  // Tokens of prompts and replies. A tenant that has taken nothing for a while
  // may take burst_tokens at once; if absent, this is kBurstSeconds of
  // tokens_per_second.
  std::optional<int64_t> tokens_per_second = {};
  std::optional<int64_t> burst_tokens = {};
  std::optional<int64_t> kv_bytes = {};  // the contexts of all requests at once
  std::optional<int64_t> sessions = {};  // sessions of one model, at once
  std::optional<int64_t> prompt_bytes = {};  // bytes of a received request
  std::optional<int64_t> max_tokens = {};    // tokens of a reply

  bool operator==(const Quota&) const = default;
};

inline constexpr int64_t kBurstSeconds = 60;

struct Quotas {
  Quota others;                          // tenants that are not named
  std::map<std::string, Quota> tenants;  // by name

  const Quota& Of(const std::string& tenant) const;
};

// Reads {"default": {...}, "tenants": {"NAME": {...}, ...}}. Both may be
// absent. The limits have the names of Quota's fields; each is a whole number
// from 1 to kMaxQuota, or null for no limit. A named tenant has the default for
// each limit that it does not name.
// Errors: kInvalidArgument naming the tenant and the limit.
absl::StatusOr<Quotas> ParseQuotas(absl::string_view json);

// Errors: kInvalidArgument naming the file and what is wrong with it.
absl::StatusOr<Quotas> ReadQuotas(const std::string& path);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_QUOTA_H_
