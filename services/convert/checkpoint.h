// The weights in a checkpoint's folder: one safetensors file, or several with
// an index.
#ifndef PLIMSOLL_SERVICES_CONVERT_CHECKPOINT_H_
#define PLIMSOLL_SERVICES_CONVERT_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/convert/safetensors.h"
#include "worker/device/open_file.h"

namespace plimsoll::services {

inline constexpr size_t kMaxShards = 1'024;
inline constexpr int64_t kMaxIndexBytes = 16 << 20;

// The files stay open. Not thread-safe.
class Checkpoint {
 public:
  struct Tensor {
    SafeTensor safe;
    size_t file;
  };

  // Opens model.safetensors in `folder`, or the files that
  // model.safetensors.index.json names, and reads their headers.
  // Errors: kNotFound if there is neither; kInvalidArgument naming the index
  // entry or the tensor that contradicts another; those of OpenFile and of
  // ReadSafetensors, with the name of the file.
  static absl::StatusOr<Checkpoint> Open(const std::string& folder);

  const std::vector<Tensor>& tensors() const { return tensors_; }

  // Fills `out` from byte `offset` of the tensor's data.
  absl::Status Read(const Tensor& tensor, int64_t offset,
                    std::span<std::byte> out) const;

  // Errors: kDataLoss naming a file that was changed since it was opened.
  absl::Status CheckUnchanged() const;

 private:
  struct File {
    std::string name;
    std::unique_ptr<worker::OpenFile> source;
  };

  absl::Status AddFile(const std::string& folder, const std::string& name);

  std::vector<File> files_;
  std::vector<Tensor> tensors_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_CONVERT_CHECKPOINT_H_
