// Records the source of pulled files, so that the cache can answer without a
// server.
#ifndef PLIMSOLL_SERVICES_FETCH_PULL_RECORD_H_
#define PLIMSOLL_SERVICES_FETCH_PULL_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::fetch {

// The files of one pull.
inline constexpr size_t kMaxPullFiles = 256;

struct RecordedFile {
  std::string name;
  int64_t bytes = 0;
  std::string sha256;
  int64_t modified_ns = 0;  // the file's time when it was recorded

  bool operator==(const RecordedFile&) const = default;
};

// Records are in the cache's hidden folder ".pulls", one for each source. The
// source's digest is the record's name, because a URL may have secrets in its
// query.
// Returns the files that were pulled from `source`: none if there is no record,
// or if it cannot be read.
std::vector<RecordedFile> ReadRecord(const std::string& cache,
                                     absl::string_view source);
// Errors: kFailedPrecondition if it cannot be written.
absl::Status WriteRecord(const std::string& cache, absl::string_view source,
                         const std::vector<RecordedFile>& files);

// The file's present state, with the given digest.
// Errors: kNotFound if there is no such file.
absl::StatusOr<RecordedFile> RecordOf(const std::string& cache,
                                      const std::string& name,
                                      const std::string& sha256);

// The digest of the cache's file `name`: the recorded digest if size and time
// still equal the record's, else the digest of its bytes.
// Errors: those of FileDigest.
absl::StatusOr<std::string> CachedDigest(
    const std::string& cache, const std::string& name,
    const std::vector<RecordedFile>& record,
    const std::function<absl::Status()>& check);

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_PULL_RECORD_H_
