#include "services/server/token_file.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "services/host/log.h"
#include "services/server/small_file.h"

namespace plimsoll::services {
namespace {

constexpr absl::string_view kScheme = "bearer ";

}  // namespace

absl::StatusOr<std::vector<TokenEntry>> ReadTokens(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadSmallFile(path, kMaxTokenListBytes));
  auto tokens = ParseTokenList(text);
  if (tokens.ok()) return tokens;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", tokens.status().message()));
}

absl::StatusOr<std::shared_ptr<TokenFile>> TokenFile::Open(
    const std::string& path, std::function<absl::Time()> clock) {
  std::shared_ptr<TokenFile> file(new TokenFile(path, std::move(clock)));
  absl::MutexLock lock(&file->mu_);
  ASSIGN_OR_RETURN(file->tokens_, ReadTokens(path));
  return file;
}

void TokenFile::Refresh(absl::Time now) {
  if (!watch_.HasChanged(now)) return;
  auto tokens = ReadTokens(watch_.path());
  if (!tokens.ok()) {
    Log(LogLevel::kError,
        "the file of tokens is bad; those that were read last stay valid",
        {{"error", std::string(tokens.status().message())}});
    return;
  }
  tokens_ = *std::move(tokens);
  Log(LogLevel::kInfo, "the file of tokens was read again",
      {{"tokens", tokens_.size()}});
}

std::optional<Identity> TokenFile::Find(absl::string_view authorization) {
  if (!absl::StartsWithIgnoreCase(authorization, kScheme)) return std::nullopt;
  const absl::string_view token =
      absl::StripAsciiWhitespace(authorization.substr(kScheme.size()));
  const absl::Time now = clock_();
  absl::MutexLock lock(&mu_);
  Refresh(now);
  const TokenEntry* entry = FindToken(tokens_, token);
  if (entry == nullptr || entry->expires <= now) return std::nullopt;
  Identity identity{entry->name, entry->tenant, entry->role};
  if (entry->role == Role::kWorker) {
    identity.lease_owner = absl::StrCat(kTokenOwnerPrefix, entry->name);
  }
  return identity;
}

}  // namespace plimsoll::services
