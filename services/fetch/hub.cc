#include "services/fetch/hub.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "planner/gguf/split_files.h"

namespace plimsoll::fetch {
namespace {

constexpr size_t kMaxNamedModels = 16;  // in an error

// The list's files by path.
using FileMap = std::map<std::string, RemoteFile>;

std::string LastOf(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// True if a part of `name` is the quant: "model-Q4_K_M.gguf" has Q4_K_M, and
// neither Q4_K nor K_M.
bool HasQuant(absl::string_view name, absl::string_view quant) {
  const std::string lower = absl::AsciiStrToLower(name);
  const std::string wanted = absl::AsciiStrToLower(quant);
  const auto is_word = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c));
  };
  for (size_t at = lower.find(wanted); at != std::string::npos;
       at = lower.find(wanted, at + 1)) {
    const size_t end = at + wanted.size();
    const bool begins = at == 0 || !is_word(lower[at - 1]);
    const bool ends =
        end == lower.size() || (!is_word(lower[end]) && lower[end] != '_');
    if (begins && ends) return true;
  }
  return false;
}

// Files that go with a model and are none.
bool IsModelFile(const std::string& path) {
  const std::string name = LastOf(path);
  return absl::EndsWith(name, ".gguf") && !planner::IsLaterSplit(name) &&
         !absl::StartsWithIgnoreCase(name, "mmproj");
}

absl::StatusOr<FileMap> ReadFiles(const PullSource& source, const Url& hub,
                                  const nlohmann::json& list) {
  if (!list.is_object() || !list.contains("siblings") ||
      !list["siblings"].is_array() ||
      list["siblings"].size() > kMaxListedFiles) {
    return absl::DataLossError("the hub's answer is no list of files");
  }
  const auto text = [](const nlohmann::json& json, const char* name) {
    return json.is_object() && json.contains(name) && json[name].is_string()
               ? json[name].get<std::string>()
               : std::string();
  };
  // The commit, so that a change meanwhile is not mixed in.
  std::string revision = text(list, "sha");
  if (revision.size() != 40) revision = source.revision;
  FileMap files;
  for (const nlohmann::json& entry : list["siblings"]) {
    const std::string path = text(entry, "rfilename");
    if (!absl::EndsWith(path, ".gguf")) continue;
    RemoteFile file;
    file.name = LastOf(path);
    file.url = hub;
    absl::StrAppend(&file.url.path, source.repository, "/resolve/",
                    PercentEncode(revision), "/", PercentEncodePath(path));
    if (entry.contains("size") && entry["size"].is_number_integer()) {
      file.bytes = std::max<int64_t>(entry["size"].get<int64_t>(), -1);
    }
    if (entry.contains("lfs")) file.sha256 = text(entry["lfs"], "sha256");
    if (!IsSha256(file.sha256)) file.sha256.clear();
    files.emplace(path, std::move(file));
  }
  return files;
}

// What a person can choose from.
std::string Choices(const std::vector<std::string>& paths) {
  std::vector<std::string> shown = paths;
  if (shown.size() > kMaxNamedModels) {
    shown.resize(kMaxNamedModels);
    shown.push_back("...");
  }
  return absl::StrJoin(shown, "\n  ");
}

// The path of the one model that the source means.
absl::StatusOr<std::string> ChooseModel(const PullSource& source,
                                        const FileMap& files) {
  if (!source.file.empty()) {
    if (planner::IsLaterSplit(LastOf(source.file))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", source.file, "' is one of several files; name the first"));
    }
    if (files.contains(source.file)) return source.file;
  }
  std::vector<std::string> models;
  std::vector<std::string> fitting;
  for (const auto& [path, file] : files) {
    if (!IsModelFile(path)) continue;
    models.push_back(path);
    if (source.quant.empty() || HasQuant(LastOf(path), source.quant)) {
      fitting.push_back(path);
    }
  }
  if (source.file.empty() && fitting.size() == 1) return fitting.front();
  if (models.empty()) {
    return absl::NotFoundError(
        absl::StrCat(source.repository, " has no GGUF file"));
  }
  if (!source.file.empty() || fitting.empty()) {
    return absl::NotFoundError(
        absl::StrCat(source.repository, " has no ",
                     source.file.empty() ? source.quant : source.file,
                     "; it has\n  ", Choices(models)));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      source.repository,
      " has several such models; name one as hf:", source.repository,
      "/FILE or hf:", source.repository, ":QUANT\n  ", Choices(fitting)));
}

}  // namespace

absl::StatusOr<std::vector<RemoteFile>> FilesOfList(const PullSource& source,
                                                    const Url& hub,
                                                    absl::string_view list,
                                                    const std::string& name) {
  const nlohmann::json json =
      nlohmann::json::parse(list, nullptr, /*allow_exceptions=*/false);
  ASSIGN_OR_RETURN(FileMap files, ReadFiles(source, hub, json));
  ASSIGN_OR_RETURN(const std::string path, ChooseModel(source, files));
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  std::vector<std::string> names = planner::SplitNames(LastOf(path));
  if (names.empty()) names = {LastOf(path)};
  std::vector<RemoteFile> chosen;
  for (const std::string& part : names) {
    const std::string wanted = absl::StrCat(folder, part);
    const auto found = files.find(wanted);
    if (found == files.end()) {
      return absl::NotFoundError(absl::StrCat(
          source.repository, " lacks '", wanted, "', a part of the model"));
    }
    chosen.push_back(found->second);
  }
  if (chosen.size() == 1 && !name.empty()) chosen.front().name = name;
  for (const RemoteFile& file : chosen) {
    RETURN_IF_ERROR(CheckFileName(file.name));
  }
  return chosen;
}

absl::StatusOr<std::vector<RemoteFile>> FilesOfHub(FetchSession& session,
                                                   const PullSource& source,
                                                   const Url& hub,
                                                   const std::string& name) {
  Url url = hub;
  absl::StrAppend(&url.path, "api/models/", source.repository, "/revision/",
                  PercentEncode(source.revision), "?blobs=true");
  ASSIGN_OR_RETURN(
      const FetchSession::Document document,
      session.GetDocument(url, {}, kMaxListBytes, source.text.substr(0, 200)));
  return FilesOfList(source, hub, document.body, name);
}

}  // namespace plimsoll::fetch
