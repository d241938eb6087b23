// A server's file of tokens, which may change while the server runs.
#ifndef PLIMSOLL_SERVICES_SERVER_TOKEN_FILE_H_
#define PLIMSOLL_SERVICES_SERVER_TOKEN_FILE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/host/file_watch.h"
#include "services/server/access/identity.h"
#include "services/server/access/token_list.h"

namespace plimsoll::services {

// Reads a file of tokens.
// Errors: kInvalidArgument naming the file and what is wrong with it.
absl::StatusOr<std::vector<TokenEntry>> ReadTokens(const std::string& path);

// The first call after PollTimer::kInterval checks the file again. If the file
// is bad or missing, the log says so and the tokens of the last reading stay.
// Thread-safe. The server and its calls share it.
class TokenFile {
 public:
  // Errors: kInvalidArgument naming the file and what is wrong with it.
  static absl::StatusOr<std::shared_ptr<TokenFile>> Open(
      const std::string& path, std::function<absl::Time()> clock);

  // Returns the identity for the token in the header `authorization`, "Bearer
  // TOKEN". Returns nothing if the token is not in the file or has expired.
  std::optional<Identity> Find(absl::string_view authorization)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  TokenFile(const std::string& path, std::function<absl::Time()> clock)
      : clock_(std::move(clock)), watch_(path, clock_()) {}

  void Refresh(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::function<absl::Time()> clock_;
  absl::Mutex mu_;
  FileWatch watch_ ABSL_GUARDED_BY(mu_);
  std::vector<TokenEntry> tokens_ ABSL_GUARDED_BY(mu_);
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_TOKEN_FILE_H_
