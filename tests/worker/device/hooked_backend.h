// A backend with hooks around each operation, for tests of what engines do to a
// device, and of what devices do to engines.
#ifndef PLIMSOLL_TESTS_WORKER_DEVICE_HOOKED_BACKEND_H_
#define PLIMSOLL_TESTS_WORKER_DEVICE_HOOKED_BACKEND_H_

#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "base/status_macros.h"
#include "kernels/backend.h"
#include "kernels/heads.h"

namespace plimsoll::testing {

struct BackendHooks {
  // Before an operation; an error is the operation's then.
  std::function<absl::Status()> before = [] { return absl::OkStatus(); };
  std::function<void()> after = [] {};
  // What is done with memory that was allocated.
  std::function<kernels::Buffer(kernels::Buffer)> allocated =
      [](kernels::Buffer buffer) { return buffer; };
  // What the host was given.
  std::function<void(const kernels::Buffer&)> allocated_host =
      [](const kernels::Buffer&) {};
  // Before plain bytes go up.
  std::function<void()> uploading = [] {};
  // The rows of a step that only decodes.
  std::function<void(int64_t)> begun = [](int64_t) {};
  std::function<void(const kernels::AttentionArgs&)> attending =
      [](const kernels::AttentionArgs&) {};
  // Called before rows are copied.
  std::function<void()> copying = [] {};
  // Called before memory is zeroed.
  std::function<void(kernels::BufferView)> clearing = [](kernels::BufferView) {
  };
  // Changes what the backend says of itself.
  std::function<void(kernels::DeviceInfo&)> described =
      [](kernels::DeviceInfo&) {};
  // Called after a download, with its bytes.
  std::function<void(int64_t)> downloaded = [](int64_t) {};
  // Called before a draw from a whole row.
  std::function<void()> sampling = [] {};
  // Called with the scratch that the kernels were given.
  std::function<void(kernels::BufferView)> scratch = [](kernels::BufferView) {};
};

class HookedBackend final : public kernels::Backend {
 public:
  HookedBackend(std::unique_ptr<kernels::Backend> backend, BackendHooks hooks)
      : backend_(std::move(backend)),
        hooks_(std::move(hooks)),
        info_(backend_->Device()) {
    hooks_.described(info_);
  }

