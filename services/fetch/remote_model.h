// Finds the files that a source means, by asking a registry or a hub, or by a
// URL's name.
#ifndef PLIMSOLL_SERVICES_FETCH_REMOTE_MODEL_H_
#define PLIMSOLL_SERVICES_FETCH_REMOTE_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/fetch/download.h"
#include "services/fetch/session.h"
#include "services/fetch/source.h"

namespace plimsoll::fetch {

// A registry's manifest, and a hub's list of files.
inline constexpr size_t kMaxManifestBytes = 4 << 20;
inline constexpr size_t kMaxListBytes = 16 << 20;
inline constexpr size_t kMaxLayers = 4'096;
inline constexpr size_t kMaxListedFiles = 100'000;

// The file of a URL, or all parts if it is the first of several.
// Errors: kInvalidArgument if the name is not CheckFileName's and `name` is
// empty, or if it is that of a later part.
absl::StatusOr<std::vector<RemoteFile>> FilesOfUrl(const PullSource& source,
                                                   const std::string& name);

// The URL of a registry's server: HTTP on loopback unless `is_tls`, or if
// `allows_plain`.
absl::StatusOr<Url> RegistryUrl(const PullSource& source, bool is_tls,
                                bool allows_plain);

// The layers of a manifest that are GGUF files, by title or type of media.
// `manifest` is JSON of `url`, a registry's.
// Errors: kDataLoss if it is no manifest; kNotFound if it has no such layer,
// naming those that it has.
absl::StatusOr<std::vector<RemoteFile>> FilesOfManifest(
    const PullSource& source, const Url& registry, absl::string_view manifest,
    const std::string& name);

// Asks a registry for the manifest and returns FilesOfManifest.
// Errors: those of FetchSession and FilesOfManifest; kDataLoss if the manifest
// has not the digest of the source.
absl::StatusOr<std::vector<RemoteFile>> FilesOfRegistry(
    FetchSession& session, const PullSource& source, const Url& registry,
    const std::string& name);

// The files that a hub's list, JSON, has for the source.
// Errors: kDataLoss if it is no list; kNotFound if nothing fits; both name what
// there is. kInvalidArgument if several models fit.
absl::StatusOr<std::vector<RemoteFile>> FilesOfList(const PullSource& source,
                                                    const Url& hub,
                                                    absl::string_view list,
                                                    const std::string& name);

// Asks a hub for the repository's files and returns FilesOfList.
// Errors: those of FetchSession and FilesOfList.
absl::StatusOr<std::vector<RemoteFile>> FilesOfHub(FetchSession& session,
                                                   const PullSource& source,
                                                   const Url& hub,
                                                   const std::string& name);

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_REMOTE_MODEL_H_
