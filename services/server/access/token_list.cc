#include "services/server/access/token_list.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/decode_hex.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace plimsoll::services {
namespace {

using TokenJson = nlohmann::ordered_json;

constexpr size_t kRandomBytes = 32;
constexpr char kTokenPrefix[] = "plimsoll_";

bool IsPrintable(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
}

absl::Status BadField(absl::string_view field, absl::string_view rule) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", rule));
}

// The text of a field; "" without one.
absl::StatusOr<std::string> TextOf(const TokenJson& entry, const char* field) {
  const auto found = entry.find(field);
  if (found == entry.end()) return std::string();
  if (!found->is_string()) return BadField(field, "must be a text");
  return found->get<std::string>();
}

absl::StatusOr<TokenHash> ParseHash(const std::string& hex) {
  TokenHash hash = {};
  const bool is_hex = std::all_of(hex.begin(), hex.end(), [](char c) {
    return absl::ascii_isxdigit(static_cast<unsigned char>(c));
  });
  if (hex.size() != 2 * hash.size() || !is_hex) {
    return BadField("sha256", "must be 64 digits of hex");
  }
  const std::string bytes = DecodeHex(hex);
  std::copy(bytes.begin(), bytes.end(), hash.begin());
  return hash;
}

absl::StatusOr<TokenEntry> ParseEntry(const TokenJson& json) {
  if (!json.is_object()) {
    return absl::InvalidArgumentError("is not an object");
  }
  constexpr absl::string_view kFields[] = {"name", "sha256", "tenant", "role",
                                           "expires"};
  for (const auto& [key, value] : json.items()) {
    if (std::count(std::begin(kFields), std::end(kFields), key) == 0) {
      return BadField(key, "is not a field of a token");
    }
  }
  TokenEntry entry;
  ASSIGN_OR_RETURN(entry.name, TextOf(json, "name"));
  ASSIGN_OR_RETURN(const std::string hex, TextOf(json, "sha256"));
  ASSIGN_OR_RETURN(entry.hash, ParseHash(hex));
  ASSIGN_OR_RETURN(entry.tenant, TextOf(json, "tenant"));
  ASSIGN_OR_RETURN(const std::string role, TextOf(json, "role"));
  const std::optional<Role> found = FindRole(role);
  if (!found.has_value()) {
    return BadField("role", "must be viewer, user, worker or admin");
  }
  entry.role = *found;
  ASSIGN_OR_RETURN(const std::string expires, TextOf(json, "expires"));
  std::string error;
  if (!expires.empty() &&
      !absl::ParseTime(absl::RFC3339_full, expires, &entry.expires, &error)) {
    return BadField("expires", "must be a time such as 2030-01-31T12:00:00Z");
  }
  RETURN_IF_ERROR(CheckTokenEntry(entry));
  return entry;
}

}  // namespace

absl::Status CheckTenant(Role role, absl::string_view tenant) {
  if (tenant.size() > kMaxTokenTenantBytes || !IsPrintable(tenant)) {
    return BadField("tenant",
                    absl::StrCat("must be at most ", kMaxTokenTenantBytes,
                                 " printable characters without "
                                 "spaces"));
  }
  if (role == Role::kUser && tenant.empty()) {
    return BadField("tenant", "a user has one, because sessions belong to it");
  }
  return absl::OkStatus();
}

absl::Status CheckTokenEntry(const TokenEntry& entry) {
  if (entry.name.empty() || entry.name.size() > kMaxTokenNameBytes ||
      !IsPrintable(entry.name)) {
    return BadField("name", absl::StrCat("must be 1 to ", kMaxTokenNameBytes,
                                         " printable characters without "
                                         "spaces"));
  }
  return CheckTenant(entry.role, entry.tenant);
}

absl::StatusOr<std::vector<TokenEntry>> ParseTokenList(absl::string_view json) {
  if (json.size() > kMaxTokenListBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("has more than ", kMaxTokenListBytes, " bytes"));
  }
  const TokenJson root = TokenJson::parse(json.begin(), json.end(), nullptr,
                                          /*allow_exceptions=*/false);
  if (root.is_discarded() || !root.is_object() || root.size() != 1 ||
      !root.contains("tokens") || !root["tokens"].is_array()) {
    return absl::InvalidArgumentError(
        "is not JSON of the form {\"tokens\": "
        "[...]}");
  }
  const TokenJson& list = root["tokens"];
  if (list.size() > kMaxTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("has more than ", kMaxTokens, " tokens"));
  }
  std::vector<TokenEntry> tokens;
  std::set<std::string> names;
  for (size_t i = 0; i < list.size(); ++i) {
    absl::StatusOr<TokenEntry> entry = ParseEntry(list[i]);
    if (!entry.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokens[", i, "]: ", entry.status().message()));
    }
    if (!names.insert(entry->name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokens[", i, "]: name: two tokens have this one"));
    }
    tokens.push_back(*std::move(entry));
  }
  return tokens;
}

std::string FormatTokenList(const std::vector<TokenEntry>& tokens) {
  TokenJson list = TokenJson::array();
  for (const TokenEntry& token : tokens) {
    TokenJson entry;
    entry["name"] = token.name;
    entry["sha256"] = absl::BytesToHexString(
        {reinterpret_cast<const char*>(token.hash.data()), token.hash.size()});
    if (!token.tenant.empty()) entry["tenant"] = token.tenant;
    entry["role"] = RoleName(token.role);
    if (token.expires != absl::InfiniteFuture()) {
      entry["expires"] = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", token.expires,
                                          absl::UTCTimeZone());
    }
    list.push_back(std::move(entry));
  }
  TokenJson root;
  root["tokens"] = std::move(list);
  return root.dump(2) + "\n";
}

TokenHash HashToken(absl::string_view token) {
  TokenHash hash = {};
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(),
         hash.data());
  return hash;
}

absl::StatusOr<std::string> NewToken() {
  std::array<unsigned char, kRandomBytes> bytes = {};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return absl::UnavailableError("the system gives no random bytes");
  }
  std::string text;
  absl::WebSafeBase64Escape(
      {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, &text);
  return absl::StrCat(kTokenPrefix, text);
}

const TokenEntry* FindToken(const std::vector<TokenEntry>& tokens,
                            absl::string_view token) {
  if (token.empty() || token.size() > kMaxTokenBytes) return nullptr;
  const TokenHash hash = HashToken(token);
  const TokenEntry* found = nullptr;
  for (const TokenEntry& entry : tokens) {
    if (CRYPTO_memcmp(entry.hash.data(), hash.data(), hash.size()) == 0) {
      found = &entry;
    }
  }
  return found;
}

}  // namespace plimsoll::services
