// The CUDA backend: checks arguments, then queues an operation on its stream.
#include "kernels/backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#ifdef PLIMSOLL_CUDA_EMULATED
#include "kernels/cuda/emulated_backend.h"
#endif
#include "kernels/cuda/ops.h"
#include "kernels/cuda/weight_layout.h"
#include "kernels/experts.h"
#include "kernels/heads.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/packed_row.h"
#include "kernels/recurrent.h"
#include "kernels/validate.h"
#include "kernels/validate_recurrent.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

// Tensors and regions have the alignment of cudaMalloc.
constexpr int64_t kAlignment = 256;
// Allocations are whole pages of the device's memory.
constexpr int64_t kPageBytes = int64_t{2} << 20;

// Owns the stream and the kernels' own memory. Called from one thread at a
// time, which may be any: each call selects the device for its thread.
class CudaBackend : public Backend {
 public:
  CudaBackend() = default;
  ~CudaBackend() override {
    if (context_.stream != nullptr) {
      (void)UseDevice(device_);
      (void)WaitForStream(context_.stream);
    }
    FreeDevice(own_);
    FreePinned(context_.results);
    Destroy(context_.stream);
  }

  absl::Status Open(int device, const CudaOptions& options);

  const DeviceInfo& Device() const override { return info_; }

  absl::StatusOr<Buffer> Allocate(int64_t bytes, ChunkFence fence) override;
  int64_t Allocations() const override { return n_allocations_; }
  absl::StatusOr<Buffer> AllocateHost(int64_t bytes) override;
  absl::Status UseScratch(BufferView scratch) override;

  absl::Status UploadRows(const WeightRows& rows, BufferView matrix) override;
  absl::Status Upload(std::span<const std::byte> host,
                      BufferView device) override;
  absl::Status Download(BufferView device, std::span<std::byte> host) override;
  absl::Status Clear(BufferView memory) override;

