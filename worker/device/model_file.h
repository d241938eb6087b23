// An opened model: its checked header, its shape, and reads of its bytes, which
// lie in one file or in several.
#ifndef PLIMSOLL_WORKER_DEVICE_MODEL_FILE_H_
#define PLIMSOLL_WORKER_DEVICE_MODEL_FILE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/gguf/gguf_reader.h"
#include "planner/model/model_shape.h"
#include "worker/device/model_mapping.h"
#include "worker/device/open_file.h"

namespace plimsoll::worker {

// Not thread-safe.
class ModelFile final : public planner::ByteSource {
 public:
  // Opens a model and reads its header and shape. If it lies in several files,
  // `path` is the first one, and the others lie beside it.
  // Errors: those of OpenFile, ReadGgufHeader, MergeSplits and ShapeFromGguf,
  // with the name of a file that is not the first; kInvalidArgument if `path`
  // is a later file of several.
  static absl::StatusOr<std::unique_ptr<ModelFile>> Open(
      const std::string& path);
  // Opens a model and reads only its header; the model need not be complete.
  // shape() is empty. Errors: those of Open without those of ShapeFromGguf.
  static absl::StatusOr<std::unique_ptr<ModelFile>> OpenHeader(
      const std::string& path);
  // Returns the header that OpenHeader reads. Errors: those of OpenHeader.
  static absl::StatusOr<planner::GgufHeader> ReadHeader(
      const std::string& path);

  int64_t Size() const override { return offsets_.back(); }
  // The bytes of several files lie one after another as MergeSplits says. No
  // range of the header crosses the end of a file.
  absl::Status Read(int64_t offset, std::span<std::byte> out) override;

  // The bytes of all files, including bytes that no header names.
  int64_t AllBytes() const;
  // Calls `take` with all bytes of all files, one file after the other, in
  // pieces of at most kReadBytes. Errors: those of OpenFile::Read; the first
  // error of `take`, which ends the reading.
  static constexpr int64_t kReadBytes = 1 << 20;
  absl::Status ReadAll(
      absl::FunctionRef<absl::Status(std::span<const std::byte>)> take) const;

  const planner::GgufHeader& header() const { return header_; }
  const planner::ModelShape& shape() const { return shape_; }

  // Errors: those of OpenFile::CheckUnchanged, for any file.
  absl::Status CheckUnchanged() const;

  // Maps all files. The mapping may outlive this object.
  // Errors: those of ModelMapping::Add.
  absl::StatusOr<ModelMapping> Map() const;

 private:
  ModelFile() = default;

  // Opens the other files of the model and sets the header of all files.
  absl::Status OpenSplits(const std::string& path);

  // Mappings share their ownership.
  std::vector<std::shared_ptr<OpenFile>> files_;
  std::vector<int64_t> offsets_;  // begin of each file, and the end of the last
  planner::GgufHeader header_;
  planner::ModelShape shape_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_MODEL_FILE_H_
