#include "services/fetch/digest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::fetch {
namespace {

constexpr size_t kReadBytes = 1 << 20;

absl::Status ReadError(const std::string& path) {
  return absl::DataLossError(
      absl::StrCat("'", path, "' cannot be read: ", std::strerror(errno)));
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) { Reset(); }

void Sha256::Reset() {
  PLIMSOLL_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
                 "OpenSSL has SHA-256");
}

void Sha256::Update(absl::string_view bytes) {
  EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
}

absl::Status Sha256::UpdateFrom(const FileBytes& bytes,
                                const std::function<absl::Status()>& check) {
  std::vector<char> buffer(kReadBytes);
  int64_t at = bytes.begin;
  while (at < bytes.end) {
    RETURN_IF_ERROR(check());
    const auto wanted = static_cast<size_t>(
        std::min<int64_t>(bytes.end - at, static_cast<int64_t>(buffer.size())));
    const ssize_t n = pread(bytes.fd, buffer.data(), wanted, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ReadError(bytes.path);
    if (n == 0) {
      return absl::DataLossError(
          absl::StrCat("'", bytes.path, "' became shorter while it was read"));
    }
    Update({buffer.data(), static_cast<size_t>(n)});
    at += n;
  }
  return absl::OkStatus();
}

std::string Sha256::Hex() const {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> copy(
      EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int n = 0;
  PLIMSOLL_CHECK(EVP_MD_CTX_copy_ex(copy.get(), context_.get()) == 1 &&
                     EVP_DigestFinal_ex(copy.get(), bytes.data(), &n) == 1,
                 "a digest ends with its bytes");
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), n));
}

std::string TextDigest(absl::string_view text) {
  Sha256 hash;
  hash.Update(text);
  return hash.Hex();
}

absl::StatusOr<std::string> FileDigest(
    const std::string& path, const std::function<absl::Status()>& check) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return absl::NotFoundError(
        absl::StrCat("'", path, "': ", std::strerror(errno)));
  }
  const absl::Cleanup closer = [fd] { close(fd); };
  struct stat facts {};
  if (fstat(fd, &facts) != 0) return ReadError(path);
  Sha256 hash;
  RETURN_IF_ERROR(hash.UpdateFrom({fd, path, 0, facts.st_size}, check));
  return hash.Hex();
}

}  // namespace plimsoll::fetch
