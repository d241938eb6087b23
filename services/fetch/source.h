// The source of a model to pull, as a user writes it.
#ifndef PLIMSOLL_SERVICES_FETCH_SOURCE_H_
#define PLIMSOLL_SERVICES_FETCH_SOURCE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/fetch/url.h"

namespace plimsoll::fetch {

enum class SourceKind { kUrl, kRegistry, kHub };

// One of three forms:
//   https://HOST/PATH/FILE.gguf
//   oci://REGISTRY/REPOSITORY[:TAG|@sha256:DIGEST]
//   hf:OWNER/REPOSITORY[:QUANT|/FILE.gguf][@REVISION]
struct PullSource {
  SourceKind kind = SourceKind::kUrl;
  std::string text;        // the original text
  Url url;                 // only for kUrl
  std::string registry;    // HOST or HOST:PORT
  std::string repository;  // name in a registry, or OWNER/REPOSITORY of a hub
  std::string reference;   // a tag (default "latest") or "sha256:..."
  std::string quant;       // for a hub: "Q4_K_M"; empty if none is named
  std::string file;        // for a hub: a path; empty if none is named
  std::string revision;    // for a hub: a branch, tag or commit ("main")

  // True if the source always means the same bytes.
  bool is_pinned() const;
};

// Errors: kInvalidArgument that shows the form and names the part that does not
// fit.
absl::StatusOr<PullSource> ParseSource(absl::string_view text);

// True for 64 digits of hex in lower case.
bool IsSha256(absl::string_view text);

inline constexpr size_t kMaxSourceBytes = 1'024;
inline constexpr size_t kMaxTagBytes = 128;
inline constexpr size_t kMaxFileNameBytes = 200;

// Checks a name for a file of the cache. A good name cannot leave the cache's
// folder, is not hidden, and is safe to print.
// Errors: kInvalidArgument if it does not end in ".gguf", is longer than
// kMaxFileNameBytes, begins with a dot, or has other characters than letters,
// digits and "-._+ ()".
absl::Status CheckFileName(absl::string_view name);

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_SOURCE_H_
