#include "services/fetch/source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace plimsoll::fetch {
namespace {

constexpr char kRegistryForm[] =
    "oci://REGISTRY/REPOSITORY[:TAG|@sha256:DIGEST]";
constexpr char kHubForm[] = "hf:OWNER/REPOSITORY[:QUANT|/FILE.gguf][@REVISION]";

absl::Status BadSource(absl::string_view text, absl::string_view why,
                       absl::string_view form) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text.substr(0, 100), "': ", why, "; it should be ", form));
}

// One segment of a path: letters, digits, "-._", and no dots alone.
bool IsPathSegment(absl::string_view segment) {
  return !segment.empty() && segment != "." && segment != ".." &&
         std::ranges::all_of(segment, [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  c == '-' || c == '.' || c == '_';
         });
}

bool IsPath(absl::string_view path) {
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  return std::ranges::all_of(parts, IsPathSegment);
}

bool IsCommit(absl::string_view text) {
  return text.size() == 40 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

absl::StatusOr<PullSource> ParseRegistrySource(absl::string_view text) {
  PullSource source;
  source.kind = SourceKind::kRegistry;
  absl::string_view rest = absl::StripPrefix(text, "oci://");
  const size_t slash = rest.find('/');
  if (slash == 0 || slash == absl::string_view::npos) {
    return BadSource(text, "there is no repository", kRegistryForm);
  }
  source.registry = std::string(rest.substr(0, slash));
  if (const auto url = ParseUrl(absl::StrCat("https://", source.registry));
      !url.ok() || url->path != "/") {
    return BadSource(text, "the registry is no HOST or HOST:PORT",
                     kRegistryForm);
  }
  rest.remove_prefix(slash + 1);
  const size_t at = std::min(rest.find('@'), rest.size());
  const size_t colon = std::min(rest.find(':'), at);
  source.repository = std::string(rest.substr(0, colon));
  const absl::string_view tag = rest.substr(colon, at - colon);
  const absl::string_view digest = rest.substr(at);
  if (!IsPath(source.repository)) {
    return BadSource(text, "the repository has other characters",
                     kRegistryForm);
  }
  if (!digest.empty()) {
    if (!absl::StartsWith(digest, "@sha256:") || !IsSha256(digest.substr(8))) {
      return BadSource(text, "the digest is not sha256: and 64 digits of hex",
                       kRegistryForm);
    }
    source.reference = std::string(digest.substr(1));
    return source;
  }
  source.reference = tag.empty() ? "latest" : std::string(tag.substr(1));
  if (!IsPathSegment(source.reference) ||
      source.reference.size() > kMaxTagBytes) {
    return BadSource(text, "the tag has other characters", kRegistryForm);
  }
  return source;
}

absl::StatusOr<PullSource> ParseHubSource(absl::string_view text) {
  PullSource source;
  source.kind = SourceKind::kHub;
  absl::string_view rest = absl::StripPrefix(text, "hf:");
  const size_t at = rest.rfind('@');
  source.revision = "main";
  if (at != absl::string_view::npos) {
    source.revision = std::string(rest.substr(at + 1));
    rest = rest.substr(0, at);
    if (!IsPath(source.revision)) {
      return BadSource(text, "the revision has other characters", kHubForm);
    }
  }
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(rest, absl::MaxSplits(':', 1));
  if (absl::StrContains(rest, ":")) {
    source.quant = std::string(parts.second);
    if (!IsPathSegment(source.quant)) {
      return BadSource(text, "the quant has other characters", kHubForm);
    }
  }
  const std::vector<std::string> path =
      absl::StrSplit(parts.first, absl::MaxSplits('/', 2));
  if (path.size() < 2 || !IsPathSegment(path[0]) || !IsPathSegment(path[1])) {
    return BadSource(text, "there is no owner and repository", kHubForm);
  }
  source.repository = absl::StrCat(path[0], "/", path[1]);
  if (path.size() == 3) source.file = path[2];
  if (!source.file.empty() && !source.quant.empty()) {
    return BadSource(text, "a file and a quant are one too many", kHubForm);
  }
  if (path.size() == 3 &&
      (!IsPath(source.file) || !absl::EndsWith(source.file, ".gguf"))) {
    return BadSource(text, "the file is no path that ends in .gguf", kHubForm);
  }
  return source;
}

}  // namespace

bool PullSource::is_pinned() const {
  if (kind == SourceKind::kRegistry) {
    return absl::StartsWith(reference, "sha256:");
  }
  // The file of a URL is not asked for again; see docs/pull.md.
  return kind == SourceKind::kUrl || IsCommit(revision);
}

absl::StatusOr<PullSource> ParseSource(absl::string_view text) {
  if (text.empty() || text.size() > kMaxSourceBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a source has 1 to ", kMaxSourceBytes, " bytes: a URL, ",
                     kRegistryForm, " or ", kHubForm));
  }
  absl::StatusOr<PullSource> source = PullSource();
  if (absl::StartsWith(text, "oci://")) {
    source = ParseRegistrySource(text);
  } else if (absl::StartsWith(text, "hf:")) {
    source = ParseHubSource(text);
  } else if (absl::StrContains(text, "://")) {
    ASSIGN_OR_RETURN(source->url, ParseUrl(text));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text.substr(0, 100), "' is neither a URL nor ",
                     kRegistryForm, " nor ", kHubForm));
  }
  if (source.ok()) source->text = std::string(text);
  return source;
}

bool IsSha256(absl::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

absl::Status CheckFileName(absl::string_view name) {
  constexpr absl::string_view kOthers = "-._+ ()";
  const bool is_plain = std::ranges::all_of(name, [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::StrContains(kOthers, c);
  });
  if (is_plain && name.size() <= kMaxFileNameBytes &&
      !absl::StartsWith(name, ".") && !absl::StartsWith(name, "-") &&
      absl::EndsWith(name, ".gguf")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", name.substr(0, 100),
      "' is no name for a file of the cache, which "
      "has letters, digits, '-', '.', '_', '+', spaces and brackets, at most ",
      kMaxFileNameBytes, " of them, and ends in .gguf"));
}

}  // namespace plimsoll::fetch
