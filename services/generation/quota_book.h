// Enforces each tenant's quota, and counts the tenant's usage.
#ifndef PLIMSOLL_SERVICES_GENERATION_QUOTA_BOOK_H_
#define PLIMSOLL_SERVICES_GENERATION_QUOTA_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/generation/quota.h"
#include "services/host/file_watch.h"

namespace plimsoll::services {

class UsageFile;

// A limit that a request of a tenant would exceed.
struct PassedLimit {
  // After this time a running request may have ended. It is a guess.
  static constexpr absl::Duration kRetry = absl::Seconds(1);

  absl::string_view limit;  // the name of Quota's field
  int64_t most;
  int64_t taken;  // in use by the tenant already
  int64_t wanted;
  std::optional<absl::Duration> retry = kRetry;  // absent: it never fits
};

// Returns the error for an exceeded limit: kResourceExhausted, with details.
absl::Status QuotaRefusal(const PassedLimit& passed);

// The usage of a tenant since the process began.
struct TenantUsage {
  int64_t requests = 0;  // requests that were admitted
  int64_t refused = 0;
  int64_t prompt_tokens = 0;  // computed
  int64_t cached_tokens = 0;  // prompt tokens that the cache had
  int64_t generated_tokens = 0;
};

// Tenants share no limit: no call of a tenant fails because of another tenant's
// usage. The quota file is checked for changes now and then (FileWatch). A bad
// or missing file causes only a log line. Thread-safe.
class QuotaBook {
  struct Tenant;

 public:
  // Beyond this many tenants, all new tenants count as one, with the name
  // kOtherTenants and the default quota.
  static constexpr size_t kMaxTenants = 8'192;
  static constexpr char kOtherTenants[] = "(others)";

  // The most that a request may take, for its admission.
  struct Request {
    std::string tenant;
    int64_t n_prompt = 0;      // tokens
    int64_t n_reply = 0;       // tokens at most
    int64_t kv_bytes = 0;      // bytes of its context
    bool is_admitted = false;  // a part of an admitted call: not refused
  };

  // An admitted request, until its end. Thread-safe like the book. The book
  // outlives it.
  class Hold {
   public:
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    // Counts tokens of the reply. The first ones end the wait.
    void AddGenerated(int64_t n_tokens);
    // Sets how many tokens of the prompt were computed, and how many were found
    // in the cache. Without this call the prompt costs nothing.
    void SetPrompt(int64_t n_computed, int64_t n_cached);

   private:
    friend class QuotaBook;
    Hold(QuotaBook& book, Tenant& tenant, int64_t kv_bytes)
        : book_(book), tenant_(tenant), kv_bytes_(kv_bytes) {}

    QuotaBook& book_;
    // The book keeps all tenants. The book's mutex guards this and everything
    // below.
    Tenant& tenant_;
    const int64_t kv_bytes_;
    bool is_waiting_ = true;
    int64_t n_charged_ = 0;
    int64_t n_computed_ = 0;
    int64_t n_cached_ = 0;
    int64_t n_generated_ = 0;
  };

  // Without a path nobody has a limit. `usage` gets a receipt of each request
  // that ends, and counts refused requests. It outlives the book, and may be
  // null.
  // Errors: those of ReadQuotas.
  static absl::StatusOr<std::unique_ptr<QuotaBook>> Open(
      const std::string& path, std::function<absl::Time()> clock,
      UsageFile* usage = nullptr);

  // Charges the tokens of the request, but no more than may be taken at once.
  // Unused tokens are given back at the request's end, and so are prompt tokens
  // that were in the cache. A tenant that took more tokens than it was charged
  // for waits longer for its next request.
  // Errors: kResourceExhausted with details naming the limit, the amount in use
  // and the wanted amount; with a time to retry, unless the request can never
  // be admitted.
  absl::StatusOr<std::unique_ptr<Hold>> Admit(const Request& request)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The file for receipts; null if there are none.
  UsageFile* usage_file() const { return usage_; }

  // Returns the limits of a tenant as they are now.
  Quota QuotaOf(const std::string& tenant) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the usage of each tenant, by name.
  std::map<std::string, TenantUsage> Usage() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Tenant {
    // Refills the tokens.
    void Fill(const Quota& quota, absl::Time now);
    absl::Status Check(const Quota& quota, const Request& request) const;

    TenantUsage usage;
    int64_t n_requests = 0;  // now
    int64_t n_waiting = 0;   // requests that have no token yet
    int64_t kv_bytes = 0;    // contexts of all n_requests
    // Tokens that may be taken at `filled_at`; less than 0 after too many.
    double tokens = 0;
    absl::Time filled_at = absl::InfinitePast();
  };

  QuotaBook(const std::string& path, std::function<absl::Time()> clock,
            UsageFile* usage)
      : clock_(std::move(clock)), usage_(usage), watch_(path, clock_()) {}

  // Reads the file again if it was changed. The steps of engines lock mu_, so
  // it is not held during a wait for the disk.
  void Refresh(absl::Time now) ABSL_LOCKS_EXCLUDED(file_mu_, mu_);
  Tenant& Find(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(const Hold& hold) ABSL_LOCKS_EXCLUDED(mu_);

  const std::function<absl::Time()> clock_;
  UsageFile* const usage_;
  absl::Mutex file_mu_ ABSL_ACQUIRED_BEFORE(mu_);
  FileWatch watch_ ABSL_GUARDED_BY(file_mu_);
  absl::Mutex mu_;
  Quotas quotas_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Tenant> tenants_ ABSL_GUARDED_BY(mu_);
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_QUOTA_BOOK_H_
