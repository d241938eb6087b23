#include "services/generation/quota_book.h"

#include <algorithm>
#include <optional>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/generation/usage_file.h"
#include "services/host/log.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

double CapacityOf(const Quota& quota) {
  const int64_t rate = quota.tokens_per_second.value_or(0);
  return static_cast<double>(quota.burst_tokens.value_or(rate * kBurstSeconds));
}

// The tokens that a request is charged for at its beginning.
double ChargeOf(const Quota& quota, const QuotaBook::Request& request) {
  return std::min(static_cast<double>(request.n_prompt + request.n_reply),
                  CapacityOf(quota));
}

}  // namespace

absl::Status QuotaRefusal(const PassedLimit& passed) {
  return WithDetails(
      absl::ResourceExhaustedError(absl::StrCat(
          "the tenant's quota of ", passed.limit, " is ", passed.most, ": ",
          passed.taken, " are taken and ", passed.wanted, " more are wanted",
          passed.retry.has_value() ? "" : ", which never fits")),
      {v1::ERROR_REASON_QUOTA_EXCEEDED,
       {{"quota", std::string(passed.limit)},
        {"limit", absl::StrCat(passed.most)},
        {"taken", absl::StrCat(passed.taken)},
        {"wanted", absl::StrCat(passed.wanted)}},
       passed.retry});
}

void QuotaBook::Tenant::Fill(const Quota& quota, absl::Time now) {
  if (!quota.tokens_per_second.has_value()) return;
  const double capacity = CapacityOf(quota);
  const double seconds = absl::ToDoubleSeconds(now - filled_at);
  const auto rate = static_cast<double>(*quota.tokens_per_second);
  filled_at = now;
  tokens = seconds * rate >= capacity - tokens
               ? capacity
               : tokens + std::max(seconds, 0.0) * rate;
}

absl::Status QuotaBook::Tenant::Check(const Quota& quota,
                                      const Request& request) const {
  if (quota.requests.has_value() && n_requests >= *quota.requests) {
    return QuotaRefusal({"requests", *quota.requests, n_requests, 1});
  }
  if (quota.waiting.has_value() && n_waiting >= *quota.waiting) {
    return QuotaRefusal({"waiting", *quota.waiting, n_waiting, 1});
  }
  if (quota.kv_bytes.has_value() &&
      kv_bytes + request.kv_bytes > *quota.kv_bytes) {
    PassedLimit passed = {"kv_bytes", *quota.kv_bytes, kv_bytes,
                          request.kv_bytes};
    if (request.kv_bytes > *quota.kv_bytes) passed.retry = std::nullopt;
    return QuotaRefusal(passed);
  }
  const double charge = ChargeOf(quota, request);
  if (quota.tokens_per_second.has_value() && tokens < charge) {
    const double capacity = CapacityOf(quota);
    const auto rate = static_cast<double>(*quota.tokens_per_second);
    return QuotaRefusal({"tokens_per_second", *quota.tokens_per_second,
                         static_cast<int64_t>(capacity - tokens),
                         static_cast<int64_t>(charge),
                         absl::Seconds((charge - tokens) / rate)});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<QuotaBook>> QuotaBook::Open(
    const std::string& path, std::function<absl::Time()> clock,
    UsageFile* usage) {
  auto book = absl::WrapUnique(new QuotaBook(path, std::move(clock), usage));
  if (path.empty()) return book;
  absl::MutexLock lock(&book->mu_);
  ASSIGN_OR_RETURN(book->quotas_, ReadQuotas(path));
  return book;
}

void QuotaBook::Refresh(absl::Time now) {
  absl::MutexLock file_lock(&file_mu_);
  if (watch_.path().empty() || !watch_.HasChanged(now)) return;
  auto quotas = ReadQuotas(watch_.path());
  if (!quotas.ok()) {
    Log(LogLevel::kError,
        "the file of quotas is bad; those that were read last stay valid",
        {{"error", std::string(quotas.status().message())}});
    return;
  }
  Log(LogLevel::kInfo, "the file of quotas was read again",
      {{"tenants", quotas->tenants.size()}});
  absl::MutexLock lock(&mu_);
  quotas_ = *std::move(quotas);
}

QuotaBook::Tenant& QuotaBook::Find(const std::string& name) {
  const auto found = tenants_.find(name);
  if (found != tenants_.end()) return found->second;
  return tenants_[tenants_.size() < kMaxTenants ? name : kOtherTenants];
}

absl::StatusOr<std::unique_ptr<QuotaBook::Hold>> QuotaBook::Admit(
    const Request& request) {
  const absl::Time now = clock_();
  Refresh(now);
  absl::MutexLock lock(&mu_);
  const Quota& quota = quotas_.Of(request.tenant);
  Tenant& tenant = Find(request.tenant);
  tenant.Fill(quota, now);
  if (!request.is_admitted) {
    const absl::Status status = tenant.Check(quota, request);
    if (!status.ok()) {
      ++tenant.usage.refused;
      if (usage_ != nullptr) usage_->AddRefused(request.tenant);
      return status;
    }
  }
  ++tenant.usage.requests;
  ++tenant.n_requests;
  ++tenant.n_waiting;
  tenant.kv_bytes += request.kv_bytes;
  auto hold = absl::WrapUnique(new Hold(*this, tenant, request.kv_bytes));
  if (quota.tokens_per_second.has_value()) {
    hold->n_charged_ = static_cast<int64_t>(ChargeOf(quota, request));
    tenant.tokens -= static_cast<double>(hold->n_charged_);
  }
  return hold;
}

Quota QuotaBook::QuotaOf(const std::string& tenant) {
  Refresh(clock_());
  absl::MutexLock lock(&mu_);
  return quotas_.Of(tenant);
}

std::map<std::string, TenantUsage> QuotaBook::Usage() {
  absl::MutexLock lock(&mu_);
  std::map<std::string, TenantUsage> usage;
  for (const auto& [name, tenant] : tenants_) usage[name] = tenant.usage;
  return usage;
}

void QuotaBook::End(const Hold& hold) {
  absl::MutexLock lock(&mu_);
  Tenant& tenant = hold.tenant_;
  --tenant.n_requests;
  if (hold.is_waiting_) --tenant.n_waiting;
  tenant.kv_bytes -= hold.kv_bytes_;
  tenant.usage.prompt_tokens += hold.n_computed_;
  tenant.usage.cached_tokens += hold.n_cached_;
  if (hold.n_charged_ == 0) return;
  const int64_t n_used = hold.n_computed_ + hold.n_generated_;
  tenant.tokens += static_cast<double>(hold.n_charged_ - n_used);
}

QuotaBook::Hold::~Hold() { book_.End(*this); }

void QuotaBook::Hold::AddGenerated(int64_t n_tokens) {
  if (n_tokens == 0) return;
  absl::MutexLock lock(&book_.mu_);
  if (is_waiting_) --tenant_.n_waiting;
  is_waiting_ = false;
  n_generated_ += n_tokens;
  tenant_.usage.generated_tokens += n_tokens;
}

void QuotaBook::Hold::SetPrompt(int64_t n_computed, int64_t n_cached) {
  absl::MutexLock lock(&book_.mu_);
  n_computed_ = n_computed;
  n_cached_ = n_cached;
}

}  // namespace plimsoll::services
