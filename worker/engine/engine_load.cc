// How an engine comes about: its devices, their memory, its weights, and the
// first steps.
#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/start_thread.h"
#include "worker/engine/engine_impl.h"
#include "worker/graph/model_pipeline.h"
#include "worker/graph/step_pieces.h"
#include "worker/sampling/prompt_lookup.h"

namespace plimsoll::worker {
namespace {

// A buffer of the step, in the arena.
kernels::BufferView StepBufferView(const Stage& stage,
                                   planner::StepBuffer buffer) {
  const planner::WorkspaceBuffer& place = stage.plan->workspace[buffer];
  return stage.arena.Region(*stage.plan, "workspace")
      .Slice(place.offset, place.bytes);
}

int64_t ArenaBytes(std::span<const Stage> stages) {
  int64_t bytes = 0;
  for (const Stage& stage : stages) bytes += stage.plan->arena_bytes;
  return bytes;
}

int64_t FileBytes(const Stage& stage) {
  int64_t bytes = 0;
  for (const auto& tensor : stage.shape.weights) bytes += tensor.file_bytes;
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Load(
    ModelFile& file, const planner::MemoryPlan& plan,
    const EngineOptions& options, const LoadFence& fence) {
  return Load(file, {{options.device, 0, file.shape().n_layers, plan}}, options,
              fence);
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Load(
    ModelFile& file, std::vector<EnginePart> parts,
    const EngineOptions& options, const LoadFence& fence) {
  RETURN_IF_ERROR(StagesOf(file.shape(), parts).status());
  auto impl = std::make_unique<Impl>(file.shape(), std::move(parts), options);
  ASSIGN_OR_RETURN(impl->stages, StagesOf(impl->shape, impl->parts));
  RETURN_IF_ERROR(impl->OpenDevices());
  // The tokenizer's tables are the first memory that is taken.
  RETURN_IF_ERROR(fence({"allocate", 0, ArenaBytes(impl->stages)}));
  ASSIGN_OR_RETURN(impl->tokenizer, LoadTokenizer(file.header(), file));
  RETURN_IF_ERROR(impl->Allocate(fence));
  RETURN_IF_ERROR(impl->BuildModels(file));
  RETURN_IF_ERROR(impl->FillWeights(file, fence));
  RETURN_IF_ERROR(impl->MakeReady());
  const int64_t bytes = ArenaBytes(impl->stages);
  RETURN_IF_ERROR(fence({"ready", bytes, bytes}));
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

absl::Status Engine::Impl::OpenDevices() {
  if (pool.n_threads() < PoolThreads(has_host, options.n_threads)) {
    return kernels::NoThread();
  }
  for (Stage& stage : stages) {
    if (!stage.device->is_host()) {
      stage.free_before = stage.device->Profile().free_bytes;
    }
  }
  for (Stage& stage : stages) {
    ASSIGN_OR_RETURN(stage.backend, stage.device->NewBackend(pool));
  }
  backend = stages.back().backend.get();
  if (has_host) pool.LeaveWorkersCpus();
  return absl::OkStatus();
}

absl::Status Engine::Impl::Allocate(const LoadFence& fence) {
  const int64_t total = ArenaBytes(stages);
  std::vector<KvPart> kv;
  int64_t page_bytes = 0;
  int64_t done = 0;
  for (Stage& stage : stages) {
    const planner::MemoryPlan& of = *stage.plan;
    const auto of_all = [&](int64_t bytes_done) {
      return fence({"allocate", done + bytes_done, total});
    };
    ASSIGN_OR_RETURN(stage.arena, Arena::Allocate(of, *stage.backend, of_all));
    done += of.arena_bytes;
    RETURN_IF_ERROR(stage.backend->UseScratch(
        StepBufferView(stage, planner::StepBuffer::kScratch)));
    kv.push_back({.shape = &stage.shape,
                  .plan = &of,
                  .regions = {.pages = stage.arena.Region(of, "kv_full"),
                              .rings = stage.arena.Region(of, "kv_window"),
                              .drafts = stage.arena.Region(of, "kv_draft")}});
    page_bytes += of.kv.page_bytes;
  }
  RETURN_IF_ERROR(fence({"allocate", total, total}));
  cache = std::make_unique<KvCache>(
      kv, page_bytes > 0 ? options.prefix_cache_bytes / page_bytes : 0);
  kv_pages = cache->free_pages();
  return AllocateParked();
}

absl::Status Engine::Impl::AllocateParked() {
  std::vector<ParkedContexts::Part> of;
  for (Stage& stage : stages) {
    const planner::Region* region = stage.plan->FindRegion("kv_parked");
    if (region == nullptr) continue;
    if (region->offset >= 0) {
      of.push_back(
          {stage.backend.get(), stage.arena.Region(*stage.plan, "kv_parked")});
      continue;
    }
    ASSIGN_OR_RETURN(stage.parked, stage.backend->AllocateHost(region->bytes));
    of.push_back({stage.backend.get(), stage.parked.view()});
  }
  const int64_t n_places = of.empty() ? 0 : plan.options.n_parked;
  parked = std::make_unique<ParkedContexts>(*cache, std::move(of), n_places);
  return absl::OkStatus();
}

ModelParts Engine::Impl::PartsOf(const Stage& stage) const {
  return {.shape = &stage.shape,
          .plan = stage.plan,
          .arena = &stage.arena,
          .backend = stage.backend.get(),
          .cache = cache.get(),
          .precision = options.precision,
          .first_layer = stage.first_layer};
}

absl::Status Engine::Impl::BuildModels(ModelFile& file) {
  if (stages.size() == 1) {
    ASSIGN_OR_RETURN(model, BuildModel(file.header(), PartsOf(stages[0])));
  } else {
    const std::vector<size_t> lanes = LanesOf(parts);
    const bool can_overlap =
        std::ranges::any_of(lanes, [](size_t lane) { return lane > 0; });
    // Of a device that copies from and to it, if there is one.
    const auto device = std::ranges::find_if(
        stages, [](const Stage& stage) { return !stage.device->is_host(); });
    const Stage& stage = device != stages.end() ? *device : stages.front();
    ASSIGN_OR_RETURN(
        kernels::Buffer rows,
        stage.backend->AllocateHost(plan.n_rows * shape.model_dim *
                                    static_cast<int64_t>(sizeof(float))));
    auto pipeline = std::make_unique<ModelPipeline>(
        std::move(rows),
        options.piece_rows.value_or(can_overlap ? kPieceRows : 0));
    for (size_t i = 0; i < stages.size(); ++i) {
      ModelParts of = PartsOf(stages[i]);
      if (i > 0) of.input = pipeline->Rows();
      if (i + 1 < stages.size()) of.output = pipeline->Rows();
      ASSIGN_OR_RETURN(std::unique_ptr<Model> part,
                       BuildModel(file.header(), of));
      pipeline->Add(std::move(part), lanes[i]);
    }
    RETURN_IF_ERROR(pipeline->Start());
    model = std::move(pipeline);
  }
  const int64_t n_sampled = stages.back().plan->n_sampled;
  row_sampler = std::make_unique<RowSampler>(*model, *backend, shape.vocab_size,
                                             n_sampled);
  scorer = std::make_unique<PromptScorer>(*model, *backend, n_sampled,
                                          shape.vocab_size);
  return absl::OkStatus();
}

absl::Status Engine::Impl::FillWeights(ModelFile& file,
                                       const LoadFence& fence) {
  int64_t total = 0;
  for (const Stage& stage : stages) total += FileBytes(stage);
  int64_t done = 0;
  for (const Stage& stage : stages) {
    const auto of_all = [&](const LoadProgress& at) {
      return fence({at.phase, done + at.bytes_done, total});
    };
    RETURN_IF_ERROR(LoadWeights(file, PartsOf(stage), of_all));
    done += FileBytes(stage);
  }
  return absl::OkStatus();
}

absl::Status Engine::Impl::MakeReady() {
  page_claims.reserve(static_cast<size_t>(plan.options.n_slots));
  if (plan.options.n_draft > 0) {
    newest_tokens.reserve(static_cast<size_t>(kLookupTokens));
    draft_offsets.reserve(static_cast<size_t>(plan.options.n_draft));
    ring_offsets.reserve(static_cast<size_t>(plan.options.n_draft));
  }
  const bool all_host = std::ranges::all_of(
      stages, [](const Stage& stage) { return stage.device->is_host(); });
  if (!all_host) RETURN_IF_ERROR(WarmUp());
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

namespace {

// A step of `n_rows` rows of sequences that decode, each its first token and up
// to `n_draft` guesses.
StepBatch FirstTokens(int64_t n_rows, int64_t n_draft) {
  StepBatch step;
  step.only_decodes = true;
  for (int64_t row = 0; row < n_rows; ++row) {
    const int64_t position = row % (1 + n_draft);
    if (position == 0) {
      step.sequences.push_back({.slot = std::ssize(step.sequences),
                                .first_row = row,
                                .n_rows = 0,
                                .first_position = 0});
    }
    step.sequences.back().n_rows = 1 + position;
    step.sequences.back().n_draft = position;
    step.tokens.push_back(0);
    step.positions.push_back(position);
    step.prefix_positions.push_back(position);
    step.sampled_rows.push_back(static_cast<int32_t>(row));
  }
  return step;
}

// Of the numbers of rows up to `most` one for each list of kernels.
std::vector<int64_t> StepRowsUpTo(int64_t most, std::span<const Stage> stages) {
  std::vector<int64_t> rows = {most};
  for (const Stage& stage : stages) {
    for (const int64_t n : stage.backend->Device().step_rows) {
      if (n < most) rows.push_back(n);
    }
  }
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

}  // namespace

absl::Status Engine::Impl::WarmUp() {
  RETURN_IF_ERROR(WarmUpPrompts());
  const int64_t n_draft = plan.options.n_draft;
  int64_t n_slots = 0;
  for (; n_slots < plan.options.n_slots; ++n_slots) {
    cache->Begin(n_slots, /*prefix_tokens=*/0);
    // Slots that share pages may have none left for the last ones, which do not
    // decode beside the others then.
    if (!cache->Extend(n_slots, 1 + n_draft).ok()) break;
  }
  absl::Status status = WarmUp(n_slots);
  for (int64_t slot = 0; slot < plan.options.n_slots; ++slot) {
    cache->Clear(slot);
  }
  return status;
}

absl::Status Engine::Impl::WarmUp(int64_t n_slots) {
  constexpr int64_t kMostSequences = 16;
  if (n_slots == 0) return absl::OkStatus();
  const int64_t n_draft = plan.options.n_draft;
  const int64_t most = std::min(n_slots, plan.n_rows);
  const auto run = [&](const std::vector<int64_t>& rows, int64_t n_guesses) {
    absl::Status status;
    for (const int64_t n : rows) {
      if (status.ok()) status = model->Step(FirstTokens(n, n_guesses));
    }
    return status;
  };
  // What differs comes first, so that all of it has room.
  if (n_draft > 0) {
    const int64_t n_rows = std::min(n_slots * (1 + n_draft), plan.n_rows);
    RETURN_IF_ERROR(run(StepRowsUpTo(n_rows, stages), n_draft));
  }
  std::vector<int64_t> rows = StepRowsUpTo(most, stages);
  for (int64_t n = 1; n <= std::min(most, kMostSequences); ++n) {
    if (std::ranges::count(rows, n) == 0) rows.push_back(n);
  }
  return run(rows, 0);
}

// A device sets aside what a kernel's threads keep in memory when it first runs
// one that keeps more than those before: it is those of prompts that do.
absl::Status Engine::Impl::WarmUpPrompts() {
  constexpr int64_t kRows = 128;  // from where on all of them are used
  const int64_t n_rows = std::min({plan.n_rows, plan.n_ctx, kRows});
  StepBatch step;
  step.sequences.push_back({.slot = 0,
                            .first_row = 0,
                            .n_rows = n_rows,
                            .first_position = 0,
                            .is_prompt = true});
  for (int64_t row = 0; row < n_rows; ++row) {
    step.tokens.push_back(0);
    step.positions.push_back(row);
    step.prefix_positions.push_back(row);
  }
  step.sampled_rows.push_back(static_cast<int32_t>(n_rows - 1));
  cache->Begin(/*slot=*/0, /*prefix_tokens=*/0);
  absl::Status status = cache->Extend(/*slot=*/0, n_rows);
  if (status.ok()) status = model->Step(step);
  cache->Clear(/*slot=*/0);
  return status;
}

absl::Status Engine::Impl::CopyRings(int64_t from, int64_t to) {
  const int64_t zero = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    const kernels::BufferView source = cache->Rings(i, from);
    if (source.bytes == 0) continue;
    RETURN_IF_ERROR(
        stages[i].backend->CopyRows({.src = source.data,
                                     .src_offsets = &zero,
                                     .dst = cache->Rings(i, to).data,
                                     .dst_offsets = &zero,
                                     .n_rows = 1,
                                     .row_bytes = source.bytes}));
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::worker
