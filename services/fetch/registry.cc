#include "services/fetch/registry.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "services/fetch/digest.h"
#include "services/server/access/listen_address.h"

namespace plimsoll::fetch {
namespace {

constexpr char kTitle[] = "org.opencontainers.image.title";
constexpr char kManifestTypes[] =
    "Accept: application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.oci.image.index.v1+json, "
    "application/vnd.docker.distribution.manifest.v2+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json";
constexpr size_t kMaxNamedLayers = 8;  // in an error

std::string TextOfMember(const nlohmann::json& json, const char* name) {
  if (!json.is_object() || !json.contains(name) || !json[name].is_string()) {
    return "";
  }
  return json[name].get<std::string>();
}

// The title that a layer's annotations have.
std::string TitleOf(const nlohmann::json& layer) {
  if (!layer.is_object() || !layer.contains("annotations")) return "";
  return TextOfMember(layer["annotations"], kTitle);
}

// Registries of models name such layers in three ways.
bool IsModelLayer(const nlohmann::json& layer) {
  const std::string type = TextOfMember(layer, "mediaType");
  return absl::EndsWithIgnoreCase(TitleOf(layer), ".gguf") ||
         absl::StrContains(type, "gguf") ||
         type == "application/vnd.ollama.image.model";
}

// The name of a layer without a good title: the repository's and the tag's.
std::string NameOfLayer(const PullSource& source, const nlohmann::json& layer) {
  const std::string title = TitleOf(layer);
  std::string last = title.substr(title.rfind('/') + 1);
  if (CheckFileName(last).ok()) return last;
  const std::string& whole = source.repository;
  const std::string version =
      source.is_pinned() ? source.reference.substr(7, 12) : source.reference;
  return absl::StrCat(whole.substr(whole.rfind('/') + 1), "-", version,
                      ".gguf");
}

absl::StatusOr<RemoteFile> FileOfLayer(const PullSource& source,
                                       const Url& registry,
                                       const nlohmann::json& layer) {
  const std::string digest = TextOfMember(layer, "digest");
  const std::string hex(absl::StripPrefix(digest, "sha256:"));
  if (digest.size() != hex.size() + 7 || !IsSha256(hex)) {
    return absl::DataLossError(
        absl::StrCat("the manifest has a layer whose digest is not sha256: '",
                     digest.substr(0, 100), "'"));
  }
  if (!layer.contains("size") || !layer["size"].is_number_integer() ||
      layer["size"].get<int64_t>() < 0) {
    return absl::DataLossError("the manifest has a layer without a size");
  }
  RemoteFile file;
  file.name = NameOfLayer(source, layer);
  file.url = registry;
  file.url.path = absl::StrCat("/v2/", source.repository, "/blobs/", digest);
  file.bytes = layer["size"].get<int64_t>();
  file.sha256 = hex;
  return file;
}

// What a manifest has instead of a model.
std::string LayerTypes(const nlohmann::json& layers) {
  std::vector<std::string> types;
  for (const nlohmann::json& layer : layers) {
    if (types.size() == kMaxNamedLayers) break;
    types.push_back(TextOfMember(layer, "mediaType").substr(0, 100));
  }
  return types.empty() ? "none" : absl::StrJoin(types, ", ");
}

absl::StatusOr<nlohmann::json> ParseManifest(absl::string_view text) {
  nlohmann::json json =
      nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::DataLossError("the registry's manifest is no JSON object");
  }
  return json;
}

// The digest of the one manifest that an index has; empty if `json` is none.
absl::StatusOr<std::string> OnlyManifest(const nlohmann::json& json) {
  if (!json.contains("manifests")) return std::string();
  if (!json["manifests"].is_array() || json["manifests"].size() != 1) {
    return absl::InvalidArgumentError(
        "the registry has several manifests for this name; choose one by its "
        "digest (@sha256:...)");
  }
  const std::string digest = TextOfMember(json["manifests"][0], "digest");
  if (!absl::StartsWith(digest, "sha256:") || !IsSha256(digest.substr(7))) {
    return absl::DataLossError("the registry's index names no sha256 digest");
  }
  return digest;
}

// The text of a manifest, which has the digest that it was asked for by.
absl::StatusOr<std::string> FetchManifest(FetchSession& session,
                                          const PullSource& source,
                                          const Url& registry,
                                          const std::string& reference) {
  Url url = registry;
  url.path = absl::StrCat("/v2/", source.repository, "/manifests/", reference);
  ASSIGN_OR_RETURN(
      FetchSession::Document document,
      session.GetDocument(
          url, {kManifestTypes}, kMaxManifestBytes,
          absl::StrCat("the manifest of ", source.text.substr(0, 200))));
  const absl::string_view wanted = absl::StripPrefix(reference, "sha256:");
  const std::string digest = TextDigest(document.body);
  if (wanted.size() < reference.size() && wanted != digest) {
    return absl::DataLossError(
        absl::StrCat("the manifest came with the SHA-256 ", digest,
                     ", but should have ", wanted));
  }
  return std::move(document.body);
}

}  // namespace

absl::StatusOr<Url> RegistryUrl(const PullSource& source, bool is_tls,
                                bool allows_plain) {
  ASSIGN_OR_RETURN(Url url,
                   ParseUrl(absl::StrCat("https://", source.registry)));
  if (!is_tls && (allows_plain || services::IsLoopback(url.host)))
    url.scheme = "http";
  return url;
}

absl::StatusOr<std::vector<RemoteFile>> FilesOfManifest(
    const PullSource& source, const Url& registry, absl::string_view manifest,
    const std::string& name) {
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseManifest(manifest));
  if (!json.contains("layers") || !json["layers"].is_array() ||
      json["layers"].size() > kMaxLayers) {
    return absl::DataLossError("the registry's manifest has no list of layers");
  }
  std::vector<RemoteFile> files;
  std::set<std::string> names;
  for (const nlohmann::json& layer : json["layers"]) {
    if (!layer.is_object() || !IsModelLayer(layer)) continue;
    ASSIGN_OR_RETURN(RemoteFile file, FileOfLayer(source, registry, layer));
    if (!names.insert(file.name).second) {
      return absl::DataLossError(absl::StrCat(
          "the manifest has two layers with the name '", file.name, "'"));
    }
    files.push_back(std::move(file));
  }
  if (files.empty()) {
    return absl::NotFoundError(
        absl::StrCat("the manifest has no GGUF file; the types of its layers: ",
                     LayerTypes(json["layers"])));
  }
  // A projector goes with a model, which is named first.
  std::ranges::sort(files, {}, [](const RemoteFile& file) {
    return std::pair(absl::StartsWithIgnoreCase(file.name, "mmproj"),
                     file.name);
  });
  if (files.size() == 1 && !name.empty()) files.front().name = name;
  for (const RemoteFile& file : files) {
    RETURN_IF_ERROR(CheckFileName(file.name));
  }
  return files;
}

absl::StatusOr<std::vector<RemoteFile>> FilesOfRegistry(
    FetchSession& session, const PullSource& source, const Url& registry,
    const std::string& name) {
  ASSIGN_OR_RETURN(std::string manifest,
                   FetchManifest(session, source, registry, source.reference));
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseManifest(manifest));
  ASSIGN_OR_RETURN(const std::string digest, OnlyManifest(json));
  if (!digest.empty()) {
    ASSIGN_OR_RETURN(manifest,
                     FetchManifest(session, source, registry, digest));
  }
  return FilesOfManifest(source, registry, manifest, name);
}

}  // namespace plimsoll::fetch
