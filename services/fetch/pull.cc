#include "services/fetch/pull.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_reader.h"
#include "planner/gguf/split_files.h"
#include "services/fetch/hub.h"
#include "services/fetch/pull_record.h"
#include "services/fetch/registry.h"
#include "services/fetch/remote_model.h"
#include "services/fetch/source.h"
#include "worker/device/open_file.h"

namespace plimsoll::fetch {
namespace {

namespace fs = std::filesystem;

// One file on its way: its partial file, or nothing if the cache has it.
struct FileOnTheWay {
  RemoteFile file;
  std::unique_ptr<PartialFile> partial;
};

// The work of one call of Pull.
class Puller {
 public:
  Puller(const PullOptions& options, const FetchHooks& hooks)
      : options_(options), hooks_(hooks) {}

  absl::StatusOr<PullReport> Run();

 private:
  absl::Status Prepare();
  // What an earlier pull left, if all of it still is what it was.
  absl::StatusOr<std::optional<PullReport>> FromRecord(PullState state);
  absl::StatusOr<std::unique_ptr<FetchSession>> OpenSession();
  absl::Status ShowToken(FetchSession& session);
  // Asks the server which files there are.
  absl::StatusOr<std::vector<RemoteFile>> ListFiles(FetchSession& session);
  absl::Status CheckFiles(std::vector<RemoteFile>& files) const;
  absl::Status CheckRoom(const std::vector<RemoteFile>& files) const;
  // True if the cache has the file, so that it need not be fetched.
  absl::StatusOr<bool> HasFile(RemoteFile& file);
  absl::StatusOr<FileOnTheWay> Fetch(FetchSession& session, RemoteFile file);
  absl::Status CheckHeaders(const std::vector<FileOnTheWay>& files) const;
  absl::StatusOr<PullReport> Commit(std::vector<FileOnTheWay>& files);
  absl::Status WaitForOther(const std::string& name, bool& has_said) const;

  std::string PathOf(const std::string& name) const {
    return absl::StrCat(options_.cache, "/", name);
  }

  const PullOptions& options_;
  const FetchHooks& hooks_;
  PullSource source_;
  Url server_;        // the registry or the hub
  std::string name_;  // options_.name with its ending
  std::vector<RecordedFile> record_;
  bool is_checked_ = true;  // every file had a digest before it came
};

absl::Status Puller::Prepare() {
  ASSIGN_OR_RETURN(source_, ParseSource(options_.source));
  if (!options_.sha256.empty() && !IsSha256(options_.sha256)) {
    return absl::InvalidArgumentError(
        "--sha256 takes 64 digits of hex, in lower case");
  }
  name_ = options_.name;
  if (!name_.empty()) {
    if (!absl::EndsWith(name_, ".gguf")) absl::StrAppend(&name_, ".gguf");
    RETURN_IF_ERROR(CheckFileName(name_));
    if (!planner::SplitNames(name_).empty() || planner::IsLaterSplit(name_)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", name_, "' is the name of one of several files"));
    }
  }
  if (source_.kind == SourceKind::kRegistry) {
    const bool is_tls = !options_.ca_file.empty();
    ASSIGN_OR_RETURN(server_,
                     RegistryUrl(source_, is_tls, options_.allows_plain_http));
  }
  if (source_.kind == SourceKind::kHub && !options_.hub.empty()) {
    ASSIGN_OR_RETURN(server_, ParseUrl(options_.hub));
    if (absl::StrContains(server_.path, "?")) {
      return absl::InvalidArgumentError("the hub's URL has a query");
    }
    if (!absl::EndsWith(server_.path, "/")) server_.path.push_back('/');
  }
  record_ = ReadRecord(options_.cache, source_.text);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<PullReport>> Puller::FromRecord(PullState state) {
  PullReport report{.state = state, .is_checked = true, .files = {}};
  for (const RecordedFile& file : record_) {
    const auto digest =
        CachedDigest(options_.cache, file.name, record_, hooks_.check);
    if (absl::IsNotFound(digest.status())) return std::nullopt;
    RETURN_IF_ERROR(digest.status());
    if (*digest != file.sha256) return std::nullopt;
    report.files.push_back(
        {file.name, PathOf(file.name), file.bytes, file.sha256});
  }
  if (report.files.empty()) return std::nullopt;
  const PulledFile& first = report.files.front();
  if (!name_.empty() && (first.name != name_ || report.files.size() > 1)) {
    return std::nullopt;
  }
  if (!options_.sha256.empty() &&
      (first.sha256 != options_.sha256 || report.files.size() > 1)) {
    return std::nullopt;
  }
  return report;
}

absl::Status Puller::ShowToken(FetchSession& session) {
  if (source_.kind == SourceKind::kRegistry) {
    return session.AnswerChallenges(server_, options_.token);
  }
  const bool is_hub = source_.kind == SourceKind::kHub;
  const std::string& token = !options_.token.empty() ? options_.token
                             : is_hub                ? options_.hub_token
                                                     : options_.token;
  if (token.empty()) return absl::OkStatus();
  return session.ShowToken(is_hub ? server_ : source_.url, token);
}

absl::StatusOr<std::unique_ptr<FetchSession>> Puller::OpenSession() {
  if (source_.kind == SourceKind::kHub && options_.hub.empty()) {
    return absl::InvalidArgumentError(
        "hf: needs the URL of a hub; name it by --hub or $PLIMSOLL_HUB");
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport,
                   Transport::Create({.ca_file = options_.ca_file,
                                      .proxy = options_.proxy,
                                      .silence = options_.silence,
                                      .check = hooks_.check}));
  auto session = std::make_unique<FetchSession>(std::move(transport),
                                                options_.allows_plain_http);
  RETURN_IF_ERROR(ShowToken(*session));
  return session;
}

absl::StatusOr<std::vector<RemoteFile>> Puller::ListFiles(
    FetchSession& session) {
  absl::StatusOr<std::vector<RemoteFile>> files;
  switch (source_.kind) {
    case SourceKind::kUrl:
      files = FilesOfUrl(source_, name_);
      break;
    case SourceKind::kRegistry:
      files = FilesOfRegistry(session, source_, server_, name_);
      break;
    case SourceKind::kHub:
      files = FilesOfHub(session, source_, server_, name_);
      break;
  }
  RETURN_IF_ERROR(files.status());
  RETURN_IF_ERROR(CheckFiles(*files));
  return files;
}

absl::Status Puller::CheckFiles(std::vector<RemoteFile>& files) const {
  if (files.size() > kMaxPullFiles) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the model lies in ", files.size(), " files; at most ",
                     kMaxPullFiles, " are fetched"));
  }
  if (files.size() > 1 && (!name_.empty() || !options_.sha256.empty())) {
    return absl::InvalidArgumentError(
        "--name and --sha256 are for one file, and this model lies in several");
  }
  for (RemoteFile& file : files) {
    if (options_.sha256.empty()) continue;
    if (!file.sha256.empty() && file.sha256 != options_.sha256) {
      return absl::DataLossError(absl::StrCat(
          "'", file.name, "' should have the SHA-256 ", options_.sha256,
          ", but the server has one with ", file.sha256));
    }
    file.sha256 = options_.sha256;
  }
  return absl::OkStatus();
}

