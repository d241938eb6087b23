// Reads the small text files in which the kernel reports its state. It
// distinguishes a missing file from an unreadable file.
#ifndef PLIMSOLL_WORKER_DEVICE_KERNEL_FILE_H_
#define PLIMSOLL_WORKER_DEVICE_KERNEL_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// The longest file, mountinfo, has a line of about 100 bytes for each mount.
constexpr size_t kMaxKernelFileBytes = size_t{16} << 20;

// The whole text of the file at `path`. Errors: kNotFound if there is no such
// file; kUnavailable if it cannot be read (for example if no descriptor is
// left) or has more than kMaxKernelFileBytes.
absl::StatusOr<std::string> ReadKernelFile(const std::string& path);

// The value of the line "KEY:   123 kB" in the text of /proc/meminfo or
// /proc/self/status, in bytes. Absent if there is no such line.
std::optional<int64_t> BytesOfKey(absl::string_view text,
                                  absl::string_view key);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_KERNEL_FILE_H_
