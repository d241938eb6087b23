// Decides which calls a server takes, by the call's token or the identity that
// its connection proves, and by the table of roles.
#ifndef PLIMSOLL_SERVICES_SERVER_CALL_GUARD_H_
#define PLIMSOLL_SERVICES_SERVER_CALL_GUARD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/server/access/auth_failure.h"
#include "services/server/access/grants.h"
#include "services/server/access/identity.h"
#include "services/server/access/local_processes.h"
#include "services/server/access/refusal_delay.h"
#include "services/server/token_file.h"

namespace plimsoll::services {

// gRPC asks the guard about every call before it looks for the method, so no
// method can be forgotten. Thread-safe.
class CallGuard {
 public:
  // At most one line of the log reports refused calls in this time.
  static constexpr absl::Duration kLogInterval = absl::Seconds(10);

  // `tokens` is null if the server takes no tokens.
  CallGuard(std::shared_ptr<TokenFile> tokens,
            std::function<absl::Time()> clock, std::vector<Grant> grants = {});

  // Returns whether a call of the method at `path` may go on. `authorization`
  // is the call's header of this name, "" without one, and `known` the identity
  // that the connection proves.
  // Errors: kUnauthenticated without a valid token, if the server takes tokens;
  // kPermissionDenied if the role is too low, if there is no grant for the
  // caller, or the method has no rule. No message has the token in it.
  absl::Status Check(absl::string_view path, absl::string_view authorization,
                     const std::optional<Identity>& known = std::nullopt,
                     absl::string_view request_id = "")
      ABSL_LOCKS_EXCLUDED(mu_);

  // Counts a call that was refused, and logs some of them. `request_id` is the
  // client's; "" if there is none.
  void OnRefused(AuthFailure failure, absl::string_view request_id)
      ABSL_LOCKS_EXCLUDED(mu_);
  AuthFailureCounts failures() const ABSL_LOCKS_EXCLUDED(mu_);
  // Gives the answer to a call that was refused with `status`: at once, or
  // later (RefusalDelay) if it showed a token, which may have been a guess.
  void Answer(const absl::Status& status, absl::string_view authorization,
              std::function<void()> answer);

  // Returns the caller's identity. A token takes precedence over the
  // connection. A caller with an invalid token has no identity, even if the
  // connection proves one.
  std::optional<Identity> Identify(absl::string_view authorization,
                                   const std::optional<Identity>& known) const;

  // The identity that a certificate proves.
  std::optional<Identity> IdentityOf(const CertificateNames& names) const {
    return FindCertificateGrant(grants_, names);
  }

  // Processes that call by a Unix socket are in classes: one for each grant,
  // one for the server's own user and root, and the last one for all others.
  size_t n_local_classes() const { return grants_.size() + 2; }
  // A grant for the user takes precedence over being the server's own user, and
  // that takes precedence over a grant for a group.
  size_t LocalClassOf(const LocalPeer& peer) const;
  // Returns nothing for the last class, and for numbers that are no class.
  std::optional<Identity> LocalIdentity(size_t local_class) const;
  // The processes of each class that have connected.
  LocalProcesses& processes() { return processes_; }

 private:
  struct Verdict {
    absl::Status status;
    // The reason if the call is refused.
    AuthFailure failure = AuthFailure::kLowRole;
  };

  Verdict Judge(absl::string_view path, absl::string_view authorization,
                const std::optional<Identity>& known) const;
  Verdict NoIdentity(absl::string_view authorization) const;

  const std::shared_ptr<TokenFile> tokens_;
  const std::function<absl::Time()> clock_;
  const std::vector<Grant> grants_;
  mutable absl::Mutex mu_;
  AuthFailureCounts failures_ ABSL_GUARDED_BY(mu_) = {};
  // Refused calls since the last line.
  int64_t n_refused_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time logged_at_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  RefusalDelay delay_;
  LocalProcesses processes_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_CALL_GUARD_H_
