#include "services/server/access/grants.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "services/server/access/token_list.h"

namespace plimsoll::services {
namespace {

constexpr char kGrantForm[] =
    "WHO=ROLE[:TENANT], where WHO is uid:N, user:NAME, gid:N, group:NAME, "
    "uri:URI, dns:NAME or cn:NAME";
// Room for an entry of the system's lists of users and of groups.
constexpr size_t kMaxEntryBytes = 1 << 20;

bool IsPlainName(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxGranteeBytes &&
         absl::c_all_of(text, [](char c) {
           return absl::ascii_isgraph(static_cast<unsigned char>(c));
         });
}

// Calls a function of the system's lists, with more room until it is enough.
// `call` returns 0, or an error's number.
template <typename Call>
bool WithRoom(const Call& call) {
  std::vector<char> room(1 << 12);
  int error = call(room);
  while (error == ERANGE && room.size() < kMaxEntryBytes) {
    room.resize(2 * room.size());
    error = call(room);
  }
  return error == 0;
}

absl::StatusOr<uid_t> UserNamed(const std::string& name) {
  std::optional<uid_t> uid;
  WithRoom([&](std::vector<char>& room) {
    passwd entry = {};
    passwd* found = nullptr;
    const int error =
        getpwnam_r(name.c_str(), &entry, room.data(), room.size(), &found);
    if (found != nullptr) uid = found->pw_uid;
    return error;
  });
  if (uid.has_value()) return *uid;
  return absl::InvalidArgumentError(
      absl::StrCat("this system has no user ", name));
}

absl::StatusOr<gid_t> GroupNamed(const std::string& name) {
  std::optional<gid_t> gid;
  WithRoom([&](std::vector<char>& room) {
    group entry = {};
    group* found = nullptr;
    const int error =
        getgrnam_r(name.c_str(), &entry, room.data(), room.size(), &found);
    if (found != nullptr) gid = found->gr_gid;
    return error;
  });
  if (gid.has_value()) return *gid;
  return absl::InvalidArgumentError(
      absl::StrCat("this system has no group ", name));
}

absl::StatusOr<uint32_t> ParseId(absl::string_view text) {
  uint32_t id = 0;
  // The largest number means "no user" to the system.
  if (absl::SimpleAtoi(text, &id) &&
      id != std::numeric_limits<uint32_t>::max()) {
    return id;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not the number of a user or a group"));
}

absl::Status CheckId(const Grant& grant) {
  const uint32_t id = grant.kind == Grantee::kUser ? grant.uid : grant.gid;
  if (id != kNobody) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("nobody may get a grant: in a user namespace ", kNobody,
                   " stands for everybody from outside of it"));
}

// Reads WHO into `grant`.
absl::Status ReadGrantee(absl::string_view who, Grant& grant) {
  const size_t colon = who.find(':');
  const absl::string_view kind = who.substr(0, colon);
  const absl::string_view name = colon == who.npos ? "" : who.substr(colon + 1);
  if (!IsPlainName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is not ", kGrantForm, "; WHO has at most ",
                     kMaxGranteeBytes, " printable characters and no spaces"));
  }
  if (kind == "uid" || kind == "user") {
    grant.kind = Grantee::kUser;
    ASSIGN_OR_RETURN(grant.uid, kind == "uid" ? ParseId(name)
                                              : UserNamed(std::string(name)));
    return CheckId(grant);
  }
  if (kind == "gid" || kind == "group") {
    grant.kind = Grantee::kGroup;
    ASSIGN_OR_RETURN(grant.gid, kind == "gid" ? ParseId(name)
                                              : GroupNamed(std::string(name)));
    return CheckId(grant);
  }
  constexpr std::array<std::pair<absl::string_view, Grantee>, 3> kNames = {{
      {"uri", Grantee::kUri},
      {"dns", Grantee::kDns},
      {"cn", Grantee::kCommonName},
  }};
  const auto* const found = absl::c_find_if(
      kNames, [kind](const auto& one) { return one.first == kind; });
  if (found == kNames.end()) {
    return absl::InvalidArgumentError(absl::StrCat("it is not ", kGrantForm));
  }
  grant.kind = found->second;
  grant.text = grant.kind == Grantee::kDns ? absl::AsciiStrToLower(name)
                                           : std::string(name);
  return absl::OkStatus();
}

