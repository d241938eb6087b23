// A model's files mapped into memory, for weights that stay there.
#ifndef PLIMSOLL_WORKER_DEVICE_MODEL_MAPPING_H_
#define PLIMSOLL_WORKER_DEVICE_MODEL_MAPPING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/open_file.h"

namespace plimsoll::worker {

// Maps files read-only. Their pages are read when they are used, and the system
// may drop them. A read of a page that the file no longer has, or that the disk
// cannot read, sends SIGBUS to the process (services/host/crash/bus_error.h).
// Thread-safe.
class ModelMapping {
 public:
  ModelMapping() = default;
  ~ModelMapping();
  ModelMapping(ModelMapping&&) = default;
  ModelMapping& operator=(ModelMapping&&) = delete;

  // Maps a file that begins at `offset` of the model, the end of the file
  // before.
  // Errors: those of OpenFile::CheckUnchanged; kResourceExhausted if the system
  // does not map it.
  absl::Status Add(std::shared_ptr<const OpenFile> file, int64_t offset);

  // The bytes [offset, offset + bytes) of the model, which lie in one file.
  std::span<const std::byte> Bytes(int64_t offset, int64_t bytes) const;

  // Errors: those of OpenFile::CheckUnchanged, for any file.
  absl::Status CheckUnchanged() const;

 private:
  struct MappedFile {
    std::shared_ptr<const OpenFile> file;
    int64_t offset;  // the file's begin in the model
    std::span<const std::byte> bytes;
  };
  std::vector<MappedFile> files_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_MODEL_MAPPING_H_
