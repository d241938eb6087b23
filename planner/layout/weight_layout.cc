#include "planner/layout/weight_layout.h"

#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/layout/cpu_experts.h"
#include "planner/model/weight_type.h"

namespace plimsoll::planner {
namespace {

absl::Status PlanTooBig() {
  return absl::OutOfRangeError("the plan does not fit in int64 bytes");
}

// Rows of every element type are padded to a multiple of this; a type that the
// device has no rule for is counted as it is in the file.
class RowMultiples {
 public:
  RowMultiples() { multiples_.fill(1); }
  explicit RowMultiples(const DeviceProfile& profile) : RowMultiples() {
    for (const StorageRule& rule : profile.storage) {
      multiples_[static_cast<size_t>(rule.dtype)] = rule.row_multiple;
    }
  }
  int64_t operator[](DType dtype) const {
    return multiples_[static_cast<size_t>(dtype)];
  }

 private:
  std::array<int64_t, kDTypeRows.size()> multiples_;
};

// Nothing if the tensor is empty, its rows are no whole blocks of `dtype` or
// its bytes do not fit in int64.
std::optional<int64_t> StoredBytes(const WeightTensor& tensor, DType dtype,
                                   const RowMultiples& multiples) {
  if (tensor.cols <= 0 || tensor.rows <= 0 || tensor.n_matrices <= 0) {
    return std::nullopt;
  }
  if (tensor.is_vector) {
    return (Checked(tensor.cols) * kFloatBytes * tensor.n_matrices).Get();
  }
  const DTypeInfo& info = InfoOf(dtype);
  if (tensor.cols % info.block_elems != 0) return std::nullopt;
  const auto rows = CheckedRoundUp(tensor.rows, multiples[dtype]);
  if (!rows) return std::nullopt;
  return (Checked(tensor.cols / info.block_elems) * info.block_bytes * *rows *
          tensor.n_matrices)
      .Get();
}

// Places weights one after another, as one device stores them.
class Packer {
 public:
  explicit Packer(const DeviceProfile& profile)
      : alignment_(profile.alignment), multiples_(profile) {}

  // Nothing if StoredBytes gives nothing. Overflow shows in bytes().
  std::optional<WeightPlacement> Add(const WeightTensor& tensor, DType dtype) {
    const auto stored = StoredBytes(tensor, dtype, multiples_);
    if (!stored) return std::nullopt;
    const Checked offset = AlignUp(bytes_, alignment_);
    bytes_ = offset + *stored;
    return WeightPlacement{offset.Get().value_or(0), *stored};
  }
  Checked bytes() const { return bytes_; }

 private:
  const int64_t alignment_;
  const RowMultiples multiples_;
  Checked bytes_ = 0;
};

// Sorts weights into their homes.
class Sorter {
 public:
  Sorter(const ModelShape& shape, const DeviceProfile& profile,
         const WeightHomes& homes)
      : shape_(shape), homes_(homes), device_(profile), cpu_(HostProfile()) {}

  bool IsForCpu(const WeightTensor& tensor) const {
    return IsCpuExpert(tensor, homes_.cpu_experts_end);
  }

  // Adds a tensor that has `in_file` bytes in the file. Returns its place on
  // the device, or on the CPU if it is for the CPU. Returns nothing if it
  // cannot be stored.
  std::optional<WeightPlacement> Add(const WeightTensor& tensor, DType dtype,
                                     int64_t in_file) {
    if (IsForCpu(tensor)) return cpu_.Add(tensor, dtype);
    if (StaysOnHost(tensor.kind, homes_.in_memory)) {
      host_ += in_file;
      return WeightPlacement{-1, in_file};
    }
    file_ += in_file;
    const bool is_mapped =
        (homes_.are_matrices_mapped && !tensor.is_vector) ||
        (homes_.are_tables_mapped && IsTable(shape_, tensor));
    if (!is_mapped) return device_.Add(tensor, dtype);
    mapped_ += in_file;
    return WeightPlacement{-1, in_file};
  }

