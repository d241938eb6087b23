#include "worker/engine/engine.h"

#include <set>
#include <utility>

#include "base/status_macros.h"
#include "worker/engine/engine_impl.h"
#include "worker/engine/loader.h"

namespace plimsoll::worker {

static_assert(EngineOptions::kMaxThreads == kernels::ThreadPool::kMaxThreads);

absl::StatusOr<std::unique_ptr<Engine>> Engine::Load(
    ModelFile& file, const planner::MemoryPlan& plan,
    const EngineOptions& options, const LoadFence& fence) {
  return Load(file, {{options.device, 0, file.shape().n_layers, plan}}, options,
              fence);
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Load(
    ModelFile& file, std::vector<EnginePart> parts,
    const EngineOptions& options, const LoadFence& fence) {
  ASSIGN_OR_RETURN(EngineResources resources,
                   EngineLoader(file, options, fence).Load(std::move(parts)));
  auto impl = std::make_unique<Impl>(std::move(resources), options);
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() = default;

absl::Status Engine::Submit(GenerateOptions options,
                            std::shared_ptr<TokenSink> sink) {
  absl::Status status = impl_->Submit(std::move(options), std::move(sink));
  impl_->ReportSubmit(status);
  return status;
}

int64_t Engine::MaxSessions() const { return impl_->MaxSessions(); }

absl::StatusOr<SessionInfo> Engine::OpenSession(SessionOptions options) {
  return impl_->OpenSession(std::move(options));
}

absl::StatusOr<SessionInfo> Engine::GetSession(absl::string_view id,
                                               absl::string_view owner) const {
  return impl_->GetSession(id, owner);
}

bool Engine::KeepsTexts(absl::string_view id) const {
  return impl_->KeepsTexts(id);
}

std::vector<SessionInfo> Engine::Sessions(absl::string_view owner) const {
  return impl_->Sessions(owner);
}

absl::Status Engine::CloseSession(absl::string_view id,
                                  absl::string_view owner) {
  return impl_->CloseSession(id, owner);
}

void Engine::Wake() { impl_->Wake(); }

void Engine::Drain() { impl_->Drain(); }

bool Engine::Idle() const { return impl_->Idle(); }

std::vector<std::string> Engine::AbortAll(const absl::Status& status) {
  return impl_->Abort([](const std::string&) { return true; }, status);
}

std::vector<std::string> Engine::Abort(
    const std::vector<std::string>& request_ids, const absl::Status& status) {
  const std::set<std::string> ids(request_ids.begin(), request_ids.end());
  return impl_->Abort(
      [&ids](const std::string& id) { return !id.empty() && ids.contains(id); },
      status);
}

const Tokenizer& Engine::tokenizer() const {
  return *impl_->resources().tokenizer;
}

ConstraintCache& Engine::constraints() { return impl_->constraints(); }

const planner::MemoryPlan& Engine::plan() const {
  return impl_->resources().plan();
}

const std::vector<EnginePart>& Engine::parts() const {
  return impl_->resources().parts;
}

int64_t Engine::n_ctx() const { return plan().n_ctx; }

MemoryReport Engine::Memory() const { return impl_->resources().Memory(); }

MemoryReport Engine::MemoryOf(size_t part) const {
  return impl_->resources().MemoryOf(part);
}

EngineLoad Engine::CurrentLoad() const { return impl_->CurrentLoad(); }

absl::Duration Engine::StepAge() const { return impl_->StepAge(); }
absl::Duration Engine::StallTime() const { return impl_->StallTime(); }

std::vector<RequestInfo> Engine::Requests(size_t max) const {
  return impl_->Requests(max);
}

}  // namespace plimsoll::worker
