// Finds the files of a registry's manifest (OCI distribution and image
// specifications, 1.1).
#ifndef PLIMSOLL_SERVICES_FETCH_REGISTRY_H_
#define PLIMSOLL_SERVICES_FETCH_REGISTRY_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/fetch/download.h"
#include "services/fetch/session.h"
#include "services/fetch/source.h"

namespace plimsoll::fetch {

// The most bytes of a manifest.
inline constexpr size_t kMaxManifestBytes = 4 << 20;
inline constexpr size_t kMaxLayers = 4'096;

// The URL of a registry's server: HTTP on loopback unless `is_tls`, or if
// `allows_plain`.
absl::StatusOr<Url> RegistryUrl(const PullSource& source, bool is_tls,
                                bool allows_plain);

// The layers of a manifest that are GGUF files, by title or type of media.
// `manifest` is JSON of `url`, a registry's.
// Errors: kDataLoss if it is no manifest; kNotFound if it has no such layer,
// naming its layers.
absl::StatusOr<std::vector<RemoteFile>> FilesOfManifest(
    const PullSource& source, const Url& registry, absl::string_view manifest,
    const std::string& name);

// Asks a registry for the manifest and returns FilesOfManifest.
// Errors: those of FetchSession and FilesOfManifest; kDataLoss if the manifest
// does not have the digest of the source.
absl::StatusOr<std::vector<RemoteFile>> FilesOfRegistry(
    FetchSession& session, const PullSource& source, const Url& registry,
    const std::string& name);

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_REGISTRY_H_