  absl::StatusOr<WeightBytes> Bytes() const {
    WeightBytes bytes = {};
    ASSIGN_OR_RETURN(bytes.device, PlanBytes(device_.bytes()));
    ASSIGN_OR_RETURN(bytes.host, PlanBytes(host_));
    ASSIGN_OR_RETURN(bytes.cpu_experts, PlanBytes(cpu_.bytes()));
    ASSIGN_OR_RETURN(bytes.mapped, PlanBytes(mapped_));
    ASSIGN_OR_RETURN(bytes.file, PlanBytes(file_));
    return bytes;
  }

 private:
  const ModelShape& shape_;
  const WeightHomes& homes_;
  Packer device_;
  Packer cpu_;
  Checked host_ = 0;
  Checked mapped_ = 0;
  Checked file_ = 0;
};

absl::Status WhyNotStored(const WeightTensor& tensor) {
  if (tensor.cols <= 0 || tensor.rows <= 0 || tensor.n_matrices <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"", tensor.name, "\" is empty"));
  }
  if (tensor.is_vector) return PlanTooBig();
  RETURN_IF_ERROR(RowBytes(tensor.dtype, tensor.cols).status());
  return PlanTooBig();
}

}  // namespace

absl::StatusOr<int64_t> PlanBytes(Checked value) {
  if (const auto bytes = value.Get()) return *bytes;
  return PlanTooBig();
}

WeightHomes HomesOf(const ModelShape& shape, const PlanOptions& options) {
  WeightHomes homes = {.in_memory = options.engine.host_weights,
                       .cpu_experts_end = CpuExpertsEnd(
                           shape, options.n_cpu_experts.value_or(0))};
  // A reserve policy counts weights as they are in the file, wherever they lie.
  if (options.engine.policy != ReservePolicy::kExact) return homes;
  homes.are_tables_mapped = options.host_tables;
  homes.are_matrices_mapped = options.mmap_weights;
  return homes;
}

bool StaysOnHost(WeightKind kind, const HostWeights& host) {
  return (kind == WeightKind::kExpert && host.experts) ||
         (kind == WeightKind::kPerLayerEmbedding && host.per_layer_embeddings);
}

absl::StatusOr<WeightLayout> LayoutWeights(const ModelShape& shape,
                                           const DeviceProfile& profile,
                                           const WeightHomes& homes) {
  WeightLayout layout = {};
  layout.placements.reserve(shape.weights.size());
  const bool has_cpu_experts = homes.cpu_experts_end > 0;
  Sorter sorter(shape, profile, homes);
  for (const WeightTensor& tensor : shape.weights) {
    const auto place = sorter.Add(tensor, tensor.dtype, tensor.file_bytes);
    if (!place) return WhyNotStored(tensor);
    const WeightPlacement elsewhere = {-1, tensor.file_bytes};
    const bool is_for_cpu = has_cpu_experts && sorter.IsForCpu(tensor);
    layout.placements.push_back(is_for_cpu ? elsewhere : *place);
    if (!has_cpu_experts) continue;
    layout.cpu_placements.push_back(is_for_cpu ? *place : elsewhere);
  }
  ASSIGN_OR_RETURN(layout.bytes, sorter.Bytes());
  return layout;
}

absl::StatusOr<WeightBytes> WeightBytesAs(const ModelShape& shape,
                                          const DeviceProfile& profile,
                                          const WeightHomes& homes,
                                          DType dtype) {
  const RowMultiples unpadded;
  Sorter sorter(shape, profile, homes);
  for (const WeightTensor& tensor : shape.weights) {
    const DType stored = StorableType(dtype, tensor.cols);
    const auto in_file = tensor.is_vector
                             ? std::optional<int64_t>(tensor.file_bytes)
                             : StoredBytes(tensor, stored, unpadded);
    if (!in_file || !sorter.Add(tensor, stored, *in_file)) return PlanTooBig();
  }
  return sorter.Bytes();
}

}  // namespace plimsoll::planner
