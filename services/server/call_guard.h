// Decides which calls a server takes: by the token that a call carries, and the
// table of roles.
#ifndef PLIMSOLL_SERVICES_SERVER_CALL_GUARD_H_
#define PLIMSOLL_SERVICES_SERVER_CALL_GUARD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/server/token_file.h"

namespace plimsoll::services {

// gRPC asks it about every call before it looks for the method, so no method
// can be forgotten. Thread-safe.
class CallGuard {
 public:
  // At most one line a kLogInterval tells of refused calls.
  static constexpr absl::Duration kLogInterval = absl::Seconds(10);

  CallGuard(std::shared_ptr<TokenFile> tokens,
            std::function<absl::Time()> clock)
      : tokens_(std::move(tokens)), clock_(std::move(clock)) {}

  // Returns whether a call of the method at `path` may go on. `authorization`
  // is the call's header of this name, "" without one.
  // Errors: kUnauthenticated without a valid token; kPermissionDenied if its
  // role is too low or the method has no rule. No message has the token in it.
  absl::Status Check(absl::string_view path, absl::string_view authorization);

  const std::shared_ptr<TokenFile>& tokens() const { return tokens_; }

 private:
  absl::Status Judge(absl::string_view path,
                     absl::string_view authorization) const;
  void CountRefusal() ABSL_LOCKS_EXCLUDED(mu_);

  const std::shared_ptr<TokenFile> tokens_;
  const std::function<absl::Time()> clock_;
  absl::Mutex mu_;
  int64_t n_refused_ ABSL_GUARDED_BY(mu_) = 0;  // since the last line
  absl::Time logged_at_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_CALL_GUARD_H_
