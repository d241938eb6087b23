// A file that stays open while a model is loaded from it.
#ifndef PLIMSOLL_WORKER_DEVICE_OPEN_FILE_H_
#define PLIMSOLL_WORKER_DEVICE_OPEN_FILE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/gguf/byte_source.h"

namespace plimsoll::worker {

// Reads with pread, so that the file's pages never count as this process's
// memory. Not thread-safe.
class OpenFile final : public planner::ByteSource {
 public:
  // Errors: kNotFound if there is no such file; kFailedPrecondition if it is
  // not a regular file or cannot be read.
  static absl::StatusOr<std::unique_ptr<OpenFile>> Open(
      const std::string& path);
  ~OpenFile() override;

  int64_t Size() const override { return size_; }
  // Open as long as this object exists.
  int descriptor() const { return fd_; }
  // Errors: kDataLoss if the file cannot be read or is too short.
  absl::Status Read(int64_t offset, std::span<std::byte> out) override;

  // Errors: kDataLoss if the file was replaced, truncated or written to since
  // it was opened (device, inode, size and modification time are compared).
  absl::Status CheckUnchanged() const;

 private:
  explicit OpenFile(int fd) : fd_(fd) {}

  const int fd_;
  int64_t size_ = 0;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
  int64_t modified_ns_ = 0;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_OPEN_FILE_H_
