#include "services/host/runtime/runtime_store.h"

#include <fcntl.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/host/state_path.h"

namespace plimsoll::services {
namespace {

using google::protobuf::Struct;

// An open file, closed at the end.
class File {
 public:
  File(const std::string& path, int flags)
      : fd_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

absl::Status Denied(const std::string& path) {
  return absl::PermissionDeniedError(
      absl::StrCat(path, ": ", std::strerror(errno)));
}

absl::Status NoProfile(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("it is no profile: ", why));
}

// A profile's numbers and its key, as the file has them.
struct Number {
  const char* name;
  int64_t* value;
};
std::array<Number, 5> NumbersOf(planner::RuntimeProfile& profile) {
  return {{{"bytes", &profile.bytes},
           {"n_threads", &profile.load.n_threads},
           {"n_slots", &profile.load.n_slots},
           {"n_rows", &profile.load.n_rows},
           {"n_vocab", &profile.load.n_vocab}}};
}
struct Text {
  const char* name;
  std::string* value;
};
std::array<Text, 4> TextsOf(planner::RuntimeProfile& profile) {
  return {{{"device", &profile.key.device},
           {"driver", &profile.key.driver},
           {"build", &profile.key.build},
           {"measured", &profile.measured}}};
}

absl::StatusOr<int64_t> NumberOf(const Struct& object, const char* name) {
  constexpr double kMax = 9007199254740992;  // exact in a double
  const auto it = object.fields().find(name);
  if (it == object.fields().end() || !it->second.has_number_value()) {
    return NoProfile(absl::StrCat("\"", name, "\" is missing or no number"));
  }
  const double number = it->second.number_value();
  if (!(std::abs(number) <= kMax) || number != std::floor(number)) {
    return NoProfile(absl::StrCat("\"", name, "\" is no whole number"));
  }
  return static_cast<int64_t>(number);
}

absl::StatusOr<planner::RuntimeProfile> Parse(const std::string& json,
                                              const planner::RuntimeKey& key) {
  Struct object;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(json, &object);
  if (!parsed.ok()) return NoProfile("it is not a JSON object");
  planner::RuntimeProfile profile;
  ASSIGN_OR_RETURN(const int64_t version, NumberOf(object, "version"));
  if (version == planner::RuntimeProfile::kVersion) {
    for (const Number& field : NumbersOf(profile)) {
      ASSIGN_OR_RETURN(*field.value, NumberOf(object, field.name));
    }
    for (const Text& field : TextsOf(profile)) {
      const auto it = object.fields().find(field.name);
      if (it != object.fields().end()) *field.value = it->second.string_value();
    }
  }
  RETURN_IF_ERROR(planner::CheckRuntimeProfile(version, profile, key));
  return profile;
}

absl::StatusOr<std::string> Format(planner::RuntimeProfile profile) {
  Struct object;
  auto& fields = *object.mutable_fields();
  fields["version"].set_number_value(
      static_cast<double>(planner::RuntimeProfile::kVersion));
  for (const Number& field : NumbersOf(profile)) {
    fields[field.name].set_number_value(static_cast<double>(*field.value));
  }
  for (const Text& field : TextsOf(profile)) {
    fields[field.name].set_string_value(*field.value);
  }
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  std::string json;
  const auto status =
      google::protobuf::util::MessageToJsonString(object, &json, options);
  if (!status.ok()) return NoProfile("its texts are not UTF-8");
  return json;
}

// Writes `bytes` to `path` in one step that survives a crash. `temporary` is
// another file of the folder; the lock makes it this process's own.
absl::Status Replace(const std::string& folder, const std::string& temporary,
                     const std::string& path, const std::string& bytes) {
  {
    const File file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    if (file.fd() < 0) return Denied(temporary);
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n =
          write(file.fd(), bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return Denied(temporary);
      done += static_cast<size_t>(n);
    }
    if (fsync(file.fd()) != 0) return Denied(temporary);
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return Denied(path);
  const File directory(folder, O_RDONLY | O_DIRECTORY);
  if (directory.fd() < 0 || fsync(directory.fd()) != 0) return Denied(folder);
  return absl::OkStatus();
}

}  // namespace

std::string DefaultProfileFolder() { return StatePath("profiles"); }

std::string RuntimeStore::PathOf(const planner::RuntimeKey& key) const {
  return absl::StrCat(folder_, "/", planner::FileStem(key), ".json");
}

absl::StatusOr<std::optional<planner::RuntimeProfile>> RuntimeStore::Read(
    const planner::RuntimeKey& key) const {
  if (folder_.empty()) return std::nullopt;
  const std::string path = PathOf(key);
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return Denied(path);
  std::string json(static_cast<size_t>(kMaxFileBytes + 1), '\0');
  file.read(json.data(), static_cast<std::streamsize>(json.size()));
  json.resize(static_cast<size_t>(file.gcount()));
  if (static_cast<int64_t>(json.size()) > kMaxFileBytes) {
    return absl::DataLossError(absl::StrCat(path, ": it is too long"));
  }
  const auto profile = Parse(json, key);
  if (profile.ok()) return *profile;
  return absl::Status(profile.status().code(),
                      absl::StrCat(path, ": ", profile.status().message()));
}

absl::StatusOr<planner::RuntimeProfile> RuntimeStore::Keep(
    const planner::RuntimeProfile& seen, const Merge& merge) const {
  if (folder_.empty()) return seen;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const std::string path = PathOf(seen.key);
  // The lock has a file of its own, because the profile's file is replaced.
  const std::string lock_path = path + ".lock";
  const File lock(lock_path, O_RDWR | O_CREAT);
  if (lock.fd() < 0) return Denied(lock_path);
  if (flock(lock.fd(), LOCK_EX | LOCK_NB) != 0) {
    return absl::UnavailableError(
        absl::StrCat(path, ": another process is writing it"));
  }
  const auto kept = Read(seen.key);
  const bool is_there = kept.ok() && kept->has_value();
  const planner::RuntimeProfile merged = is_there ? merge(**kept, seen) : seen;
  if (is_there && merged == **kept) return merged;
  ASSIGN_OR_RETURN(const std::string json, Format(merged));
  RETURN_IF_ERROR(Replace(folder_, path + ".tmp", path, json));
  return merged;
}

}  // namespace plimsoll::services