  absl::Status GetRows(const GetRowsArgs& args) override {
    return Run(args, [&] { return PLIMSOLL_CUDA::GetRows(context_, args); });
  }
  absl::Status RmsNorm(const RmsNormArgs& args) override {
    return Run(args, [&] {
      PLIMSOLL_CUDA::RmsNorm(context_, args);
      return absl::OkStatus();
    });
  }
  absl::Status AddNorm(const AddNormArgs& args) override {
    return Run(args, [&] {
      PLIMSOLL_CUDA::AddNorm(context_, args);
      return absl::OkStatus();
    });
  }
  absl::Status PackActivations(const PackActivationsArgs& args) override {
    return Run(args, [&] {
      PLIMSOLL_CUDA::PackActivations(context_, args);
      return absl::OkStatus();
    });
  }
  absl::Status MatMuls(std::span<const MatMulArgs> products) override {
    for (const MatMulArgs& args : products) RETURN_IF_ERROR(Validate(args));
    RETURN_IF_ERROR(UseDevice(device_));
    RETURN_IF_ERROR(HaveScratch());
    PLIMSOLL_CUDA::MatMuls(context_, products);
    for (const MatMulArgs& args : products) {
      if (args.soft_cap > 0) PLIMSOLL_CUDA::SoftCap(context_, args);
    }
    return LaunchStatus();
  }
  absl::Status HeadMatMul(const HeadMatMulArgs& args) override {
    return Run(args, [&] {
      PLIMSOLL_CUDA::HeadMatMul(context_, args);
      return absl::OkStatus();
    });
  }
  absl::Status AddBiases(std::span<const AddBiasArgs> biases) override {
    return Run(biases, [&] {
      PLIMSOLL_CUDA::AddBiases(context_, biases);
      return absl::OkStatus();
    });
  }
  absl::Status RopeAngles(const RopeAnglesArgs& args) override {
    return Run(args, [&] { return PLIMSOLL_CUDA::RopeAngles(context_, args); });
  }
  absl::Status Rope(const RopeArgs& args) override {
    return Run(args, [&] {
      PLIMSOLL_CUDA::Rope(context_, args);
      return absl::OkStatus();
    });
  }
  absl::Status ScaleRows(const ScaleRowsArgs& args) override {
    return Run(args, [&] { return PLIMSOLL_CUDA::ScaleRows(context_, args); });
  }
  absl::Status CutRows(const CutRowsArgs& args) override {
    return Run(args, [&] {
      PLIMSOLL_CUDA::CutRows(context_, args);
      return absl::OkStatus();
    });
  }
  absl::Status MixRows(const MixRowsArgs& args) override {
    return Run(args, [&] {
      PLIMSOLL_CUDA::MixRows(context_, args);
      return absl::OkStatus();
    });
  }
  absl::Status Hadamard(const HadamardArgs& args) override {
    return Run(args, [&] {
      PLIMSOLL_CUDA::Hadamard(context_, args);
      return absl::OkStatus();
    });
  }
  absl::Status StoreRows(const StoreRowsArgs& args) override {
    return Run(args, [&] { return PLIMSOLL_CUDA::StoreRows(context_, args); });
  }
  absl::Status CopyRows(const CopyRowsArgs& args) override {
    return Run(args, [&] { return PLIMSOLL_CUDA::CopyRows(context_, args); });
  }
  absl::Status PrepareHeads(const PrepareHeadsArgs& args) override {
    return Run(args,
               [&] { return PLIMSOLL_CUDA::PrepareHeads(context_, args); });
  }
  absl::Status Attention(const AttentionArgs& args) override {
    return Run(args, [&] { return PLIMSOLL_CUDA::Attention(context_, args); });
  }
  absl::StatusOr<const std::byte*> GatedMatMul(
      const GatedMatMulArgs& args) override {
    RETURN_IF_ERROR(Validate(args));
    if (!FusesGatedMatMul(context_, args)) return Backend::GatedMatMul(args);
    const std::byte* packed = nullptr;
    RETURN_IF_ERROR(Run(args, [&] {
      packed = PLIMSOLL_CUDA::GatedMatMul(context_, args);
      return absl::OkStatus();
    }));
    return packed;
  }
  absl::Status GatedActivation(const GatedActivationArgs& args) override {
    return Run(args, [&] {
      PLIMSOLL_CUDA::GatedActivation(context_, args);
      return absl::OkStatus();
    });
  }
  absl::Status RouteExperts(const RouteExpertsArgs& args) override {
    return Run(args, [&] {
      PLIMSOLL_CUDA::RouteExperts(context_, args);
      return absl::OkStatus();
    });
  }
  absl::StatusOr<const std::byte*> GatedExpertMatMul(
      const GatedExpertMatMulArgs& args) override {
    RETURN_IF_ERROR(Run(args, [&] {
      PLIMSOLL_CUDA::GatedExpertMatMul(context_, args);
      return absl::OkStatus();
    }));
    return args.packed_out;
  }
  absl::Status ExpertSumMatMul(const ExpertSumMatMulArgs& args) override {
    return Run(args, [&] {
      PLIMSOLL_CUDA::ExpertSumMatMul(context_, args);
      return absl::OkStatus();
    });
  }
  absl::Status CausalConv(const CausalConvArgs& args) override {
    return Run(args, [&] { return PLIMSOLL_CUDA::CausalConv(context_, args); });
  }
  absl::Status StateScan(const StateScanArgs& args) override {
    return Run(args, [&] { return PLIMSOLL_CUDA::StateScan(context_, args); });
  }
  absl::Status GatedNorm(const GatedNormArgs& args) override {
    return Run(args, [&] {
      PLIMSOLL_CUDA::GatedNorm(context_, args);
      return absl::OkStatus();
    });
  }
  absl::Status TopK(const TopKArgs& args) override {
    return Run(args, [&] {
      RETURN_IF_ERROR(queue_.StartEach());
      return PLIMSOLL_CUDA::TopK(context_, args);
    });
  }
  absl::StatusOr<SampledToken> Sample(const SampleArgs& args) override {
    SampledToken token = {};
    RETURN_IF_ERROR(Run(args, [&]() -> absl::Status {
      RETURN_IF_ERROR(queue_.StartEach());
      ASSIGN_OR_RETURN(token, PLIMSOLL_CUDA::Sample(context_, args));
      return absl::OkStatus();
    }));
    return token;
  }
  absl::Status BeginStep(int64_t n_rows) override {
    RETURN_IF_ERROR(UseDevice(device_));
    RETURN_IF_ERROR(HaveScratch());
    return queue_.BeginStep(n_rows);
  }
  absl::Status EndStep() override {
    RETURN_IF_ERROR(UseDevice(device_));
    RETURN_IF_ERROR(queue_.StartEach());
    return LaunchStatus();
  }
  void EndWarmUp() override { queue_.EndWarmUp(); }
  absl::Status Synchronize() override {
    RETURN_IF_ERROR(UseDevice(device_));
    const absl::Status started = queue_.StartAsGraph();
    info_.has_programmatic_launches &= queue_.overlaps();
    RETURN_IF_ERROR(started);
    RETURN_IF_ERROR(LaunchStatus());
    return WaitForStream(context_.stream);
  }

 private:
  // CopyRows has no argument that could be invalid.
  static absl::Status Check(const CopyRowsArgs& /*args*/) {
    return absl::OkStatus();
  }
  template <class Args>
  static absl::Status Check(const Args& args) {
    return Validate(args);
  }

  template <class Args, class Operation>
  absl::Status Run(const Args& args, const Operation& operation) {
    RETURN_IF_ERROR(Check(args));
    RETURN_IF_ERROR(UseDevice(device_));
    RETURN_IF_ERROR(HaveScratch());
    RETURN_IF_ERROR(operation());
    return LaunchStatus();
  }

