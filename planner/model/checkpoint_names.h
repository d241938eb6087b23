// The table that maps tensors of a checkpoint to tensors of a GGUF file.
#ifndef PLIMSOLL_PLANNER_MODEL_CHECKPOINT_NAMES_H_
#define PLIMSOLL_PLANNER_MODEL_CHECKPOINT_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/model/architecture.h"

namespace plimsoll::planner {

// How one tensor of a checkpoint is converted.
struct FileTensor {
  std::string name;  // in the file
  // Orders the tensors of a file: first tensors without a layer, then layer by
  // layer.
  int64_t place;
  // True if rows change places by SourceRow.
  bool moves_rows = false;
  // True if 1 is added to every element.
  bool adds_one = false;
};

// Returns how the tensor `name` is converted, or nothing if a file does not
// have it. A file has no tensors of a model's parts for pictures and sounds,
// and no tables of rotations.
// Errors: kInvalidArgument naming a tensor that is not known.
absl::StatusOr<std::optional<FileTensor>> FindFileTensor(
    const Architecture& architecture, absl::string_view name);

// Returns OK if checkpoints of the architecture can be converted.
// Errors: kUnimplemented naming the architectures that can be converted.
absl::Status CheckConvertible(const Architecture& architecture);

// Returns the source of row `row` of the file's queries or keys: a row of the
// checkpoint's tensor. The file's heads have adjacent pairs, the checkpoint's
// heads have halves. The first `n_rot` of a head's `head_dim` rows change
// places.
int64_t SourceRow(int64_t row, int64_t head_dim, int64_t n_rot);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_CHECKPOINT_NAMES_H_
