#include "services/convert/file_tensors.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_stream.h"
#include "planner/model/model_shape.h"

namespace plimsoll::services {
namespace {

constexpr absl::string_view kEmbedding = "token_embd.weight";
constexpr absl::string_view kOutput = "output.weight";

// The type of a matrix. The vocabulary's tables are worth more bits than the
// rest of a model in four.
DType WantedType(absl::string_view name, DType checkpoint,
                 std::optional<DType> dtype) {
  if (!dtype) return checkpoint;
  const bool is_of_vocabulary = name == kEmbedding || name == kOutput;
  const bool has_four_bits = *dtype == DType::kQ4_0 || *dtype == DType::kQ4_K;
  return is_of_vocabulary && has_four_bits ? DType::kQ6_K : *dtype;
}

// A tensor of the file without its place there.
absl::StatusOr<planner::GgufTensor> TensorOf(const std::string& name,
                                             const SafeTensor& safe,
                                             std::optional<DType> dtype) {
  if (!safe.dtype) {
    return absl::UnimplementedError(
        absl::StrCat("tensor ", planner::Quoted(safe.name), " is of type ",
                     safe.type, "; F32, F16 and BF16 can be converted"));
  }
  const size_t n_dims = safe.shape.size();
  if (n_dims < 1 || n_dims > 2 || safe.bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", planner::Quoted(safe.name),
                     " is neither a vector nor a matrix"));
  }
  planner::GgufTensor tensor = {.name = name,
                                .dtype = DType::kF32,
                                .n_dims = static_cast<int>(n_dims),
                                .ne = {safe.shape.back(), 1, 1, 1},
                                .offset = 0,
                                .bytes = 0};
  if (n_dims == 2) {
    tensor.ne[1] = safe.shape.front();
    tensor.dtype = planner::StorableType(WantedType(name, *safe.dtype, dtype),
                                         tensor.ne[0]);
  }
  return tensor;
}

// Sets offsets and sizes.
absl::Status Place(int64_t alignment, FileTensors& file) {
  Checked end = 0;
  for (TensorSource& source : file.sources) {
    planner::GgufTensor& tensor = source.tensor;
    ASSIGN_OR_RETURN(const int64_t row, RowBytes(tensor.dtype, tensor.ne[0]));
    const Checked bytes = Checked(row) * tensor.ne[1];
    tensor.offset = end.Get().value_or(0);
    tensor.bytes = bytes.Get().value_or(0);
    end = RoundUp(end + bytes, alignment);
  }
  const auto data_bytes = end.Get();
  if (!data_bytes) {
    return absl::OutOfRangeError("the model does not fit in int64 bytes");
  }
  file.data_bytes = *data_bytes;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FileTensors> LayTensorsOut(const ModelConfig& config,
                                          const Checkpoint& checkpoint,
                                          std::optional<DType> dtype,
                                          int64_t alignment) {
  FileTensors file;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    ASSIGN_OR_RETURN(auto change, planner::FindFileTensor(*config.architecture,
                                                          tensor.safe.name));
    // An output that is the embedding may be there nevertheless.
    if (!change || (config.is_tied && change->name == kOutput)) {
      ++file.n_left_out;
      continue;
    }
    ASSIGN_OR_RETURN(planner::GgufTensor made,
                     TensorOf(change->name, tensor.safe, dtype));
    file.sources.push_back(
        {std::move(made), *std::move(change), &tensor, nullptr});
  }
  for (const ConfigVector& vector : config.vectors) {
    const auto n = static_cast<int64_t>(vector.values.size());
    file.sources.push_back({{.name = vector.name,
                             .dtype = DType::kF32,
                             .n_dims = 1,
                             .ne = {n, 1, 1, 1},
                             .offset = 0,
                             .bytes = 0},
                            {.name = vector.name, .place = 0},
                            nullptr,
                            &vector});
  }
  std::sort(file.sources.begin(), file.sources.end(),
            [](const TensorSource& a, const TensorSource& b) {
              return std::pair<int64_t, absl::string_view>(a.change.place,
                                                           a.change.name) <
                     std::pair<int64_t, absl::string_view>(b.change.place,
                                                           b.change.name);
            });
  RETURN_IF_ERROR(Place(alignment, file));
  return file;
}

}  // namespace plimsoll::services
