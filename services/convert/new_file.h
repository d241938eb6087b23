// A file that appears under its name only when it is complete.
#ifndef PLIMSOLL_SERVICES_CONVERT_NEW_FILE_H_
#define PLIMSOLL_SERVICES_CONVERT_NEW_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace plimsoll::services {

// Bytes are appended to a hidden file beside the target. Not thread-safe.
class NewFile {
 public:
  // Creates the hidden file and reserves `bytes` on the disk, if the file
  // system can.
  // Errors: kAlreadyExists if the target exists and `overwrites` is false;
  // kResourceExhausted if there is no room; kFailedPrecondition if the file
  // cannot be created.
  static absl::StatusOr<std::unique_ptr<NewFile>> Create(
      const std::string& target, int64_t bytes, bool overwrites);
  // Removes the hidden file, unless Commit gave it its name.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Errors: kResourceExhausted if the disk is full; kDataLoss.
  absl::Status Append(std::span<const std::byte> bytes);
  int64_t size() const { return size_; }

  // Waits until the bytes are on the disk and renames the file.
  // Errors: those of Append; kAlreadyExists as Create.
  absl::Status Commit();

 private:
  NewFile(std::string target, std::string hidden, bool overwrites, int fd);

  const std::string target_;
  const std::string hidden_;
  const bool overwrites_;
  const int fd_;
  int64_t size_ = 0;
  bool is_committed_ = false;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_CONVERT_NEW_FILE_H_
