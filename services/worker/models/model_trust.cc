#include "services/worker/models/model_trust.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planner/gguf/split_files.h"
#include "services/fetch/digest.h"
#include "services/host/log.h"

namespace plimsoll::services {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

// Whether others than its owner may write to a file, or replace files of a
// folder.
bool IsChangeable(const fs::path& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return false;
  const bool is_sticky = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;
  return (info.st_mode & kOthersWrite) != 0 && !is_sticky;
}

void AddIfChangeable(const fs::path& path, std::vector<std::string>& names) {
  if (!IsChangeable(path)) return;
  const std::string name = path.filename().string();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    names.push_back(name);
  }
}

}  // namespace

absl::Status CheckDigest(worker::ModelFile& file, const ModelFlag& flag,
                         const worker::LoadFence& on_progress) {
  if (flag.sha256.empty()) return absl::OkStatus();
  const int64_t total = file.AllBytes();
  int64_t done = 0;
  fetch::Sha256 hash;
  RETURN_IF_ERROR(file.ReadAll([&](std::span<const std::byte> bytes)
                                   -> absl::Status {
    RETURN_IF_ERROR(on_progress({"verify", done, total}));
    hash.Update({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    done += static_cast<int64_t>(bytes.size());
    return absl::OkStatus();
  }));
  const std::string found = hash.Hex();
  if (found == flag.sha256) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("model ", flag.name, " has the SHA-256 ", found,
                   ", but --model names ", flag.sha256,
                   ": it is another file or a damaged one; get it again, or "
                   "correct the digest"));
}

std::vector<std::string> ChangeableByOthers(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  std::vector<fs::path> firsts = {fs::absolute(path, error)};
  const fs::path real = fs::canonical(path, error);
  if (!error && real != firsts.front()) firsts.push_back(real);
  for (const fs::path& first : firsts) {
    for (const std::string& name :
         planner::SplitNames(first.filename().string())) {
      AddIfChangeable(first.parent_path() / name, names);
    }
    AddIfChangeable(first, names);
    AddIfChangeable(first.parent_path(), names);
  }
  return names;
}

void WarnOfOthers(const ModelFlag& flag) {
  const std::vector<std::string> names = ChangeableByOthers(flag.path);
  if (names.empty()) return;
  Log(LogLevel::kWarning,
      "other users can change a model's file or its folder: take their right "
      "to write (chmod go-w)",
      {{"model", flag.name}, {"names", absl::StrJoin(names, ", ")}});
}

}  // namespace plimsoll::services
