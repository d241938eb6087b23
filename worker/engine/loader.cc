#include "worker/engine/loader.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "kernels/start_thread.h"
#include "worker/device/arena.h"
#include "worker/device/compute_device.h"
#include "worker/device/host_resources.h"
#include "worker/engine/warm_up.h"
#include "worker/graph/decoder/build_model.h"
#include "worker/graph/model_pipeline.h"
#include "worker/graph/step_pieces.h"
#include "worker/sampling/suppressed_tokens.h"

namespace plimsoll::worker {
namespace {

// A buffer of the step, in the arena.
kernels::BufferView StepBufferView(const Stage& stage,
                                   planner::StepBuffer buffer) {
  const planner::WorkspaceBuffer& place = stage.plan->workspace[buffer];
  return stage.arena.Region(*stage.plan, "workspace")
      .Slice(place.offset, place.bytes);
}

// The plan of a model that keeps no state has no region for it.
kernels::BufferView StatesOf(const Stage& stage) {
  if (stage.plan->FindRegion("state") == nullptr) return {};
  return stage.arena.Region(*stage.plan, "state");
}

int64_t ArenaBytes(std::span<const Stage> stages) {
  int64_t bytes = 0;
  for (const Stage& stage : stages) {
    bytes += stage.plan->arena_bytes;
    if (stage.host != nullptr) bytes += stage.host->plan.arena_bytes;
  }
  return bytes;
}

int64_t WeightBytes(const Stage& stage) {
  int64_t bytes = BytesToLoad(stage.shape, *stage.plan);
  if (stage.mtp != nullptr) {
    bytes += BytesToLoad(stage.mtp->shape, stage.mtp->plan);
  }
  if (stage.host != nullptr) {
    bytes += BytesToLoad(stage.shape, stage.host->plan);
  }
  return bytes;
}

// A device with its own memory computes without the host's threads.
int PoolThreads(bool has_host, int wanted) {
  if (!has_host) return 1;
  return wanted > 0 ? wanted : UsableThreads();
}

}  // namespace

absl::StatusOr<EngineResources> EngineLoader::Load(
    std::vector<EnginePart> parts) {
  loaded_.shape = file_.shape();
  loaded_.parts = std::move(parts);
  ASSIGN_OR_RETURN(loaded_.stages, StagesOf(loaded_.shape, loaded_.parts));
  RETURN_IF_ERROR(OpenDevices());
  const int64_t bytes = ArenaBytes(loaded_.stages);
  // The tokenizer's tables are the first memory that is taken.
  RETURN_IF_ERROR(fence_({"allocate", 0, bytes}));
  ASSIGN_OR_RETURN(loaded_.tokenizer, LoadTokenizer(file_.header(), file_));
  ASSIGN_OR_RETURN(
      loaded_.suppressed_tokens,
      ReadSuppressedTokens(file_.header(), loaded_.shape.vocab_size));
  RETURN_IF_ERROR(AllocateArenas());
  if (loaded_.plan().options.MapsFile()) {
    ASSIGN_OR_RETURN(ModelMapping mapping, file_.Map());
    loaded_.mapping = std::make_unique<ModelMapping>(std::move(mapping));
  }
  RETURN_IF_ERROR(BuildGraph());
  RETURN_IF_ERROR(FillWeights());
  RETURN_IF_ERROR(FinishDevices());
  RETURN_IF_ERROR(fence_({"ready", bytes, bytes}));
  return std::move(loaded_);
}

absl::Status EngineLoader::OpenDevices() {
  const bool has_host = AnyOnHost(loaded_.stages);
  const int n_threads = PoolThreads(has_host, options_.n_threads);
  loaded_.pool = std::make_unique<kernels::ThreadPool>(
      n_threads,
      has_host ? kernels::WorkerCpus::kOneEach : kernels::WorkerCpus::kAny);
  if (loaded_.pool->n_threads() < n_threads || PLIMSOLL_FAULT("pool.threads")) {
    return kernels::NoThread();
  }
  for (Stage& stage : loaded_.stages) {
    if (!stage.device->is_host()) {
      stage.free_before = stage.device->Profile().free_bytes;
    }
  }
  for (Stage& stage : loaded_.stages) {
    ASSIGN_OR_RETURN(stage.backend, stage.device->NewBackend(*loaded_.pool));
    if (stage.host == nullptr) continue;
    ASSIGN_OR_RETURN(stage.host->backend, LocalCpu().NewBackend(*loaded_.pool));
  }
  if (has_host) loaded_.pool->MoveOffWorkerCpus();
  return absl::OkStatus();
}

absl::Status EngineLoader::AllocateArenas() {
  const int64_t total = ArenaBytes(loaded_.stages);
  std::vector<KvPart> kv;
  int64_t page_bytes = 0;
  int64_t done = 0;
  for (Stage& stage : loaded_.stages) {
    const planner::MemoryPlan& plan = *stage.plan;
    const auto fence_all = [&](int64_t bytes_done) {
      return fence_({"allocate", done + bytes_done, total});
    };
    ASSIGN_OR_RETURN(stage.arena,
                     Arena::Allocate(plan, *stage.backend, fence_all));
    done += plan.arena_bytes;
    if (stage.host != nullptr) {
      HostStage& host = *stage.host;
      ASSIGN_OR_RETURN(host.arena,
                       Arena::Allocate(host.plan, *host.backend, fence_all));
      done += host.plan.arena_bytes;
    }
    RETURN_IF_ERROR(stage.backend->UseScratch(
        StepBufferView(stage, planner::StepBuffer::kScratch)));
    kv.push_back({.shape = &stage.shape,
                  .plan = &plan,
                  .regions = {.pages = stage.arena.Region(plan, "kv_full"),
                              .rings = stage.arena.Region(plan, "kv_window"),
                              .drafts = stage.arena.Region(plan, "kv_draft"),
                              .states = StatesOf(stage)},
                  .backend = stage.backend.get()});
    page_bytes += plan.kv.page_bytes;
    if (stage.mtp == nullptr) continue;
    const planner::MemoryPlan& head = stage.mtp->plan;
    kv.push_back(
        {.shape = &stage.mtp->shape,
         .plan = &head,
         .regions = {.pages = stage.arena.Region(plan, "kv_mtp"), .rings = {}},
         .backend = stage.backend.get()});
    page_bytes += head.kv.page_bytes;
  }
  RETURN_IF_ERROR(fence_({"allocate", total, total}));
  loaded_.cache = std::make_unique<KvCache>(
      kv, page_bytes > 0 ? options_.prefix_cache_bytes / page_bytes : 0);
  return AllocateParked();
}

absl::Status EngineLoader::AllocateParked() {
  std::vector<ParkedContexts::Part> parts;
  for (Stage& stage : loaded_.stages) {
    const planner::Region* region = stage.plan->FindRegion("kv_parked");
    if (region == nullptr) continue;
    kernels::BufferView memory;
    if (region->offset >= 0) {
      memory = stage.arena.Region(*stage.plan, "kv_parked");
    } else {
      ASSIGN_OR_RETURN(stage.parked,
                       stage.backend->AllocateHost(region->bytes));
      memory = stage.parked.view();
    }
    const int64_t bytes =
        stage.plan->options.n_parked * stage.plan->kv.SlotBytes();
    parts.push_back({stage.backend.get(), memory.Slice(0, bytes)});
    if (stage.mtp == nullptr) continue;
    parts.push_back(
        {stage.backend.get(), memory.Slice(bytes, memory.bytes - bytes)});
  }
  const int64_t n_places = parts.empty() ? 0 : loaded_.plan().options.n_parked;
  loaded_.parked = std::make_unique<ParkedContexts>(*loaded_.cache,
                                                    std::move(parts), n_places);
  return absl::OkStatus();
}

void EngineLoader::FillHostInputs() {
  for (Stage& stage : loaded_.stages) {
    if (stage.host == nullptr) continue;
    HostStage& host = *stage.host;
    host.inputs = {.shape = &stage.shape,
                   .plan = &host.plan,
                   .arena = &host.arena,
                   .backend = host.backend.get(),
                   .cache = nullptr,
                   .precision = options_.precision,
                   .first_layer = stage.first_layer};
  }
}

GraphInputs EngineLoader::InputsOf(const Stage& stage) const {
  return {.shape = &stage.shape,
          .plan = stage.plan,
          .arena = &stage.arena,
          .backend = stage.backend.get(),
          .cache = loaded_.cache.get(),
          .precision = options_.precision,
          .mapping = loaded_.mapping.get(),
          .first_layer = stage.first_layer,
          .host = stage.host == nullptr ? nullptr : &stage.host->inputs};
}

absl::Status EngineLoader::BuildGraph() {
  FillHostInputs();
  if (loaded_.stages.size() > 1) return BuildPipeline();
  Stage& stage = loaded_.stages.front();
  GraphInputs inputs = InputsOf(stage);
  if (stage.mtp != nullptr) {
    RETURN_IF_ERROR(BuildMtp(stage));
    inputs.mtp_rows = stage.mtp->inputs.mtp_rows;
  }
  ASSIGN_OR_RETURN(loaded_.model, BuildModel(file_.header(), inputs));
  return absl::OkStatus();
}

absl::Status EngineLoader::BuildMtp(Stage& stage) {
  MtpStage& mtp = *stage.mtp;
  mtp.trunk = InputsOf(stage);
  mtp.inputs = {.shape = &mtp.shape,
                .plan = &mtp.plan,
                .arena = &stage.arena,
                .backend = stage.backend.get(),
                .cache = loaded_.cache.get(),
                .precision = options_.precision,
                .first_layer = stage.shape.mtp->block,
                .mtp_rows = reinterpret_cast<float*>(
                    stage.arena.Region(*stage.plan, "mtp").data +
                    mtp.plan.FindRegion("weights")->bytes),
                .trunk = &mtp.trunk};
  ASSIGN_OR_RETURN(loaded_.mtp, BuildModel(file_.header(), mtp.inputs));
  return absl::OkStatus();
}

absl::Status EngineLoader::BuildPipeline() {
  const std::vector<Stage>& stages = loaded_.stages;
  const std::vector<size_t> lanes = LanesOf(loaded_.parts);
  const bool can_overlap =
      std::ranges::any_of(lanes, [](size_t lane) { return lane > 0; });
  // The rows lie in memory that a device with its own memory, if there is one,
  // copies from and to.
  const auto device = std::ranges::find_if(
      stages, [](const Stage& stage) { return !stage.device->is_host(); });
  const Stage& stage = device != stages.end() ? *device : stages.front();
  ASSIGN_OR_RETURN(kernels::Buffer rows,
                   stage.backend->AllocateHost(
                       loaded_.plan().n_rows * loaded_.shape.model_dim *
                       static_cast<int64_t>(sizeof(float))));
  auto pipeline = std::make_unique<ModelPipeline>(
      std::move(rows),
      options_.piece_rows.value_or(can_overlap ? kPieceRows : 0));
  for (size_t i = 0; i < stages.size(); ++i) {
    GraphInputs inputs = InputsOf(stages[i]);
    if (i > 0) inputs.input = pipeline->Rows();
    if (i + 1 < stages.size()) inputs.output = pipeline->Rows();
    ASSIGN_OR_RETURN(std::unique_ptr<Model> part,
                     BuildModel(file_.header(), inputs));
    pipeline->Add(std::move(part), lanes[i]);
  }
  RETURN_IF_ERROR(pipeline->Start());
  loaded_.model = std::move(pipeline);
  return absl::OkStatus();
}

absl::Status EngineLoader::FillWeights() {
  int64_t total = 0;
  for (const Stage& stage : loaded_.stages) total += WeightBytes(stage);
  int64_t done = 0;
  for (const Stage& stage : loaded_.stages) {
    const auto fence_all = [&](const LoadProgress& at) {
      return fence_({at.phase, done + at.bytes_done, total});
    };
    RETURN_IF_ERROR(LoadWeights(file_, InputsOf(stage), fence_all));
    done += BytesToLoad(stage.shape, *stage.plan);
    if (stage.mtp != nullptr) {
      RETURN_IF_ERROR(LoadWeights(file_, stage.mtp->inputs, fence_all));
      done += BytesToLoad(stage.mtp->shape, stage.mtp->plan);
    }
    if (stage.host == nullptr) continue;
    RETURN_IF_ERROR(LoadWeights(file_, stage.host->inputs, fence_all));
    done += BytesToLoad(stage.shape, stage.host->plan);
  }
  if (loaded_.mtp != nullptr) RETURN_IF_ERROR(loaded_.mtp->FinishLoad());
  return loaded_.model->FinishLoad();
}

absl::Status EngineLoader::FinishDevices() {
  std::vector<Stage>& stages = loaded_.stages;
  const bool all_host = std::ranges::all_of(
      stages, [](const Stage& stage) { return stage.device->is_host(); });
  if (!all_host) {
    RETURN_IF_ERROR(WarmUp(loaded_).Run());
  }
  for (Stage& stage : stages) {
    RETURN_IF_ERROR(stage.backend->Synchronize());
    stage.backend->EndWarmUp();
    stage.allocations_at_load = stage.backend->Allocations();
  }
  std::vector<const ComputeDevice*> seen;
  for (Stage& stage : stages) {
    if (stage.device->is_host() || std::ranges::count(seen, stage.device) > 0) {
      continue;
    }
    seen.push_back(stage.device);
    stage.device_taken_bytes =
        stage.free_before - stage.device->Profile().free_bytes;
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::worker
