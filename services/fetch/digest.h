// SHA-256 of texts and files.
#ifndef PLIMSOLL_SERVICES_FETCH_DIGEST_H_
#define PLIMSOLL_SERVICES_FETCH_DIGEST_H_

#include <openssl/evp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::fetch {

// The bytes [begin, end) of the file `path`, which is open as `fd`.
struct FileBytes {
  int fd;
  const std::string& path;
  int64_t begin;
  int64_t end;
};

// Takes bytes piece by piece.
class Sha256 {
 public:
  Sha256();

  void Update(absl::string_view bytes);
  // Takes the bytes of a file, and calls `check` in between. Errors: kDataLoss;
  // those of `check`.
  absl::Status UpdateFrom(const FileBytes& bytes,
                          const std::function<absl::Status()>& check);
  void Reset();
  // The digest of all bytes so far, as 64 digits of hex.
  std::string Hex() const;

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

// The digest of a text as hex.
std::string TextDigest(absl::string_view text);

// The digest of a file as hex; `check` is called in between.
// Errors: kNotFound; those of Sha256::UpdateFrom.
absl::StatusOr<std::string> FileDigest(
    const std::string& path, const std::function<absl::Status()>& check);

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_DIGEST_H_
