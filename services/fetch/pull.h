// Fetches a model from a server into the cache.
#ifndef PLIMSOLL_SERVICES_FETCH_PULL_H_
#define PLIMSOLL_SERVICES_FETCH_PULL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/fetch/download.h"

namespace plimsoll::fetch {

struct PullOptions {
  std::string source;     // as ParseSource reads it
  std::string cache;      // a folder; created if missing
  std::string name;       // the file's name in the cache; empty: the server's
  std::string sha256;     // SHA-256 that the file must have; empty: any
  std::string hub;        // the hub for "hf:"; empty: none
  std::string hub_token;  // for the hub only
  std::string token;      // for the source's server
  std::string ca_file;    // as TransportOptions
  std::string proxy;      // as TransportOptions
  bool allows_plain_http = false;
  bool is_offline = false;  // asks no server
  bool overwrites = false;  // fetches also cached files
  absl::Duration silence = absl::Seconds(60);
};

enum class PullState {
  kFetched,  // the file, or its rest, was fetched
  kCached,   // the cache had it
  kOffline,  // the cache had it, and no server could be asked
};

struct PulledFile {
  std::string name;
  std::string path;
  int64_t bytes = 0;
  std::string sha256;
};

struct PullReport {
  PullState state = PullState::kFetched;
  // True if the digests of the files were known before they were fetched.
  bool is_checked = false;
  std::vector<PulledFile> files;  // the first one is the model's name
};

// Fetches the files that the cache lacks. A file gets its name when it is
// complete, has its digest and has a readable GGUF header; of several files the
// first one gets its name last. Other processes that pull the same file wait
// for this one. Errors: kInvalidArgument for invalid options; those of
// ParseSource, FilesOfUrl, FilesOfRegistry, FilesOfHub and Download;
// kAlreadyExists if the cache has other bytes by this name; kNotFound if no
// server may be asked and the cache does not have it; kDataLoss for a wrong
// digest or header; kResourceExhausted if the disk has no room.
absl::StatusOr<PullReport> Pull(const PullOptions& options,
                                const FetchHooks& hooks);

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_PULL_H_
