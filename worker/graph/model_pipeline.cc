#include "worker/graph/model_pipeline.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "kernels/start_thread.h"
#include "worker/graph/step_pieces.h"

namespace plimsoll::worker {

ModelPipeline::ModelPipeline(kernels::Buffer rows, int64_t piece_rows)
    : piece_rows_(piece_rows), rows_(std::move(rows)) {}

ModelPipeline::~ModelPipeline() {
  {
    absl::MutexLock lock(&mu_);
    is_stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void ModelPipeline::Add(std::unique_ptr<Model> part, size_t lane) {
  parts_.push_back({std::move(part), lane});
}

absl::Status ModelPipeline::Start() {
  {
    absl::MutexLock lock(&mu_);
    n_done_.resize(parts_.size());
  }
  if (piece_rows_ <= 0) return absl::OkStatus();
  const Part& last = *std::ranges::max_element(parts_, {}, &Part::lane);
  for (size_t lane = 1; lane <= last.lane; ++lane) {
    ASSIGN_OR_RETURN(std::thread thread,
                     kernels::StartThread([this, lane] { RunLane(lane); }));
    threads_.push_back(std::move(thread));
  }
  return absl::OkStatus();
}

absl::Status ModelPipeline::FinishLoad() {
  for (const Part& part : parts_) RETURN_IF_ERROR(part.model->FinishLoad());
  return absl::OkStatus();
}

absl::Status ModelPipeline::Step(const StepBatch& batch) {
  const size_t n_pieces = CutStep(batch, piece_rows_, pieces_);
  if (n_pieces > 1) return StepInPieces(n_pieces);
  for (const Part& part : parts_) {
    RETURN_IF_ERROR(part.model->Step(batch));
  }
  return absl::OkStatus();
}

absl::Status ModelPipeline::StepInPieces(size_t n_pieces) {
  {
    absl::MutexLock lock(&mu_);
    n_pieces_ = n_pieces;
    std::ranges::fill(n_done_, 0);
    error_ = absl::OkStatus();
  }
  RunLane(0);
  absl::MutexLock lock(&mu_);
  return error_;
}

void ModelPipeline::RunLane(size_t lane) {
  while (const std::optional<Turn> turn = BeginTurn(lane)) {
    EndTurn(*turn, parts_[turn->part].model->Step(pieces_[turn->piece]));
  }
}

std::optional<ModelPipeline::Turn> ModelPipeline::BeginTurn(size_t lane) {
  absl::MutexLock lock(&mu_);
  const auto can_go_on = [this, lane]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return ReadyPart(lane).has_value() || IsOver(lane);
  };
  mu_.Await(absl::Condition(&can_go_on));
  const std::optional<size_t> part = ReadyPart(lane);
  if (!part) return std::nullopt;
  ++n_computing_;
  return Turn{*part, n_done_[*part]};
}

void ModelPipeline::EndTurn(const Turn& turn, const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  --n_computing_;
  ++n_done_[turn.part];
  error_.Update(status);
}

std::optional<size_t> ModelPipeline::ReadyPart(size_t lane) const {
  if (!error_.ok()) return std::nullopt;
  for (size_t i = parts_.size(); i-- > 0;) {
    if (parts_[i].lane != lane || n_done_[i] == n_pieces_) continue;
    if (i == 0 || n_done_[i - 1] > n_done_[i]) return i;
  }
  return std::nullopt;
}

bool ModelPipeline::IsOver(size_t lane) const {
  if (lane > 0) return is_stopping_;
  if (!error_.ok()) return n_computing_ == 0;
  return n_done_.back() == n_pieces_;
}

absl::Status ModelPipeline::ComputeLogits(std::span<const int32_t> rows) {
  return parts_.back().model->ComputeLogits(rows);
}

}  // namespace plimsoll::worker
