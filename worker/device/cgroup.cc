#include "worker/device/cgroup.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "worker/device/kernel_file.h"

namespace plimsoll::worker {
namespace {

// Cgroups from the process's own to the mount. A path has 4,096 bytes.
constexpr int kMaxDepth = 2'048;

// A mounted hierarchy.
struct Mount {
  bool is_v2;
  std::string root;   // the cgroup that is seen at `point`
  std::string point;  // the folder where it is mounted
};

using Lines = std::vector<std::string>;

// The lines of a file; none if it does not exist. Errors: kUnavailable.
absl::StatusOr<Lines> LinesOf(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadKernelFile(path);
  if (absl::IsNotFound(text.status())) return Lines();
  RETURN_IF_ERROR(text.status());
  return Lines(absl::StrSplit(*text, '\n', absl::SkipEmpty()));
}

// A number of bytes or microseconds; nothing for "max" and other texts.
std::optional<int64_t> ParseCount(absl::string_view text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0) return std::nullopt;
  return value;
}

std::optional<int64_t> ReadCount(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadKernelFile(path);
  if (!text.ok()) return std::nullopt;
  return ParseCount(absl::StripAsciiWhitespace(*text));
}

// The number of bytes in a file; absent if there is no such file, or if it says
// that there is no limit. Errors: kUnavailable, also for any other text.
absl::StatusOr<std::optional<int64_t>> ReadBytes(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadKernelFile(path);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  RETURN_IF_ERROR(text.status());
  const absl::string_view word = absl::StripAsciiWhitespace(*text);
  if (word == "max" || word == "-1") return std::nullopt;
  const std::optional<int64_t> bytes = ParseCount(word);
  if (bytes.has_value()) return bytes;
  const bool is_number = !word.empty() && std::all_of(word.begin(), word.end(),
                                                      absl::ascii_isdigit);
  if (is_number) return std::nullopt;  // more than any machine has
  return absl::UnavailableError(absl::StrCat(path, " has no number of bytes"));
}

// proc(5) writes space, tab, newline and backslash as \ and three octal digits.
std::string Unescaped(absl::string_view text) {
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) &&
        is_octal(text[i + 2]) && is_octal(text[i + 3])) {
      out.push_back(static_cast<char>((text[i + 1] - '0') * 64 +
                                      (text[i + 2] - '0') * 8 +
                                      (text[i + 3] - '0')));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

bool Names(absl::string_view list, absl::string_view controller) {
  for (const absl::string_view name : absl::StrSplit(list, ',')) {
    if (name == controller) return true;
  }
  return false;
}

// The mounts on which `controller` may be, from /proc/self/mountinfo; without
// that, the usual ones. Source: proc_pid_mountinfo(5). Errors: kUnavailable.
absl::StatusOr<std::vector<Mount>> MountsOf(const std::string& root,
                                            const std::string& controller) {
  std::vector<Mount> mounts;
  ASSIGN_OR_RETURN(const Lines lines,
                   LinesOf(absl::StrCat(root, "/proc/self/mountinfo")));
  for (const std::string& line : lines) {
    const std::vector<absl::string_view> halves =
        absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    if (halves.size() != 2) continue;
    const std::vector<absl::string_view> left = absl::StrSplit(halves[0], ' ');
    const std::vector<absl::string_view> right = absl::StrSplit(halves[1], ' ');
    if (left.size() < 5 || right.size() < 3) continue;
    const bool is_v2 = right[0] == "cgroup2";
    const bool is_v1 = right[0] == "cgroup" && Names(right[2], controller);
    if (!is_v1 && !is_v2) continue;
    mounts.push_back({is_v2, Unescaped(left[3]), Unescaped(left[4])});
  }
  if (lines.empty()) {
    mounts = {{true, "/", "/sys/fs/cgroup"},
              {false, "/", absl::StrCat("/sys/fs/cgroup/", controller)}};
  }
  return mounts;
}

// This process's path in a hierarchy, as /proc/self/cgroup has it. Source:
// cgroups(7): hierarchy:controllers:path; version 2 is 0 and has no list.
// Errors: kUnavailable.
absl::StatusOr<std::string> OwnPath(const std::string& root, bool is_v2,
                                    const std::string& controller) {
  ASSIGN_OR_RETURN(const Lines lines,
                   LinesOf(absl::StrCat(root, "/proc/self/cgroup")));
  for (const std::string& line : lines) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool is_same = is_v2 ? parts[0] == "0" && parts[1].empty()
                               : Names(parts[1], controller);
    if (is_same) return parts[2];
  }
  return std::string("/");
}

// The part of a cgroup's path that lies below the mount's root; empty if the
// mount does not show it, as in a container with the host's /proc.
std::string Below(const std::string& path, const std::string& mount_root) {
  absl::string_view rest = path;
  if (mount_root != "/") {
    if (!absl::StartsWith(rest, mount_root)) return "";
    rest.remove_prefix(mount_root.size());
  }
  const bool is_path = absl::StartsWith(rest, "/") && rest != "/";
  if (!is_path || absl::StrContains(rest, "/..")) return "";
  return std::string(rest);
}

