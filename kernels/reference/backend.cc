// The reference backend: one thread, weights as in the file.
#include "kernels/backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/experts.h"
#include "kernels/heads.h"
#include "kernels/memory.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/packed_row.h"
#include "kernels/recurrent.h"
#include "kernels/reference/ops.h"
#include "kernels/validate.h"
#include "kernels/validate_recurrent.h"

namespace plimsoll::kernels {
namespace {

class ReferenceBackend : public Backend {
 public:
  ReferenceBackend() {
    info_.id = "reference";
    info_.kind = "cpu";
    info_.name = "reference";
    info_.total_bytes = PhysicalMemoryBytes();
    info_.free_bytes = info_.total_bytes;
    info_.alignment = kCpuAlignment;
    for (const DTypeInfo& type : kDTypes) {
      if (IsWeightType(type.dtype)) info_.storage.push_back({type.dtype, 1});
    }
    info_.activation_block = kActivationBlock;
    info_.activation_block_bytes = kActivationBlockBytes;
    info_.scratch_bytes = 0;
  }

  const DeviceInfo& Device() const override { return info_; }

  absl::StatusOr<Buffer> Allocate(int64_t bytes, ChunkFence fence) override {
    ++n_allocations_;
    return AllocateHuge(bytes, fence, [](std::byte* data, int64_t size) {
      std::memset(data, 0, static_cast<size_t>(size));
    });
  }
  int64_t Allocations() const override { return n_allocations_; }

  absl::Status UploadRows(const WeightRows& rows, BufferView matrix) override {
    ASSIGN_OR_RETURN(const RowsSize given,
                     ValidateRows(rows, matrix, /*row_multiple=*/1));
    std::ranges::copy(rows.bytes,
                      matrix.data + rows.first_row * given.row_bytes);
    return absl::OkStatus();
  }

  absl::Status Upload(std::span<const std::byte> host,
                      BufferView device) override {
    return CopyChecked(host.data(), static_cast<int64_t>(host.size()),
                       device.data, device.bytes);
  }
  absl::Status Download(BufferView device, std::span<std::byte> host) override {
    return CopyChecked(device.data, device.bytes, host.data(),
                       static_cast<int64_t>(host.size()));
  }
  absl::Status Clear(BufferView memory) override {
    if (memory.bytes > 0) {
      std::memset(memory.data, 0, static_cast<size_t>(memory.bytes));
    }
    return absl::OkStatus();
  }

  absl::Status GetRows(const GetRowsArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    return reference::GetRows(args);
  }
  absl::Status RmsNorm(const RmsNormArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    reference::RmsNorm(args);
    Pack(args.out, args.n_rows, args.dim, args.packed);
    return absl::OkStatus();
  }
  absl::Status PackActivations(const PackActivationsArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    reference::PackActivations(args);
    return absl::OkStatus();
  }
  absl::Status MatMuls(std::span<const MatMulArgs> products) override {
    for (const MatMulArgs& args : products) {
      RETURN_IF_ERROR(Validate(args));
      RETURN_IF_ERROR(reference::MatMul(args));
    }
    return absl::OkStatus();
  }
  absl::Status HeadMatMul(const HeadMatMulArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    return reference::HeadMatMul(args);
  }
  absl::Status AddBiases(std::span<const AddBiasArgs> biases) override {
    RETURN_IF_ERROR(Validate(biases));
    for (const AddBiasArgs& args : biases) reference::AddBias(args);
    return absl::OkStatus();
  }
  absl::Status RopeAngles(const RopeAnglesArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    reference::RopeAngles(args);
    return absl::OkStatus();
  }
  absl::Status Rope(const RopeArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    reference::Rope(args);
    return absl::OkStatus();
  }
  absl::Status ScaleRows(const ScaleRowsArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    reference::ScaleRows(args);
    return absl::OkStatus();
  }
  absl::Status CutRows(const CutRowsArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    reference::CutRows(args);
    return absl::OkStatus();
  }
  absl::Status MixRows(const MixRowsArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    reference::MixRows(args);
    return absl::OkStatus();
  }
  absl::Status Hadamard(const HadamardArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    reference::Hadamard(args);
    return absl::OkStatus();
  }
  absl::Status StoreRows(const StoreRowsArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    reference::StoreRows(args);
    return absl::OkStatus();
  }
  absl::Status CopyRows(const CopyRowsArgs& args) override {
    reference::CopyRows(args);
    return absl::OkStatus();
  }
  absl::Status Attention(const AttentionArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    reference::Attention(args);
    if (args.packed != nullptr) reference::PackActivations(PackingOf(args));
    return absl::OkStatus();
  }
  absl::Status GatedActivation(const GatedActivationArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    reference::GatedActivation(args);
    Pack(args.out, args.n_rows, args.dim, args.packed);
    return absl::OkStatus();
  }
  absl::Status RouteExperts(const RouteExpertsArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    reference::RouteExperts(args);
    return absl::OkStatus();
  }
  absl::StatusOr<const std::byte*> GatedExpertMatMul(
      const GatedExpertMatMulArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    RETURN_IF_ERROR(reference::GatedExpertMatMul(args));
    return args.packed_out;
  }
  absl::Status ExpertSumMatMul(const ExpertSumMatMulArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    return reference::ExpertSumMatMul(args);
  }
  absl::Status CausalConv(const CausalConvArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    reference::CausalConv(args);
    return absl::OkStatus();
  }
  absl::Status StateScan(const StateScanArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    reference::StateScan(args);
    return absl::OkStatus();
  }
  absl::Status GatedNorm(const GatedNormArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    reference::GatedNorm(args);
    Pack(args.out, args.n_rows, args.RowFloats(), args.packed);
    return absl::OkStatus();
  }
  absl::Status TopK(const TopKArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    reference::TopK(args);
    return absl::OkStatus();
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }

 private:
  static void Pack(const float* x, int64_t n_rows, int64_t dim,
                   std::byte* packed) {
    if (packed == nullptr) return;
    reference::PackActivations({x, n_rows, dim, packed});
  }

  DeviceInfo info_;
  int64_t n_allocations_ = 0;
};

}  // namespace

std::unique_ptr<Backend> NewReferenceBackend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace plimsoll::kernels
