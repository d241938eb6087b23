#include "services/host/process_identity.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "worker/device/kernel_file.h"

namespace plimsoll::services {
namespace {

// The fields of /proc/PID/stat after the program's name. Empty if there is no
// such process; absent if that cannot be determined, for example if no
// descriptor is left.
std::optional<std::vector<std::string>> StatOf(int64_t pid) {
  // The first thread's file says the same. A process that QEMU runs sees a
  // start time of QEMU's own in /proc/PID/stat of itself, which others do not
  // see.
  const absl::StatusOr<std::string> stat = worker::ReadKernelFile(
      absl::StrCat("/proc/", pid, "/task/", pid, "/stat"));
  if (absl::IsNotFound(stat.status())) return std::vector<std::string>();
  if (!stat.ok()) return std::nullopt;
  // The second field is the program's name, which may have any characters.
  const size_t end = stat->rfind(')');
  if (end == std::string::npos) return std::nullopt;
  return std::vector<std::string>(absl::StrSplit(
      absl::string_view(*stat).substr(end + 1), ' ', absl::SkipEmpty()));
}

// Indices of proc(5)'s fields 20 and 22 among those after the name.
constexpr size_t kThreadCount = 20 - 3;
constexpr size_t kStartTime = 22 - 3;

std::optional<int64_t> FieldOf(const std::vector<std::string>& stat,
                               size_t field) {
  int64_t value = 0;
  if (stat.size() <= field || !absl::SimpleAtoi(stat[field], &value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<int64_t> StartOf(const std::vector<std::string>& stat) {
  return FieldOf(stat, kStartTime);
}

// True if no thread of a process with this stat runs any more.
bool IsOver(const std::vector<std::string>& stat) {
  if (stat[0] == "X") return true;
  // The first thread waits for the others before its parent can collect it.
  return stat[0] == "Z" && FieldOf(stat, kThreadCount).value_or(1) <= 1;
}

}  // namespace

std::optional<int64_t> StartTicks(int64_t pid) {
  return StartOf(StatOf(pid).value_or(std::vector<std::string>()));
}

bool HasEnded(const ProcessIdentity& identity) {
  const std::optional<std::vector<std::string>> stat = StatOf(identity.pid);
  if (!stat.has_value()) return false;
  return StartOf(*stat) != identity.start_ticks || IsOver(*stat);
}

bool IsLaterThread(int64_t pid) {
  const auto id = static_cast<pid_t>(pid);
  if (id <= 0) return false;
  // tgkill asks for the first thread of a process, kill for any thread.
  if (syscall(SYS_tgkill, id, id, 0) == 0 || errno != ESRCH) return false;
  return kill(id, 0) == 0 || errno != ESRCH;
}

std::optional<ProcessIdentity> OwnIdentity() {
  ProcessIdentity own;
  own.pid = getpid();
  const std::optional<int64_t> ticks = StartTicks(own.pid);
  own.boot_id = std::string(absl::StripAsciiWhitespace(
      worker::ReadKernelFile("/proc/sys/kernel/random/boot_id").value_or("")));
  struct stat pid_namespace {};
  if (!ticks.has_value() || own.boot_id.empty() ||
      own.boot_id.size() > ProcessIdentity::kMaxBootIdBytes ||
      stat("/proc/self/ns/pid", &pid_namespace) != 0) {
    return std::nullopt;
  }
  own.start_ticks = *ticks;
  own.pid_namespace = static_cast<int64_t>(pid_namespace.st_ino);
  return own;
}

std::string ToString(const ProcessIdentity& identity) {
  return absl::StrCat(identity.boot_id, ":", identity.pid_namespace, ":",
                      identity.pid, ":", identity.start_ticks);
}

std::optional<ProcessIdentity> ParseIdentity(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  ProcessIdentity identity;
  if (parts.size() != 4 || parts[0].empty() ||
      parts[0].size() > ProcessIdentity::kMaxBootIdBytes ||
      !absl::SimpleAtoi(parts[1], &identity.pid_namespace) ||
      !absl::SimpleAtoi(parts[2], &identity.pid) ||
      !absl::SimpleAtoi(parts[3], &identity.start_ticks) || identity.pid <= 0) {
    return std::nullopt;
  }
  identity.boot_id = std::string(parts[0]);
  return identity;
}

}  // namespace plimsoll::services