// The folders of all cgroups that limit this process, as far as they are
// mounted, each with whether it is of version 2: its own first.
// Errors: kUnavailable.
absl::StatusOr<std::vector<std::pair<bool, std::string>>> FoldersOf(
    const std::string& root, const std::string& controller) {
  std::vector<std::pair<bool, std::string>> folders;
  ASSIGN_OR_RETURN(const std::vector<Mount> mounts, MountsOf(root, controller));
  for (const Mount& mount : mounts) {
    ASSIGN_OR_RETURN(const std::string path,
                     OwnPath(root, mount.is_v2, controller));
    std::string below = Below(path, mount.root);
    for (int depth = 0; depth < kMaxDepth; ++depth) {
      folders.emplace_back(mount.is_v2, absl::StrCat(root, mount.point, below));
      if (below.empty()) break;
      below.resize(below.rfind('/'));
    }
  }
  return folders;
}

// File pages that the kernel can drop without writing: those on its lists for
// files, which shared memory is not on, less dirty ones; 0 where that cannot be
// read. Version 1 counts all below a cgroup as total_*.
int64_t ReclaimableBytes(bool is_v2, const std::string& folder) {
  std::map<std::string, int64_t> stat;
  const auto lines = LinesOf(absl::StrCat(folder, "/memory.stat"));
  for (const std::string& line : lines.value_or(Lines())) {
    const std::vector<std::string> parts = absl::StrSplit(line, ' ');
    if (parts.size() != 2) continue;
    if (const auto value = ParseCount(parts[1])) stat[parts[0]] = *value;
  }
  const auto bytes = [&](const char* v2, const char* v1) {
    const auto found = stat.find(is_v2 ? v2 : v1);
    return Checked(found == stat.end() ? 0 : found->second);
  };
  const Checked clean = bytes("active_file", "total_active_file") +
                        bytes("inactive_file", "total_inactive_file");
  const Checked dirty = bytes("file_dirty", "total_dirty") +
                        bytes("file_writeback", "total_writeback");
  const auto clean_bytes = clean.Get();
  const auto dirty_bytes = dirty.Get();
  if (!clean_bytes || !dirty_bytes) return 0;  // not the kernel's numbers
  return std::max<int64_t>(*clean_bytes - *dirty_bytes, 0);
}

void KeepSmaller(std::optional<int64_t>& least, int64_t value) {
  least = std::min(least.value_or(value), value);
}

}  // namespace

absl::StatusOr<CgroupMemory> ReadCgroupMemory(const std::string& root) {
  CgroupMemory memory;
  ASSIGN_OR_RETURN(const auto folders, FoldersOf(root, "memory"));
  for (const auto& [is_v2, folder] : folders) {
    std::string limit_file =
        absl::StrCat(folder, is_v2 ? "/memory.max" : "/memory.limit_in_bytes");
    ASSIGN_OR_RETURN(const std::optional<int64_t> limit, ReadBytes(limit_file));
    if (!limit) continue;
    if (*limit < memory.limit_bytes.value_or(*limit + 1)) {
      memory.limit_bytes = limit;
      memory.limit_file = std::move(limit_file);
    }
    ASSIGN_OR_RETURN(
        const std::optional<int64_t> used,
        ReadBytes(absl::StrCat(
            folder, is_v2 ? "/memory.current" : "/memory.usage_in_bytes")));
    if (!used) continue;
    const int64_t held =
        *used - std::min(*used, ReclaimableBytes(is_v2, folder));
    KeepSmaller(memory.available_bytes, std::max<int64_t>(*limit - held, 0));
  }
  return memory;
}

std::optional<int64_t> ReadCgroupSwap(const std::string& root) {
  std::optional<int64_t> least;
  const auto folders = FoldersOf(root, "memory");
  if (!folders.ok()) return std::nullopt;
  for (const auto& [is_v2, folder] : *folders) {
    if (!is_v2) continue;
    const auto limit = ReadCount(absl::StrCat(folder, "/memory.swap.max"));
    if (limit) KeepSmaller(least, *limit);
  }
  return least;
}

std::optional<CgroupTasks> ReadCgroupTasks(const std::string& root) {
  std::optional<CgroupTasks> least;
  const auto folders = FoldersOf(root, "pids");
  if (!folders.ok()) return std::nullopt;
  for (const auto& [is_v2, folder] : *folders) {
    std::string limit_file = absl::StrCat(folder, "/pids.max");
    const auto limit = ReadCount(limit_file);
    const auto used = ReadCount(absl::StrCat(folder, "/pids.current"));
    if (!limit || !used) continue;
    if (least && least->limit - least->used <= *limit - *used) continue;
    least = CgroupTasks{*limit, *used, std::move(limit_file)};
  }
  return least;
}

std::optional<int64_t> ReadCgroupCpus(const std::string& root) {
  std::optional<int64_t> least;
  const auto folders = FoldersOf(root, "cpu");
  if (!folders.ok()) return std::nullopt;
  for (const auto& [is_v2, folder] : *folders) {
    std::optional<int64_t> quota;
    std::optional<int64_t> period;
    if (is_v2) {
      const auto lines = LinesOf(absl::StrCat(folder, "/cpu.max"));
      if (!lines.ok() || lines->empty()) continue;
      const std::vector<std::string> parts = absl::StrSplit(lines->at(0), ' ');
      if (parts.size() != 2) continue;
      quota = ParseCount(parts[0]);
      period = ParseCount(parts[1]);
    } else {
      quota = ReadCount(absl::StrCat(folder, "/cpu.cfs_quota_us"));
      period = ReadCount(absl::StrCat(folder, "/cpu.cfs_period_us"));
    }
    if (quota.value_or(0) < 1 || period.value_or(0) < 1) continue;
    KeepSmaller(least, CeilDiv(*quota, *period));
  }
  return least;
}

}  // namespace plimsoll::worker
