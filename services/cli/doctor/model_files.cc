#include "services/cli/doctor/model_files.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "planner/layout/memory_plan.h"
#include "planner/layout/projector.h"
#include "services/cli/backends/embedded.h"
#include "services/cli/doctor/hint.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/failure.h"
#include "services/wire/to_proto.h"
#include "worker/device/compute_device.h"
#include "worker/device/model_file.h"
#include "worker/graph/decoder/runnable.h"

namespace plimsoll::cli {
namespace {

std::string FixOfFile(const absl::Status& status, const std::string& advice) {
  if (!advice.empty()) return advice;
  switch (status.code()) {
    case absl::StatusCode::kDataLoss:
      return "get the file again and compare its size and checksum with those "
             "of its source";
    case absl::StatusCode::kFailedPrecondition:
      return "name a regular file that this user may read (chmod a+r FILE)";
    default:
      return "name a whole model in GGUF; 'plimsoll convert' makes one of a "
             "checkpoint";
  }
}

// True if the file is whole but a projector, which is no model of its own.
bool IsProjectorFile(const std::string& path) {
  const auto header = worker::ModelFile::ReadHeader(path);
  return header.ok() && planner::IsProjector(*header);
}

absl::StatusOr<planner::MemoryPlan> PlanHere(const planner::ModelShape& shape) {
  const LoadFlags flags;
  const planner::SplitDevice here = BudgetHere(shape, flags, worker::LocalCpu(),
                                               /*budget_bytes=*/std::nullopt);
  return planner::Layout(shape,
                         {ToLoadOptions(flags, shape.n_ctx_train,
                                        ContextDefault::kLongestThatFits)},
                         here.profile, here.budget_bytes);
}

// The diagnosis of a sound file whose model cannot run here.
Diagnosis CannotRun(ModelOrigin origin, std::string found, std::string fix) {
  return {.name = "model",
          .health =
              origin == ModelOrigin::kNamed ? Health::kError : Health::kWarning,
          .found = std::move(found),
          .fix = std::move(fix)};
}

// The diagnosis of a model that this build runs.
Diagnosis CheckFit(const std::string& name, const planner::ModelShape& shape,
                   const planner::MemoryPlan& plan, ModelOrigin origin) {
  if (plan.fits) {
    return {
        .name = "model",
        .found = absl::StrCat(name, ": ", shape.architecture, ", fits with ",
                              FormatCount(plan.n_ctx), " tokens of context in ",
                              FormatBytes(plan.total_bytes), " of ",
                              FormatBytes(plan.budget_bytes))};
  }
  const Hint hint = SplitHint(DoesNotFit(services::ToProto(plan)).message());
  return CannotRun(origin, absl::StrCat(name, ": ", hint.message), hint.advice);
}

}  // namespace

Diagnosis CheckModel(const std::string& model, ModelOrigin origin) {
  const std::string path = ResolveModel(model);
  const std::string name = std::filesystem::path(path).filename().string();
  const auto file = OpenModel(model);
  if (!file.ok()) {
    if (IsProjectorFile(path)) {
      return {.name = "model",
              .found = absl::StrCat(name,
                                    ": a projector, for 'plimsoll plan "
                                    "--projector'")};
    }
    const Hint hint = SplitHint(file.status().message());
    return {.name = "model",
            .health = Health::kError,
            .found = hint.message,
            .fix = FixOfFile(file.status(), hint.advice)};
  }
  const planner::ModelShape& shape = (*file)->shape();
  constexpr char kPlanOnly[] =
      "plan it only ('plimsoll plan'), or take a model whose architecture "
      "docs/models.md says is run";
  if (const absl::Status status = worker::CheckArchitecture(shape);
      !status.ok()) {
    return CannotRun(origin, absl::StrCat(name, ": ", status.message()),
                     kPlanOnly);
  }
  const auto plan = PlanHere(shape);
  if (!plan.ok()) {
    return CannotRun(origin, absl::StrCat(name, ": ", plan.status().message()),
                     "see what 'plimsoll plan' says of it");
  }
  if (const absl::Status status = worker::CheckRunnable(shape, *plan);
      !status.ok()) {
    return CannotRun(origin, absl::StrCat(name, ": ", status.message()),
                     kPlanOnly);
  }
  return CheckFit(name, shape, *plan, origin);
}

Diagnosis NoModels() {
  return {.name = "model",
          .health = Health::kSkipped,
          .found = absl::StrCat("left out; no file was named, and there is "
                                "none in ",
                                CacheDirectory())};
}

}  // namespace plimsoll::cli
