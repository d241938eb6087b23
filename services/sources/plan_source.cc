#include "services/sources/plan_source.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/sources/config_json.h"
#include "worker/device/model_file.h"

namespace plimsoll::services {
namespace {

// Returns the config.json that `path` means, or empty if it means a GGUF file.
std::filesystem::path ConfigOf(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return path / "config.json";
  const std::string name = path.filename().string();
  if (absl::EndsWith(name, ".safetensors") ||
      absl::EndsWith(name, ".safetensors.index.json")) {
    return path.parent_path() / "config.json";
  }
  return absl::EndsWith(name, ".json") ? path : std::filesystem::path();
}

absl::StatusOr<planner::GgufHeader> ReadConfig(
    const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  // Reads one byte more than allowed, so that a longer file is refused, not
  // cut.
  std::string json(static_cast<size_t>(kMaxConfigBytes) + 1, '\0');
  file.read(json.data(), static_cast<std::streamsize>(json.size()));
  if (!file && !file.eof()) {
    return absl::NotFoundError(
        absl::StrCat("'", path.string(),
                     "' cannot be read; a model without a "
                     "GGUF file needs its config.json"));
  }
  json.resize(static_cast<size_t>(file.gcount()));
  return HeaderFromConfig(json);
}

}  // namespace

absl::StatusOr<PlanSource> OpenPlanSource(const std::string& path) {
  PlanSource source;
  const std::filesystem::path config = ConfigOf(path);
  if (!config.empty()) {
    ASSIGN_OR_RETURN(source.header, ReadConfig(config));
  } else {
    ASSIGN_OR_RETURN(source.header, worker::ModelFile::ReadHeader(path));
  }
  ASSIGN_OR_RETURN(source.shape, planner::ShapeFromGguf(source.header));
  return source;
}

}  // namespace plimsoll::services
