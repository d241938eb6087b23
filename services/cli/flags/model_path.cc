// Finds models: by a path, or by a name in the cache.
#include "services/cli/flags/model_path.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "planner/gguf/split_files.h"
#include "planner/layout/projector.h"
#include "services/cli/terminal/failure.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Returns an error about the model at `path` that says what to try.
absl::Status Explained(const std::string& path, const absl::Status& error) {
  absl::Status status = Prefixed(absl::StrCat(path, ": "), error);
  if (!absl::IsNotFound(status)) return status;
  return absl::NotFoundError(
      absl::StrCat(status.message(),
                   "\n  try: 'plimsoll models' lists those in the cache; "
                   "'plimsoll pull' or scripts/fetch_model.sh gets one"));
}

}  // namespace

std::string CacheDirectory() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') {
    return (fs::path(cache) / "plimsoll" / "models").string();
  }
  const char* home = std::getenv("HOME");
  return (fs::path(home != nullptr ? home : "") / ".cache" / "plimsoll" /
          "models")
      .string();
}

std::vector<std::string> CachedModels() { return ModelsIn(CacheDirectory()); }

std::vector<std::string> ModelsIn(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  const fs::directory_iterator end;
  while (!error && entry != end && paths.size() < kMaxCachedModels) {
    const fs::path& path = entry->path();
    if (path.extension() == ".gguf" &&
        !planner::IsLaterSplit(path.filename().string())) {
      paths.push_back(path.string());
    }
    entry.increment(error);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string ResolveModel(const std::string& model) {
  if (absl::StrContains(model, "/") || IsFile(model)) return model;
  for (const char* suffix : {"", ".gguf"}) {
    const fs::path cached =
        fs::path(CacheDirectory()) / absl::StrCat(model, suffix);
    if (!model.empty() && IsFile(cached)) return cached.string();
  }
  return model;
}

absl::StatusOr<std::unique_ptr<worker::ModelFile>> OpenModel(
    const std::string& model) {
  const std::string path = ResolveModel(model);
  auto file = worker::ModelFile::Open(path);
  if (file.ok()) return file;
  return Explained(path, file.status());
}

absl::StatusOr<std::unique_ptr<worker::Tokenizer>> OpenTokenizer(
    const std::string& model) {
  const std::string path = ResolveModel(model);
  const auto file = worker::ModelFile::OpenHeader(path);
  if (!file.ok()) return Explained(path, file.status());
  auto tokenizer = worker::LoadTokenizer((*file)->header(), **file);
  if (tokenizer.ok()) return tokenizer;
  return Explained(path, tokenizer.status());
}

absl::StatusOr<services::PlanSource> OpenPlannable(const std::string& model) {
  const std::string path = ResolveModel(model);
  auto source = services::OpenPlanSource(path);
  if (source.ok()) return source;
  return Explained(path, source.status());
}

absl::StatusOr<planner::ProjectorBytes> OpenProjector(const std::string& path) {
  const std::string resolved = ResolveModel(path);
  const auto header = worker::ModelFile::ReadHeader(resolved);
  if (!header.ok()) return Explained(resolved, header.status());
  auto bytes = planner::ProjectorFromGguf(*header);
  if (bytes.ok()) return bytes;
  return Explained(resolved, bytes.status());
}

}  // namespace plimsoll::cli
