// An opened model file: its checked header, its shape, and reads of its bytes.
#ifndef PLIMSOLL_WORKER_DEVICE_MODEL_FILE_H_
#define PLIMSOLL_WORKER_DEVICE_MODEL_FILE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/gguf/gguf_reader.h"
#include "planner/model/model_shape.h"

namespace plimsoll::worker {

// Reads with pread, so that the file's pages never count as this process's
// memory. Not thread-safe.
class ModelFile final : public planner::ByteSource {
 public:
  // Opens a regular file and reads its header and shape.
  // Errors: kNotFound if there is no such file; kFailedPrecondition if it is
  // not a regular file or cannot be read; kUnimplemented if it is one of
  // several files of a model; the errors of ReadGgufHeader and ShapeFromGguf.
  static absl::StatusOr<std::unique_ptr<ModelFile>> Open(
      const std::string& path);
  // Opens a file and reads only its header; the file need not be a whole model.
  // shape() is empty. Errors: those of Open without those of ShapeFromGguf.
  static absl::StatusOr<std::unique_ptr<ModelFile>> OpenHeader(
      const std::string& path);
  // Returns the header that OpenHeader reads. Errors: those of OpenHeader.
  static absl::StatusOr<planner::GgufHeader> ReadHeader(
      const std::string& path);
  ~ModelFile() override;

  int64_t Size() const override { return size_; }
  absl::Status Read(int64_t offset, std::span<std::byte> out) override;

  const planner::GgufHeader& header() const { return header_; }
  const planner::ModelShape& shape() const { return shape_; }

  // Errors: kDataLoss if the file was replaced, truncated or written to since
  // it was opened (device, inode, size and modification time are compared).
  absl::Status CheckUnchanged() const;

 private:
  ModelFile() = default;

  int fd_ = -1;
  int64_t size_ = 0;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
  int64_t modified_ns_ = 0;
  planner::GgufHeader header_;
  planner::ModelShape shape_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_MODEL_FILE_H_
