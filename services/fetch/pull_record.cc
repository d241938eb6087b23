#include "services/fetch/pull_record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "services/fetch/digest.h"
#include "services/fetch/source.h"

namespace plimsoll::fetch {
namespace {

constexpr size_t kMaxRecordBytes = 256 << 10;

std::string RecordPath(const std::string& cache, absl::string_view source) {
  return absl::StrCat(cache, "/.pulls/", TextDigest(source), ".json");
}

int64_t ModifiedNs(const struct stat& facts) {
  return int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

// One file of a record; nothing if it is none of ours.
std::optional<RecordedFile> ReadFile(const nlohmann::json& json) {
  if (!json.is_object()) return std::nullopt;
  RecordedFile file;
  for (const auto& [key, value] : json.items()) {
    if (value.is_string()) {
      if (key == "name") file.name = value.get<std::string>();
      if (key == "sha256") file.sha256 = value.get<std::string>();
    } else if (value.is_number_integer()) {
      if (key == "bytes") file.bytes = value.get<int64_t>();
      if (key == "modified_ns") file.modified_ns = value.get<int64_t>();
    }
  }
  if (!CheckFileName(file.name).ok() || !IsSha256(file.sha256)) {
    return std::nullopt;
  }
  return file;
}

}  // namespace

std::vector<RecordedFile> ReadRecord(const std::string& cache,
                                     absl::string_view source) {
  std::ifstream file(RecordPath(cache, source), std::ios::binary);
  std::string text(kMaxRecordBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  const nlohmann::json json =
      nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<RecordedFile> files;
  if (!json.is_object() || !json.contains("files") ||
      !json["files"].is_array() || json["files"].size() > kMaxPullFiles) {
    return files;
  }
  for (const nlohmann::json& entry : json["files"]) {
    std::optional<RecordedFile> found = ReadFile(entry);
    if (!found.has_value()) return {};
    files.push_back(*std::move(found));
  }
  return files;
}

absl::Status WriteRecord(const std::string& cache, absl::string_view source,
                         const std::vector<RecordedFile>& files) {
  nlohmann::json json;
  json["files"] = nlohmann::json::array();
  for (const RecordedFile& file : files) {
    json["files"].push_back({{"name", file.name},
                             {"bytes", file.bytes},
                             {"sha256", file.sha256},
                             {"modified_ns", file.modified_ns}});
  }
  const std::string path = RecordPath(cache, source);
  const std::string hidden = absl::StrCat(path, ".", getpid());
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(),
                                      error);
  std::ofstream file(hidden, std::ios::binary | std::ios::trunc);
  file << json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace)
       << "\n"
       << std::flush;
  if (!file.good() || std::rename(hidden.c_str(), path.c_str()) != 0) {
    unlink(hidden.c_str());
    return absl::FailedPreconditionError(
        absl::StrCat("'", path, "' cannot be written"));
  }
  return absl::OkStatus();
}

absl::StatusOr<RecordedFile> RecordOf(const std::string& cache,
                                      const std::string& name,
                                      const std::string& sha256) {
  struct stat facts {};
  const std::string path = absl::StrCat(cache, "/", name);
  if (stat(path.c_str(), &facts) != 0) {
    return absl::NotFoundError(absl::StrCat("'", path, "' is not there"));
  }
  return RecordedFile{name, facts.st_size, sha256, ModifiedNs(facts)};
}

absl::StatusOr<std::string> CachedDigest(
    const std::string& cache, const std::string& name,
    const std::vector<RecordedFile>& record,
    const std::function<absl::Status()>& check) {
  for (const RecordedFile& file : record) {
    if (file.name != name) continue;
    const auto now = RecordOf(cache, name, file.sha256);
    if (now.ok() && *now == file) return file.sha256;
  }
  return FileDigest(absl::StrCat(cache, "/", name), check);
}

}  // namespace plimsoll::fetch
