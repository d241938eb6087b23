// Fetches one file into its partial file, and continues where an earlier
// transfer ended.
#ifndef PLIMSOLL_SERVICES_FETCH_DOWNLOAD_H_
#define PLIMSOLL_SERVICES_FETCH_DOWNLOAD_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/fetch/partial_file.h"
#include "services/fetch/session.h"
#include "services/fetch/url.h"

namespace plimsoll::fetch {

// A file at a server.
struct RemoteFile {
  std::string name;  // in the cache, checked
  Url url;
  int64_t bytes = -1;       // -1: unknown
  std::string sha256 = "";  // the expected digest; empty: unknown
};

// Longer files are refused.
inline constexpr int64_t kMaxRemoteFileBytes = int64_t{16} << 40;
// The most transfers in a row that may break off without a new byte.
inline constexpr int kMaxIdleAttempts = 4;

struct FetchHooks {
  // Called again and again; an error ends the work.
  std::function<absl::Status()> check;
  // Reports the progress of a file. `bytes_before` came in an earlier run;
  // `total` is -1 if it is unknown.
  std::function<void(const std::string& name, int64_t bytes_done, int64_t total,
                     int64_t bytes_before)>
      progress;
  // Tells a person that the work waits, or begins anew.
  std::function<void(const std::string& text)> note;
  absl::Duration first_pause = absl::Milliseconds(500);  // doubles
};

// Fetches the rest of `file` into `part`. A broken transfer is continued after
// a pause. Bytes of an earlier transfer are kept only if the server says that
// the file is the same (If-Range with a strong ETag), or if its digest is
// known. `file.bytes` and `file.sha256` are filled in from the server's
// replies. Errors: those of FetchSession::Get, StatusOfReply and PartialFile;
// kDataLoss if the server contradicts itself or if the file does not begin as a
// GGUF file.
absl::Status Download(FetchSession& session, RemoteFile& file,
                      PartialFile& partial, const FetchHooks& hooks);

// Compares the digest of a whole partial file with the one that `file` should
// have, if one is known, and fills in the digest. A wrong partial file is
// deleted. Errors: kDataLoss with both digests.
absl::Status CheckDigest(RemoteFile& file, PartialFile& partial,
                         const FetchHooks& hooks);

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_DOWNLOAD_H_