  // Allocates the kernels' own memory, unless they have some.
  absl::Status HaveScratch();

  int device_ = 0;
  DeviceInfo info_;
  std::byte* own_ = nullptr;  // the kernels' memory, if nobody gave them any
  Context context_ = {};
  std::vector<float> host_rows_;
  Staging staging_;
  LaunchQueue queue_;
  int64_t n_allocations_ = 0;
};

absl::Status CudaBackend::Open(int device, const CudaOptions& options) {
  device_ = device;
  ASSIGN_OR_RETURN(const DeviceFacts facts, OpenDevice(device));
  info_.id = facts.id;
  info_.unique_id = facts.unique_id;
  info_.is_host_memory = false;
  info_.kind = "cuda";
  info_.name = facts.name;
  info_.total_bytes = facts.total_bytes;
  info_.free_bytes = facts.free_bytes;
  info_.alignment = kAlignment;
  for (const DTypeInfo& type : kDTypes) {
    if (!IsWeightType(type.dtype)) continue;
    info_.storage.push_back(
        {type.dtype, IsTiled(type.dtype) ? kTileRows : int64_t{1}});
  }
  info_.activation_block = kActivationBlock;
  info_.activation_block_bytes = kActivationBlockBytes;
  info_.scratch_bytes =
      kScratchBytes + Staging::kBytes + LaunchQueue::kStepBytes + kCountBytes;
  constexpr auto kMaxGraphs = static_cast<int64_t>(LaunchQueue::kMaxGraphs);
  info_.graph_bytes = kMaxGraphs * LaunchQueue::kGraphBytes;
  ASSIGN_OR_RETURN(context_.stream, NewStream());
  ASSIGN_OR_RETURN(context_.results, AllocatePinned(kResultBytes));
  context_.n_multiprocessors = facts.n_multiprocessors;
  context_.tensor_attention = options.tensor_attention;
  context_.decode_spans = std::max<int64_t>(options.decode_spans, 1);
  context_.prompt_product_rows = options.prompt_product_rows;
  context_.half_product_rows = options.half_product_rows;
  context_.wgmma_rows = facts.has_wgmma ? options.wgmma_rows
                                        : std::numeric_limits<int64_t>::max();
  context_.streams_few_rows = options.streams_few_rows;
  context_.few_row_slices = options.few_row_slices;
  context_.streams_weights = options.streams_weights && CanStream(facts);
  context_.wgmma_attention = options.wgmma_attention && facts.has_wgmma;
  context_.prompt_attention_slices = options.prompt_attention_slices;
  context_.prefetches_weights = options.prefetches_weights;
  context_.host_rows = &host_rows_;
  info_.has_programmatic_launches = options.programmatic_launches;
  info_.step_rows = StepRows(context_);
  return absl::OkStatus();
}

absl::Status CudaBackend::UseScratch(BufferView scratch) {
  if (context_.scratch != nullptr) {
    return absl::FailedPreconditionError("the kernels have their scratch");
  }
  if (scratch.bytes < info_.scratch_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("scratch of ", scratch.bytes,
                                                   " bytes, the kernels need ",
                                                   info_.scratch_bytes));
  }
  RETURN_IF_ERROR(UseDevice(device_));
  RETURN_IF_ERROR(staging_.Open(scratch.data + kScratchBytes, context_.stream));
  RETURN_IF_ERROR(queue_.Open(scratch.data + kScratchBytes + Staging::kBytes,
                              &staging_, context_.stream,
                              info_.has_programmatic_launches));
  std::byte* counts = scratch.data + info_.scratch_bytes - kCountBytes;
  RETURN_IF_ERROR(ZeroDevice(counts, kCountBytes, context_.stream));
  context_.counts = reinterpret_cast<int32_t*>(counts);
  context_.staging = &staging_;
  context_.queue = &queue_;
  context_.scratch = scratch.data;
  return absl::OkStatus();
}

absl::Status CudaBackend::HaveScratch() {
  if (context_.scratch != nullptr) return absl::OkStatus();
  if (own_ == nullptr) {
    ASSIGN_OR_RETURN(own_, AllocateDevice(info_.scratch_bytes));
  }
  return UseScratch({own_, info_.scratch_bytes});
}

