#include "services/server/call_guard.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "services/host/log.h"
#include "services/server/roles.h"

namespace plimsoll::services {

absl::Status CallGuard::Judge(absl::string_view path,
                              absl::string_view authorization) const {
  const MethodRule* rule = FindMethodRule(path);
  if (rule != nullptr && !rule->least.has_value()) return absl::OkStatus();
  const std::optional<Identity> identity = tokens_->Find(authorization);
  if (!identity.has_value()) {
    return absl::UnauthenticatedError(
        authorization.empty()
            ? "this server wants a token: send it as \"authorization: Bearer "
              "TOKEN\", or give plimsoll --token-file"
            : "the token is not valid here");
  }
  if (rule == nullptr) {
    return absl::PermissionDeniedError("no role may call this method");
  }
  if (identity->role < *rule->least) {
    return absl::PermissionDeniedError(absl::StrCat(
        "a token of role ", RoleName(identity->role), " may not call ",
        rule->path, ", which takes role ", RoleName(*rule->least)));
  }
  return absl::OkStatus();
}

absl::Status CallGuard::Check(absl::string_view path,
                              absl::string_view authorization) {
  absl::Status status = Judge(path, authorization);
  if (!status.ok()) CountRefusal();
  return status;
}

void CallGuard::CountRefusal() {
  const absl::Time now = clock_();
  int64_t n_refused = 0;
  {
    absl::MutexLock lock(&mu_);
    ++n_refused_;
    if (now >= logged_at_ && now < logged_at_ + kLogInterval) return;
    logged_at_ = now;
    n_refused = std::exchange(n_refused_, 0);
  }
  Log(LogLevel::kWarning, "calls were refused: no valid token, or a low role",
      {{"calls", n_refused}});
}

}  // namespace plimsoll::services
