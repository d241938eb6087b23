// The list of tokens that a server accepts. It does not have the tokens, only
// their SHA-256 hashes, owners and roles.
#ifndef PLIMSOLL_SERVICES_SERVER_ACCESS_TOKEN_LIST_H_
#define PLIMSOLL_SERVICES_SERVER_ACCESS_TOKEN_LIST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/server/access/roles.h"

namespace plimsoll::services {

inline constexpr size_t kMaxTokens = 4'096;
inline constexpr size_t kMaxTokenListBytes = 4 << 20;
// A longer token is refused before it is hashed.
inline constexpr size_t kMaxTokenBytes = 512;
inline constexpr size_t kMaxTokenNameBytes = 64;
// A tenant's name is as long as x-tenant may be.
inline constexpr size_t kMaxTokenTenantBytes = 64;

using TokenHash = std::array<uint8_t, 32>;

struct TokenEntry {
  std::string name;     // unique; printable ASCII without spaces
  TokenHash hash = {};  // SHA-256 of the token's bytes
  std::string tenant;   // empty: none; printable ASCII without spaces
  Role role = Role::kViewer;
  absl::Time expires = absl::InfiniteFuture();
};

// Reads {"tokens": [{"name", "sha256", "role", "tenant", "expires"}, ...]}.
// "sha256" is 64 digits of hex and "expires" a time of RFC 3339; the latter and
// "tenant" may be absent, but a user has a tenant.
// Errors: kInvalidArgument naming the entry and the field.
absl::StatusOr<std::vector<TokenEntry>> ParseTokenList(absl::string_view json);

// Writes the format that ParseTokenList reads.
std::string FormatTokenList(const std::vector<TokenEntry>& tokens);

// Errors: kInvalidArgument if callers of `role` may not have `tenant`, which is
// empty for none.
absl::Status CheckTenant(Role role, absl::string_view tenant);

// Errors: kInvalidArgument if an entry may not be in a list.
absl::Status CheckTokenEntry(const TokenEntry& entry);

TokenHash HashToken(absl::string_view token);

// Makes a token of 256 random bits. Errors: kUnavailable without randomness.
absl::StatusOr<std::string> NewToken();

// Returns the entry of `token`, or null. The expiry time is not checked. The
// duration of the search tells nothing about other entries.
const TokenEntry* FindToken(const std::vector<TokenEntry>& tokens,
                            absl::string_view token);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_ACCESS_TOKEN_LIST_H_