// How the grantee is called where one name must mean one grantee.
std::string NameOf(const Grant& grant) {
  switch (grant.kind) {
    case Grantee::kUser:
      return absl::StrCat("uid:", grant.uid);
    case Grantee::kGroup:
      return absl::StrCat("gid:", grant.gid);
    case Grantee::kUri:
      return absl::StrCat("uri:", grant.text);
    case Grantee::kDns:
      return absl::StrCat("dns:", grant.text);
    case Grantee::kCommonName:
      break;
  }
  return absl::StrCat("cn:", grant.text);
}

// Reads ROLE[:TENANT] into `identity`.
absl::Status ReadRights(absl::string_view rights, Identity& identity) {
  const size_t colon = rights.find(':');
  const std::optional<Role> role = FindRole(rights.substr(0, colon));
  if (!role.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", rights.substr(0, colon),
                     "' is no role; there are viewer, user, worker and admin"));
  }
  identity.role = *role;
  if (colon != rights.npos) {
    identity.tenant = std::string(rights.substr(colon + 1));
  }
  return CheckTenant(identity.role, identity.tenant);
}

}  // namespace

absl::StatusOr<Grant> ParseGrant(absl::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals == text.npos) {
    return absl::InvalidArgumentError(absl::StrCat("it is not ", kGrantForm));
  }
  Grant grant;
  RETURN_IF_ERROR(ReadGrantee(text.substr(0, equals), grant));
  RETURN_IF_ERROR(ReadRights(text.substr(equals + 1), grant.identity));
  grant.identity.name = NameOf(grant);
  if (grant.identity.role == Role::kWorker) {
    grant.identity.lease_owner = grant.identity.name;
  }
  return grant;
}

absl::StatusOr<std::vector<Grant>> ParseGrants(
    const std::vector<std::string>& texts) {
  if (texts.size() > kMaxGrants) {
    return absl::InvalidArgumentError(
        absl::StrCat("--grant is there ", texts.size(), " times, at most ",
                     kMaxGrants, " are accepted"));
  }
  std::vector<Grant> grants;
  grants.reserve(texts.size());
  for (const std::string& text : texts) {
    auto grant = ParseGrant(text);
    if (!grant.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--grant ", text, ": ", grant.status().message()));
    }
    for (const Grant& other : grants) {
      if (other.identity.name != grant->identity.name) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--grant ", text, ": there is another grant for ",
                       grant->identity.name));
    }
    grants.push_back(*std::move(grant));
  }
  return grants;
}

std::optional<size_t> FindUserGrant(const std::vector<Grant>& grants,
                                    const LocalPeer& peer) {
  for (size_t i = 0; i < grants.size(); ++i) {
    if (grants[i].kind == Grantee::kUser && grants[i].uid == peer.uid) return i;
  }
  return std::nullopt;
}

std::optional<size_t> FindGroupGrant(const std::vector<Grant>& grants,
                                     const LocalPeer& peer) {
  for (size_t i = 0; i < grants.size(); ++i) {
    if (grants[i].kind == Grantee::kGroup &&
        absl::c_linear_search(peer.gids, grants[i].gid)) {
      return i;
    }
  }
  return std::nullopt;
}

std::optional<Identity> FindCertificateGrant(const std::vector<Grant>& grants,
                                             const CertificateNames& names) {
  const auto is_for = [&names](const Grant& grant) {
    switch (grant.kind) {
      case Grantee::kUri:
        return absl::c_linear_search(names.uris, grant.text);
      case Grantee::kDns:
        return absl::c_any_of(names.dns, [&grant](const std::string& name) {
          return absl::EqualsIgnoreCase(name, grant.text);
        });
      case Grantee::kCommonName:
        return names.common_name == grant.text;
      case Grantee::kUser:
      case Grantee::kGroup:
        break;
    }
    return false;
  };
  const auto found = absl::c_find_if(grants, is_for);
  if (found == grants.end()) return std::nullopt;
  return found->identity;
}

}  // namespace plimsoll::services