// Each file reserves its own room, where the file system can; this tells about
// all of them before the first byte.
absl::Status Puller::CheckRoom(const std::vector<RemoteFile>& files) const {
  int64_t wanted = 0;
  for (const RemoteFile& file : files) {
    std::error_code error;
    if (!options_.overwrites && fs::exists(PathOf(file.name), error)) continue;
    const auto partial = fs::file_size(
        absl::StrCat(options_.cache, "/.", file.name, ".part"), error);
    const int64_t there = error ? 0 : static_cast<int64_t>(partial);
    if (file.bytes > kMaxRemoteFileBytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "'", file.name, "' has ", file.bytes, " bytes, which is too many"));
    }
    wanted += std::max<int64_t>(file.bytes - there, 0);
  }
  struct statvfs room {};
  if (statvfs(options_.cache.c_str(), &room) != 0) return absl::OkStatus();
  const double free =
      static_cast<double>(room.f_bavail) * static_cast<double>(room.f_frsize);
  if (static_cast<double>(wanted) <= free) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "there is no room: ", wanted, " bytes are wanted, and the disk of '",
      options_.cache, "' has ", static_cast<int64_t>(free)));
}

absl::StatusOr<bool> Puller::HasFile(RemoteFile& file) {
  std::error_code error;
  if (options_.overwrites || !fs::exists(PathOf(file.name), error)) {
    return false;
  }
  ASSIGN_OR_RETURN(
      const std::string digest,
      CachedDigest(options_.cache, file.name, record_, hooks_.check));
  const bool is_recorded =
      std::ranges::any_of(record_, [&](const RecordedFile& known) {
        return known.name == file.name && known.sha256 == digest;
      });
  if (file.sha256.empty() ? is_recorded : file.sha256 == digest) {
    file.sha256 = digest;
    file.bytes = static_cast<int64_t>(fs::file_size(PathOf(file.name), error));
    return true;
  }
  const std::string other =
      file.sha256.empty()
          ? std::string("a file by that name that did not come from there")
          : absl::StrCat("another file by that name, with the SHA-256 ", digest,
                         " instead of ", file.sha256);
  return absl::AlreadyExistsError(absl::StrCat(
      "'", file.name, "': the cache has ", other,
      "\n  try: --name gives this one another name, --overwrite replaces the "
      "other"));
}

absl::Status Puller::WaitForOther(const std::string& name,
                                  bool& has_said) const {
  if (!has_said) {
    hooks_.note(
        absl::StrCat(name, ": another process is fetching it; waiting"));
  }
  has_said = true;
  return hooks_.check();
}