absl::StatusOr<Buffer> CudaBackend::Allocate(int64_t bytes, ChunkFence fence) {
  ++n_allocations_;
  if (bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("an allocation of ", bytes, " bytes"));
  }
  if (bytes > std::numeric_limits<int64_t>::max() - kPageBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the device has no ", bytes, " bytes"));
  }
  const int64_t rounded = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  RETURN_IF_ERROR(UseDevice(device_));
  // The device gives all of the memory at once, so the fence is called before.
  RETURN_IF_ERROR(fence(0));
  ASSIGN_OR_RETURN(std::byte * data, AllocateDevice(rounded));
  Buffer buffer(data, rounded, [device = device_](std::byte* freed, int64_t) {
    // Freeing waits for what still uses the memory.
    (void)UseDevice(device);
    FreeDevice(freed);
  });
  for (int64_t done = 0; done < rounded; done += kMaxChunkBytes) {
    if (done > 0) RETURN_IF_ERROR(fence(done));
    RETURN_IF_ERROR(ZeroDevice(data + done,
                               std::min(kMaxChunkBytes, rounded - done),
                               context_.stream));
    RETURN_IF_ERROR(WaitForStream(context_.stream));
  }
  return buffer;
}

absl::StatusOr<Buffer> CudaBackend::AllocateHost(int64_t bytes) {
  RETURN_IF_ERROR(UseDevice(device_));
  ASSIGN_OR_RETURN(std::byte * data, AllocatePinned(bytes));
  std::memset(data, 0, static_cast<size_t>(bytes));
  return Buffer(data, bytes,
                [](std::byte* freed, int64_t) { FreePinned(freed); });
}

absl::Status CudaBackend::UploadRows(const WeightRows& rows,
                                     BufferView matrix) {
  const bool is_tiled = IsTiled(rows.dtype);
  ASSIGN_OR_RETURN(const RowsSize given,
                   ValidateRows(rows, matrix, is_tiled ? kTileRows : 1));
  if (is_tiled && rows.cols > kMaxTiledCols) {
    return absl::InvalidArgumentError(
        absl::StrCat("a quantised matrix of ", rows.cols,
                     " columns; CUDA takes ", kMaxTiledCols));
  }
  if (!is_tiled) {
    return Upload(rows.bytes,
                  matrix.Slice(rows.first_row * given.row_bytes,
                               static_cast<int64_t>(rows.bytes.size())));
  }
  RETURN_IF_ERROR(UseDevice(device_));
  RETURN_IF_ERROR(HaveScratch());
  RETURN_IF_ERROR(queue_.StartEach());
  RETURN_IF_ERROR(PackRows(context_,
                           {rows.dtype, rows.rows, rows.cols, matrix.data},
                           rows.first_row, rows.bytes));
  return LaunchStatus();
}

absl::Status CudaBackend::Upload(std::span<const std::byte> host,
                                 BufferView device) {
  const auto size = static_cast<int64_t>(host.size());
  if (size > device.bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "copying ", size, " bytes into a buffer of ", device.bytes));
  }
  RETURN_IF_ERROR(UseDevice(device_));
  RETURN_IF_ERROR(queue_.StartEach());
  RETURN_IF_ERROR(
      CopyToDevice(host.data(), device.data, size, context_.stream));
  // The copy may read `host` until the stream is done.
  return WaitForStream(context_.stream);
}

absl::Status CudaBackend::Download(BufferView device,
                                   std::span<std::byte> host) {
  const auto size = static_cast<int64_t>(host.size());
  if (device.bytes > size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "copying ", device.bytes, " bytes into a buffer of ", size));
  }
  RETURN_IF_ERROR(UseDevice(device_));
  RETURN_IF_ERROR(queue_.StartEach());
  RETURN_IF_ERROR(LaunchStatus());
  RETURN_IF_ERROR(
      CopyToHost(device.data, host.data(), device.bytes, context_.stream));
  return WaitForStream(context_.stream);
}

absl::Status CudaBackend::Clear(BufferView memory) {
  if (memory.bytes == 0) return absl::OkStatus();
  RETURN_IF_ERROR(UseDevice(device_));
  RETURN_IF_ERROR(queue_.StartEach());
  return ZeroDevice(memory.data, memory.bytes, context_.stream);
}

absl::StatusOr<std::unique_ptr<Backend>> NewBackend(
    int device, const CudaOptions& options) {
  auto backend = std::make_unique<CudaBackend>();
  RETURN_IF_ERROR(backend->Open(device, options));
  return backend;
}

}  // namespace

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

namespace plimsoll::kernels {

#ifdef PLIMSOLL_CUDA_EMULATED
absl::StatusOr<std::unique_ptr<Backend>> NewEmulatedCudaBackend(
    const CudaOptions& options) {
  return cuda_emulated::NewBackend(0, options);
}
absl::StatusOr<DeviceMemory> ReadEmulatedCudaMemory() {
  return cuda_emulated::ReadMemory(0);
}
#else
absl::StatusOr<std::unique_ptr<Backend>> NewCudaBackend(
    int device, const CudaOptions& options) {
  return cuda::NewBackend(device, options);
}
absl::StatusOr<DeviceMemory> ReadCudaMemory(int device) {
  return cuda::ReadMemory(device);
}
#endif

}  // namespace plimsoll::kernels
