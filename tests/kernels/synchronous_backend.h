// A backend that waits after every operation, so that tests may look at
// results at once. Errors of a kernel are those of its operation then.
#ifndef PLIMSOLL_TESTS_KERNELS_SYNCHRONOUS_BACKEND_H_
#define PLIMSOLL_TESTS_KERNELS_SYNCHRONOUS_BACKEND_H_

#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "kernels/backend.h"
#include "kernels/experts.h"
#include "kernels/heads.h"
#include "kernels/recurrent.h"

namespace plimsoll::kernels {

class SynchronousBackend : public Backend {
 public:
  explicit SynchronousBackend(std::unique_ptr<Backend> backend)
      : backend_(std::move(backend)) {}

  const DeviceInfo& Device() const override { return backend_->Device(); }
  absl::StatusOr<Buffer> Allocate(int64_t bytes, ChunkFence fence) override {
    return backend_->Allocate(bytes, fence);
  }
  int64_t Allocations() const override { return backend_->Allocations(); }
  absl::StatusOr<Buffer> AllocateHost(int64_t bytes) override {
    return backend_->AllocateHost(bytes);
  }
  absl::Status UploadRows(const WeightRows& rows, BufferView matrix) override {
    return Then(backend_->UploadRows(rows, matrix));
  }
  absl::Status Upload(std::span<const std::byte> host,
                      BufferView device) override {
    return Then(backend_->Upload(host, device));
  }
  absl::Status Download(BufferView device, std::span<std::byte> host) override {
    return Then(backend_->Download(device, host));
  }
  absl::Status Clear(BufferView memory) override {
    return Then(backend_->Clear(memory));
  }
  absl::Status GetRows(const GetRowsArgs& args) override {
    return Then(backend_->GetRows(args));
  }
  absl::Status RmsNorm(const RmsNormArgs& args) override {
    return Then(backend_->RmsNorm(args));
  }
  absl::Status AddNorm(const AddNormArgs& args) override {
    return Then(backend_->AddNorm(args));
  }
  absl::Status PackActivations(const PackActivationsArgs& args) override {
    return Then(backend_->PackActivations(args));
  }
  absl::Status MatMuls(std::span<const MatMulArgs> products) override {
    return Then(backend_->MatMuls(products));
  }
  absl::Status HeadMatMul(const HeadMatMulArgs& args) override {
    return Then(backend_->HeadMatMul(args));
  }
  absl::Status AddBiases(std::span<const AddBiasArgs> biases) override {
    return Then(backend_->AddBiases(biases));
  }
  absl::Status RopeAngles(const RopeAnglesArgs& args) override {
    return Then(backend_->RopeAngles(args));
  }
  absl::Status Rope(const RopeArgs& args) override {
    return Then(backend_->Rope(args));
  }
  absl::Status ScaleRows(const ScaleRowsArgs& args) override {
    return Then(backend_->ScaleRows(args));
  }
  absl::Status CutRows(const CutRowsArgs& args) override {
    return Then(backend_->CutRows(args));
  }
  absl::Status MixRows(const MixRowsArgs& args) override {
    return Then(backend_->MixRows(args));
  }
  absl::Status Hadamard(const HadamardArgs& args) override {
    return Then(backend_->Hadamard(args));
  }
  absl::Status StoreRows(const StoreRowsArgs& args) override {
    return Then(backend_->StoreRows(args));
  }
  absl::Status CopyRows(const CopyRowsArgs& args) override {
    return Then(backend_->CopyRows(args));
  }
  absl::Status PrepareHeads(const PrepareHeadsArgs& args) override {
    return Then(backend_->PrepareHeads(args));
  }
  absl::Status Attention(const AttentionArgs& args) override {
    return Then(backend_->Attention(args));
  }
  absl::Status GatedActivation(const GatedActivationArgs& args) override {
    return Then(backend_->GatedActivation(args));
  }
  absl::Status RouteExperts(const RouteExpertsArgs& args) override {
    return Then(backend_->RouteExperts(args));
  }
  absl::StatusOr<const std::byte*> GatedExpertMatMul(
      const GatedExpertMatMulArgs& args) override {
    absl::StatusOr<const std::byte*> packed = backend_->GatedExpertMatMul(args);
    RETURN_IF_ERROR(Then(packed.status()));
    return packed;
  }
  absl::Status ExpertSumMatMul(const ExpertSumMatMulArgs& args) override {
    return Then(backend_->ExpertSumMatMul(args));
  }
  absl::Status CausalConv(const CausalConvArgs& args) override {
    return Then(backend_->CausalConv(args));
  }
  absl::Status StateScan(const StateScanArgs& args) override {
    return Then(backend_->StateScan(args));
  }
  absl::Status GatedNorm(const GatedNormArgs& args) override {
    return Then(backend_->GatedNorm(args));
  }
  absl::Status TopK(const TopKArgs& args) override {
    return Then(backend_->TopK(args));
  }
  absl::StatusOr<SampledToken> Sample(const SampleArgs& args) override {
    return backend_->Sample(args);
  }
  absl::Status Synchronize() override { return backend_->Synchronize(); }
  // What is held is not waited for.
  absl::Status BeginStep(int64_t n_rows) override {
    RETURN_IF_ERROR(backend_->BeginStep(n_rows));
    is_in_step_ = true;
    return absl::OkStatus();
  }
  absl::Status EndStep() override {
    is_in_step_ = false;
    return Then(backend_->EndStep());
  }

 private:
  absl::Status Then(const absl::Status& status) {
    RETURN_IF_ERROR(status);
    if (is_in_step_) return absl::OkStatus();
    return backend_->Synchronize();
  }

  std::unique_ptr<Backend> backend_;
  bool is_in_step_ = false;
};

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_TESTS_KERNELS_SYNCHRONOUS_BACKEND_H_