absl::StatusOr<FileOnTheWay> Puller::Fetch(FetchSession& session,
                                           RemoteFile file) {
  ASSIGN_OR_RETURN(bool has_file, HasFile(file));
  if (has_file) return FileOnTheWay{std::move(file), nullptr};
  bool has_said = false;
  ASSIGN_OR_RETURN(std::unique_ptr<PartialFile> partial,
                   PartialFile::Open(options_.cache, file.name, [&] {
                     return WaitForOther(file.name, has_said);
                   }));
  // The one that was waited for may have fetched it.
  record_ = ReadRecord(options_.cache, source_.text);
  ASSIGN_OR_RETURN(has_file, HasFile(file));
  if (has_file) {
    partial->Discard();
    return FileOnTheWay{std::move(file), nullptr};
  }
  if (partial->size() > 0) {
    hooks_.note(absl::StrCat(file.name, ": going on at ", partial->size(),
                             " bytes of an earlier run"));
  }
  RETURN_IF_ERROR(Download(session, file, *partial, hooks_));
  is_checked_ = is_checked_ && !file.sha256.empty();
  RETURN_IF_ERROR(CheckDigest(file, *partial, hooks_));
  return FileOnTheWay{std::move(file), std::move(partial)};
}

absl::Status Puller::CheckHeaders(
    const std::vector<FileOnTheWay>& files) const {
  std::vector<planner::GgufHeader> headers;
  headers.reserve(files.size());
  for (const FileOnTheWay& one : files) {
    const std::string path =
        one.partial != nullptr ? one.partial->path() : PathOf(one.file.name);
    ASSIGN_OR_RETURN(const std::unique_ptr<worker::OpenFile> open,
                     worker::OpenFile::Open(path));
    auto header = planner::ReadGgufHeader(*open);
    if (!header.ok()) {
      if (one.partial != nullptr) one.partial->Discard();
      return absl::DataLossError(
          absl::StrCat("'", one.file.name,
                       "' came whole, but is no GGUF file that can be "
                       "read: ",
                       header.status().message()));
    }
    headers.push_back(*std::move(header));
  }
  if (headers.size() < 2) return absl::OkStatus();
  const bool is_split = !planner::SplitNames(files.front().file.name).empty();
  return is_split ? planner::MergeSplits(headers).status() : absl::OkStatus();
}

absl::StatusOr<PullReport> Puller::Commit(std::vector<FileOnTheWay>& files) {
  PullReport report;
  const bool has_any = std::ranges::any_of(
      files, [](const FileOnTheWay& one) { return one.partial != nullptr; });
  report.state = has_any ? PullState::kFetched : PullState::kCached;
  report.is_checked = is_checked_;
  // The first one last: it is what makes the model visible.
  for (auto one = files.rbegin(); one != files.rend(); ++one) {
    if (one->partial != nullptr) {
      RETURN_IF_ERROR(one->partial->Commit(options_.overwrites));
    }
  }
  std::vector<RecordedFile> record;
  record.reserve(files.size());
  for (const FileOnTheWay& one : files) {
    ASSIGN_OR_RETURN(RecordedFile recorded,
                     RecordOf(options_.cache, one.file.name, one.file.sha256));
    record.push_back(std::move(recorded));
    report.files.push_back({one.file.name, PathOf(one.file.name),
                            one.file.bytes, one.file.sha256});
  }
  // Whoever waits for a partial file sees the record when it gets the lock.
  RETURN_IF_ERROR(WriteRecord(options_.cache, source_.text, record));
  return report;
}

absl::StatusOr<PullReport> Puller::Run() {
  RETURN_IF_ERROR(Prepare());
  if (options_.is_offline || (source_.is_pinned() && !options_.overwrites)) {
    const PullState state =
        options_.is_offline ? PullState::kOffline : PullState::kCached;
    ASSIGN_OR_RETURN(std::optional<PullReport> report, FromRecord(state));
    if (report.has_value()) return *std::move(report);
  }
  if (options_.is_offline) {
    return absl::NotFoundError(absl::StrCat(
        "the cache has nothing that came from ", source_.text.substr(0, 200),
        " and still is as it came; without --offline it is fetched"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<FetchSession> session, OpenSession());
  absl::StatusOr<std::vector<RemoteFile>> files = ListFiles(*session);
  if (absl::IsUnavailable(files.status()) && !options_.overwrites) {
    ASSIGN_OR_RETURN(std::optional<PullReport> report,
                     FromRecord(PullState::kOffline));
    if (report.has_value()) {
      hooks_.note(
          absl::StrCat("the cache has it, and the server did not "
                       "answer: ",
                       files.status().message()));
      return *std::move(report);
    }
  }
  RETURN_IF_ERROR(files.status());
  std::error_code error;
  fs::create_directories(options_.cache, error);
  if (error) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the folder '", options_.cache, "' cannot be made: ", error.message()));
  }
  RETURN_IF_ERROR(CheckRoom(*files));
  std::vector<FileOnTheWay> on_the_way;
  for (RemoteFile& file : *files) {
    ASSIGN_OR_RETURN(FileOnTheWay one, Fetch(*session, std::move(file)));
    on_the_way.push_back(std::move(one));
  }
  RETURN_IF_ERROR(CheckHeaders(on_the_way));
  return Commit(on_the_way);
}

}  // namespace

absl::StatusOr<PullReport> Pull(const PullOptions& options,
                                const FetchHooks& hooks) {
  return Puller(options, hooks).Run();
}

}  // namespace plimsoll::fetch