  const kernels::DeviceInfo& Device() const override { return info_; }
  absl::StatusOr<kernels::Buffer> Allocate(int64_t bytes,
                                           kernels::ChunkFence fence) override {
    ASSIGN_OR_RETURN(kernels::Buffer buffer, backend_->Allocate(bytes, fence));
    return hooks_.allocated(std::move(buffer));
  }
  int64_t Allocations() const override { return backend_->Allocations(); }
  absl::StatusOr<kernels::Buffer> AllocateHost(int64_t bytes) override {
    ASSIGN_OR_RETURN(kernels::Buffer buffer, backend_->AllocateHost(bytes));
    hooks_.allocated_host(buffer);
    return buffer;
  }
  absl::Status UseScratch(kernels::BufferView scratch) override {
    hooks_.scratch(scratch);
    return backend_->UseScratch(scratch);
  }
  absl::Status UploadRows(const kernels::WeightRows& rows,
                          kernels::BufferView matrix) override {
    return Around([&] { return backend_->UploadRows(rows, matrix); });
  }
  absl::Status Upload(std::span<const std::byte> host,
                      kernels::BufferView device) override {
    hooks_.uploading();
    return Around([&] { return backend_->Upload(host, device); });
  }
  absl::Status Download(kernels::BufferView device,
                        std::span<std::byte> host) override {
    absl::Status status =
        Around([&] { return backend_->Download(device, host); });
    hooks_.downloaded(device.bytes);
    return status;
  }
  absl::Status Clear(kernels::BufferView memory) override {
    hooks_.clearing(memory);
    return Around([&] { return backend_->Clear(memory); });
  }
  absl::Status GetRows(const kernels::GetRowsArgs& args) override {
    return Around([&] { return backend_->GetRows(args); });
  }
  absl::Status RmsNorm(const kernels::RmsNormArgs& args) override {
    return Around([&] { return backend_->RmsNorm(args); });
  }
  absl::Status AddNorm(const kernels::AddNormArgs& args) override {
    return Around([&] { return backend_->AddNorm(args); });
  }
  absl::Status PackActivations(
      const kernels::PackActivationsArgs& args) override {
    return Around([&] { return backend_->PackActivations(args); });
  }
  absl::Status MatMuls(std::span<const kernels::MatMulArgs> args) override {
    return Around([&] { return backend_->MatMuls(args); });
  }
  absl::Status HeadMatMul(const kernels::HeadMatMulArgs& args) override {
    return Around([&] { return backend_->HeadMatMul(args); });
  }
  absl::Status AddBiases(std::span<const kernels::AddBiasArgs> args) override {
    return Around([&] { return backend_->AddBiases(args); });
  }
  absl::Status RopeAngles(const kernels::RopeAnglesArgs& args) override {
    return Around([&] { return backend_->RopeAngles(args); });
  }
  absl::Status Rope(const kernels::RopeArgs& args) override {
    return Around([&] { return backend_->Rope(args); });
  }
  absl::Status ScaleRows(const kernels::ScaleRowsArgs& args) override {
    return Around([&] { return backend_->ScaleRows(args); });
  }
  absl::Status CutRows(const kernels::CutRowsArgs& args) override {
    return Around([&] { return backend_->CutRows(args); });
  }
  absl::Status MixRows(const kernels::MixRowsArgs& args) override {
    return Around([&] { return backend_->MixRows(args); });
  }
  absl::Status Hadamard(const kernels::HadamardArgs& args) override {
    return Around([&] { return backend_->Hadamard(args); });
  }
  absl::Status StoreRows(const kernels::StoreRowsArgs& args) override {
    return Around([&] { return backend_->StoreRows(args); });
  }
  absl::Status CopyRows(const kernels::CopyRowsArgs& args) override {
    hooks_.copying();
    return Around([&] { return backend_->CopyRows(args); });
  }
  absl::Status PrepareHeads(const kernels::PrepareHeadsArgs& args) override {
    return Around([&] { return backend_->PrepareHeads(args); });
  }
  absl::Status Attention(const kernels::AttentionArgs& args) override {
    hooks_.attending(args);
    return Around([&] { return backend_->Attention(args); });
  }
  absl::Status GatedActivation(
      const kernels::GatedActivationArgs& args) override {
    return Around([&] { return backend_->GatedActivation(args); });
  }
  absl::StatusOr<const std::byte*> GatedMatMul(
      const kernels::GatedMatMulArgs& args) override {
    const std::byte* packed = nullptr;
    RETURN_IF_ERROR(Around([&]() -> absl::Status {
      ASSIGN_OR_RETURN(packed, backend_->GatedMatMul(args));
      return absl::OkStatus();
    }));
    return packed;
  }
  absl::Status RouteExperts(const kernels::RouteExpertsArgs& args) override {
    return Around([&] { return backend_->RouteExperts(args); });
  }
  absl::StatusOr<const std::byte*> GatedExpertMatMul(
      const kernels::GatedExpertMatMulArgs& args) override {
    const std::byte* packed = nullptr;
    RETURN_IF_ERROR(Around([&]() -> absl::Status {
      ASSIGN_OR_RETURN(packed, backend_->GatedExpertMatMul(args));
      return absl::OkStatus();
    }));
    return packed;
  }
  absl::Status ExpertSumMatMul(
      const kernels::ExpertSumMatMulArgs& args) override {
    return Around([&] { return backend_->ExpertSumMatMul(args); });
  }
  absl::Status CausalConv(const kernels::CausalConvArgs& args) override {
    return Around([&] { return backend_->CausalConv(args); });
  }
  absl::Status StateScan(const kernels::StateScanArgs& args) override {
    return Around([&] { return backend_->StateScan(args); });
  }
  absl::Status GatedNorm(const kernels::GatedNormArgs& args) override {
    return Around([&] { return backend_->GatedNorm(args); });
  }
  absl::Status TopK(const kernels::TopKArgs& args) override {
    return Around([&] { return backend_->TopK(args); });
  }
  absl::StatusOr<kernels::SampledToken> Sample(
      const kernels::SampleArgs& args) override {
    hooks_.sampling();
    kernels::SampledToken token = {};
    RETURN_IF_ERROR(Around([&]() -> absl::Status {
      ASSIGN_OR_RETURN(token, backend_->Sample(args));
      return absl::OkStatus();
    }));
    return token;
  }
  absl::Status BeginStep(int64_t n_rows) override {
    hooks_.begun(n_rows);
    return Around([&] { return backend_->BeginStep(n_rows); });
  }
  absl::Status EndStep() override {
    return Around([&] { return backend_->EndStep(); });
  }
  void EndWarmUp() override { backend_->EndWarmUp(); }
  absl::Status Synchronize() override {
    return Around([&] { return backend_->Synchronize(); });
  }

 private:
  template <class Operation>
  absl::Status Around(const Operation& operation) {
    RETURN_IF_ERROR(hooks_.before());
    absl::Status status = operation();
    hooks_.after();
    return status;
  }

  std::unique_ptr<kernels::Backend> backend_;
  const BackendHooks hooks_;
  kernels::DeviceInfo info_;
};

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_DEVICE_HOOKED_BACKEND_H_
