#include "services/server/call_guard.h"

#include <unistd.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/host/log.h"
#include "services/server/access/roles.h"

namespace plimsoll::services {

CallGuard::CallGuard(std::shared_ptr<TokenFile> tokens,
                     std::function<absl::Time()> clock,
                     std::vector<Grant> grants)
    : tokens_(std::move(tokens)),
      clock_(std::move(clock)),
      grants_(std::move(grants)) {}

CallGuard::Verdict CallGuard::Judge(
    absl::string_view path, absl::string_view authorization,
    const std::optional<Identity>& known) const {
  const MethodRule* rule = FindMethodRule(path);
  if (rule != nullptr && !rule->least.has_value()) return {absl::OkStatus()};
  const std::optional<Identity> identity = Identify(authorization, known);
  if (!identity.has_value()) return NoIdentity(authorization);
  if (rule == nullptr) {
    return {absl::PermissionDeniedError("no role may call this method")};
  }
  if (identity->role < *rule->least) {
    return {absl::PermissionDeniedError(absl::StrCat(
        "a caller of role ", RoleName(identity->role), " may not call ",
        rule->path, ", which takes role ", RoleName(*rule->least)))};
  }
  return {absl::OkStatus()};
}

CallGuard::Verdict CallGuard::NoIdentity(
    absl::string_view authorization) const {
  if (tokens_ == nullptr) {
    return {absl::PermissionDeniedError(
                "this server has no --grant for who calls, neither for the "
                "user or a group by a Unix socket nor for a certificate"),
            AuthFailure::kNoGrant};
  }
  if (authorization.empty()) {
    return {absl::UnauthenticatedError(
                "this server wants a token: send it as \"authorization: "
                "Bearer TOKEN\", or give plimsoll --token-file"),
            AuthFailure::kNoToken};
  }
  return {absl::UnauthenticatedError("the token is not valid here"),
          AuthFailure::kWrongToken};
}

std::optional<Identity> CallGuard::Identify(
    absl::string_view authorization,
    const std::optional<Identity>& known) const {
  if (tokens_ == nullptr || authorization.empty()) return known;
  return tokens_->Find(authorization);
}

size_t CallGuard::LocalClassOf(const LocalPeer& peer) const {
  if (const auto user = FindUserGrant(grants_, peer)) return *user;
  // Users that this process cannot tell apart are nobody, too.
  const bool is_own = peer.uid == geteuid() && peer.uid != kNobody;
  if (peer.uid == 0 || is_own) return grants_.size();
  return FindGroupGrant(grants_, peer).value_or(grants_.size() + 1);
}

std::optional<Identity> CallGuard::LocalIdentity(size_t local_class) const {
  if (local_class < grants_.size()) return grants_[local_class].identity;
  if (local_class > grants_.size()) return std::nullopt;
  return Identity{.name = "own", .tenant = "", .role = Role::kAdmin};
}

absl::Status CallGuard::Check(absl::string_view path,
                              absl::string_view authorization,
                              const std::optional<Identity>& known,
                              absl::string_view request_id) {
  Verdict verdict = Judge(path, authorization, known);
  if (!verdict.status.ok()) OnRefused(verdict.failure, request_id);
  return std::move(verdict.status);
}

AuthFailureCounts CallGuard::failures() const {
  absl::MutexLock lock(&mu_);
  return failures_;
}

void CallGuard::Answer(const absl::Status& status,
                       absl::string_view authorization,
                       std::function<void()> answer) {
  const bool is_guess =
      absl::IsUnauthenticated(status) && !authorization.empty();
  if (!is_guess) return answer();
  delay_.Later(std::move(answer));
}

void CallGuard::OnRefused(AuthFailure failure, absl::string_view request_id) {
  const absl::Time now = clock_();
  int64_t n_refused = 0;
  {
    absl::MutexLock lock(&mu_);
    ++failures_[static_cast<size_t>(failure)];
    ++n_refused_;
    if (now >= logged_at_ && now < logged_at_ + kLogInterval) return;
    logged_at_ = now;
    n_refused = std::exchange(n_refused_, 0);
  }
  Log(LogLevel::kWarning,
      "calls were refused: no valid token, no grant, or a low role",
      {{"calls", n_refused},
       {"last_reason", kAuthFailureWords[static_cast<size_t>(failure)]},
       {"request_id", std::string(request_id)}});
}

}  // namespace plimsoll::services
