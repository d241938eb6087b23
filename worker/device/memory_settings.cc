#include "worker/device/memory_settings.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "worker/device/kernel_file.h"

namespace plimsoll::worker {
namespace {

// The word in brackets: "always [madvise] never" gives "madvise".
std::string ChosenWord(absl::string_view text) {
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    word = absl::StripAsciiWhitespace(word);
    if (absl::ConsumePrefix(&word, "[") && absl::ConsumeSuffix(&word, "]")) {
      return std::string(word);
    }
  }
  return "";
}

std::string ReadWords(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadKernelFile(path);
  return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
}

}  // namespace

MemorySettings ReadMemorySettings(const std::string& root) {
  MemorySettings settings;
  settings.huge_pages = ChosenWord(
      ReadWords(root + "/sys/kernel/mm/transparent_hugepage/enabled"));
  const std::string meminfo = ReadWords(root + "/proc/meminfo");
  settings.swap_bytes = BytesOfKey(meminfo, "SwapTotal");
  settings.free_swap_bytes = BytesOfKey(meminfo, "SwapFree");
  if (ReadWords(root + "/proc/sys/vm/overcommit_memory") == "2") {
    const auto limit = BytesOfKey(meminfo, "CommitLimit");
    const auto promised = BytesOfKey(meminfo, "Committed_AS");
    if (limit && promised) {
      settings.mappable_bytes = std::max<int64_t>(*limit - *promised, 0);
    }
  }
  return settings;
}

}  // namespace plimsoll::worker
