#include "services/generation/quota.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "services/server/small_file.h"

namespace plimsoll::services {
namespace {

using QuotaJson = nlohmann::ordered_json;

struct Limit {
  absl::string_view name;
  std::optional<int64_t> Quota::*value;
};

constexpr Limit kLimits[] = {{"requests", &Quota::requests},
                             {"waiting", &Quota::waiting},
                             {"tokens_per_second", &Quota::tokens_per_second},
                             {"burst_tokens", &Quota::burst_tokens},
                             {"kv_bytes", &Quota::kv_bytes},
                             {"sessions", &Quota::sessions},
                             {"prompt_bytes", &Quota::prompt_bytes},
                             {"max_tokens", &Quota::max_tokens}};

absl::StatusOr<std::optional<int64_t>> ParseLimit(const QuotaJson& json) {
  if (json.is_null()) return std::nullopt;
  if (json.is_number_integer() && json >= 1 && json <= kMaxQuota) {
    return json.get<int64_t>();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("must be a whole number from 1 to ", kMaxQuota,
                   ", or null for no limit"));
}

// Reads limits over those of `quota`.
absl::StatusOr<Quota> ParseQuota(const QuotaJson& json, Quota quota) {
  if (!json.is_object()) {
    return absl::InvalidArgumentError("must be an object of limits");
  }
  for (const auto& [key, value] : json.items()) {
    const auto limit = std::find_if(
        std::begin(kLimits), std::end(kLimits),
        [&key = key](const Limit& one) { return one.name == key; });
    if (limit == std::end(kLimits)) {
      return absl::InvalidArgumentError(
          absl::StrCat(key,
                       ": is no limit; there are requests, waiting, "
                       "tokens_per_second, burst_tokens, kv_bytes, sessions, "
                       "prompt_bytes and max_tokens"));
    }
    auto parsed = ParseLimit(value);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, ": ", parsed.status().message()));
    }
    quota.*limit->value = *parsed;
  }
  if (json.contains("burst_tokens") && quota.burst_tokens.has_value() &&
      !quota.tokens_per_second.has_value()) {
    return absl::InvalidArgumentError(
        "burst_tokens: means nothing without tokens_per_second");
  }
  return quota;
}

absl::Status At(absl::string_view place, const absl::Status& status) {
  return absl::InvalidArgumentError(
      absl::StrCat(place, ": ", status.message()));
}

absl::Status ParseTenants(const QuotaJson& json, Quotas& quotas) {
  if (!json.is_object()) {
    return absl::InvalidArgumentError("tenants: must be an object");
  }
  if (json.size() > kMaxQuotaTenants) {
    return absl::InvalidArgumentError(
        absl::StrCat("tenants: has more than ", kMaxQuotaTenants));
  }
  for (const auto& [name, limits] : json.items()) {
    auto quota = ParseQuota(limits, quotas.others);
    if (!quota.ok()) {
      return At(absl::StrCat("tenants.", name), quota.status());
    }
    quotas.tenants[name] = *quota;
  }
  return absl::OkStatus();
}

}  // namespace

const Quota& Quotas::Of(const std::string& tenant) const {
  const auto found = tenants.find(tenant);
  return found == tenants.end() ? others : found->second;
}

absl::StatusOr<Quotas> ParseQuotas(absl::string_view json) {
  const QuotaJson root = QuotaJson::parse(json.begin(), json.end(), nullptr,
                                          /*allow_exceptions=*/false);
  if (root.is_discarded() || !root.is_object()) {
    return absl::InvalidArgumentError(
        "is not JSON of the form {\"default\": {...}, \"tenants\": {...}}");
  }
  for (const auto& [key, value] : root.items()) {
    if (key != "default" && key != "tenants") {
      return absl::InvalidArgumentError(
          absl::StrCat(key, ": is neither \"default\" nor \"tenants\""));
    }
  }
  Quotas quotas;
  if (const auto found = root.find("default"); found != root.end()) {
    auto others = ParseQuota(*found, {});
    if (!others.ok()) return At("default", others.status());
    quotas.others = *others;
  }
  if (const auto found = root.find("tenants"); found != root.end()) {
    RETURN_IF_ERROR(ParseTenants(*found, quotas));
  }
  return quotas;
}

absl::StatusOr<Quotas> ReadQuotas(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadSmallFile(path, kMaxQuotaFileBytes));
  auto quotas = ParseQuotas(text);
  if (!quotas.ok()) return At(path, quotas.status());
  return quotas;
}

}  // namespace plimsoll::services
