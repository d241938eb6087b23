// The CPU backend: checks arguments, then runs an operation on its pool.
#include "kernels/backend.h"

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/pack_weights.h"
#include "kernels/cpu/path_timing.h"
#include "kernels/cpu/target.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/experts.h"
#include "kernels/heads.h"
#include "kernels/memory.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/packed_row.h"
#include "kernels/recurrent.h"
#include "kernels/validate.h"
#include "kernels/validate_recurrent.h"

namespace plimsoll::kernels {
namespace {

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(ThreadPool& pool)
      : pool_(pool),
        attention_scratch_(
            static_cast<size_t>(cpu::AttentionScratchFloats(pool.n_threads()))),
        top_scratch_(static_cast<size_t>(pool.n_threads() * cpu::kMaxTopRows)) {
    info_.id = "cpu";
    info_.kind = "cpu";
    info_.name = absl::StrCat(CpuBrand(), " (", CpuVectors(), ")");
    info_.total_bytes = PhysicalMemoryBytes();
    info_.free_bytes = info_.total_bytes;
    info_.alignment = kCpuAlignment;
    for (const DTypeInfo& type : kDTypes) {
      if (IsWeightType(type.dtype)) {
        info_.storage.push_back({type.dtype, cpu::kPanelRows});
      }
    }
    info_.activation_block = kActivationBlock;
    info_.activation_block_bytes = kActivationBlockBytes;
    info_.scratch_bytes =
        static_cast<int64_t>(attention_scratch_.size() * sizeof(float) +
                             top_scratch_.size() * sizeof(cpu::TopList));
  }

  const DeviceInfo& Device() const override { return info_; }

  absl::StatusOr<Buffer> Allocate(int64_t bytes, ChunkFence fence) override {
    ++n_allocations_;
    // A load allocates first, before any engine has computed anything.
    TimeCpuTargets();
    // Pages are touched by the threads that will read them.
    return AllocateHuge(bytes, fence, [this](std::byte* data, int64_t size) {
      pool_.ParallelFor(
          size / kHugePageBytes, 1, [data](int64_t begin, int64_t end, int) {
            std::memset(data + begin * kHugePageBytes, 0,
                        static_cast<size_t>((end - begin) * kHugePageBytes));
          });
    });
  }
  int64_t Allocations() const override { return n_allocations_; }

  absl::Status UploadRows(const WeightRows& rows, BufferView matrix) override;

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
    constexpr int64_t kTaskBytes = int64_t{256} << 10;
    pool_.ParallelFor(
        memory.bytes, kTaskBytes, [&](int64_t begin, int64_t end, int) {
          std::memset(memory.data + begin, 0, static_cast<size_t>(end - begin));
        });
    return absl::OkStatus();
  }

  absl::Status GetRows(const GetRowsArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::GetRows(args, pool_);
    return absl::OkStatus();
  }
  absl::Status RmsNorm(const RmsNormArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::RmsNorm(args, pool_);
    return absl::OkStatus();
  }
  absl::Status AddNorm(const AddNormArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::AddNorm(args, pool_);
    return absl::OkStatus();
  }
  absl::Status PackActivations(const PackActivationsArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::PackActivations(args, pool_);
    return absl::OkStatus();
  }
  absl::Status MatMuls(std::span<const MatMulArgs> products) override {
    for (const MatMulArgs& args : products) RETURN_IF_ERROR(Validate(args));
    cpu::MatMuls(products, pool_, top_scratch_.data());
    for (const MatMulArgs& args : products) {
      if (args.soft_cap > 0) cpu::SoftCap(args, pool_);
    }
    return absl::OkStatus();
  }
  absl::Status HeadMatMul(const HeadMatMulArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::HeadMatMul(args, pool_);
    return absl::OkStatus();
  }
  absl::Status AddBiases(std::span<const AddBiasArgs> biases) override {
    RETURN_IF_ERROR(Validate(biases));
    for (const AddBiasArgs& args : biases) cpu::AddBias(args, pool_);
    return absl::OkStatus();
  }
  absl::Status RopeAngles(const RopeAnglesArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::RopeAngles(args, pool_);
    return absl::OkStatus();
  }
  absl::Status Rope(const RopeArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::Rope(args, pool_);
    return absl::OkStatus();
  }
  absl::Status ScaleRows(const ScaleRowsArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::ScaleRows(args, pool_);
    return absl::OkStatus();
  }
  absl::Status CutRows(const CutRowsArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::CutRows(args, pool_);
    return absl::OkStatus();
  }
  absl::Status MixRows(const MixRowsArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::MixRows(args, pool_);
    return absl::OkStatus();
  }
  absl::Status Hadamard(const HadamardArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::Hadamard(args, pool_);
    return absl::OkStatus();
  }
  absl::Status StoreRows(const StoreRowsArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::StoreRows(args, pool_);
    return absl::OkStatus();
  }
  absl::Status CopyRows(const CopyRowsArgs& args) override {
    cpu::CopyRows(args, pool_);
    return absl::OkStatus();
  }
  absl::Status Attention(const AttentionArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::Attention(args, pool_, attention_scratch_.data());
    if (args.packed != nullptr) cpu::PackActivations(PackingOf(args), pool_);
    return absl::OkStatus();
  }
  absl::Status GatedActivation(const GatedActivationArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::GatedActivation(args, pool_);
    return absl::OkStatus();
  }
  absl::StatusOr<const std::byte*> GatedMatMul(
      const GatedMatMulArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    if (!cpu::FusesGatedMatMul(args)) return Backend::GatedMatMul(args);
    return cpu::GatedMatMul(args, pool_);
  }
  absl::Status RouteExperts(const RouteExpertsArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::RouteExperts(args, pool_);
    return absl::OkStatus();
  }
  absl::StatusOr<const std::byte*> GatedExpertMatMul(
      const GatedExpertMatMulArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    return cpu::GatedExpertMatMul(args, pool_);
  }
  absl::Status ExpertSumMatMul(const ExpertSumMatMulArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::ExpertSumMatMul(args, pool_);
    return absl::OkStatus();
  }
  absl::Status CausalConv(const CausalConvArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::CausalConv(args, pool_);
    return absl::OkStatus();
  }
  absl::Status StateScan(const StateScanArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::StateScan(args, pool_);
    return absl::OkStatus();
  }
  absl::Status GatedNorm(const GatedNormArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::GatedNorm(args, pool_);
    return absl::OkStatus();
  }
  absl::Status TopK(const TopKArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    cpu::TopK(args, pool_, top_scratch_.data());
    return absl::OkStatus();
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }

 private:
  ThreadPool& pool_;
  DeviceInfo info_;
  std::vector<float> attention_scratch_;
  std::vector<cpu::TopList> top_scratch_;
  int64_t n_allocations_ = 0;
};

absl::Status CpuBackend::UploadRows(const WeightRows& rows, BufferView matrix) {
  ASSIGN_OR_RETURN(const RowsSize given,
                   ValidateRows(rows, matrix, cpu::kPanelRows));
  const int64_t n_panels =
      (given.n_rows + cpu::kPanelRows - 1) / cpu::kPanelRows;
  pool_.ParallelFor(n_panels, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) {
      cpu::PackPanel(rows, p, matrix.data);
    }
  });
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Backend> NewCpuBackend(ThreadPool& pool) {
  return std::make_unique<CpuBackend>(pool);
}

}  // namespace plimsoll::kernels
