#include "services/cli/backends/plan_many.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/layout/layer_split.h"
#include "planner/layout/model_set.h"
#include "services/cli/backends/embedded.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/table.h"
#include "services/host/runtime/runtime_key.h"
#include "services/wire/to_proto.h"
#include "worker/device/host_resources.h"

namespace plimsoll::cli {
namespace {

std::string Verdict(bool fits, absl::string_view text, const Style& style) {
  return absl::StrCat("\n  ",
                      fits ? Paint(style, Color::kGreen, "FITS")
                           : Paint(style, Color::kRed, "DOES NOT FIT"),
                      ": ", text, "\n");
}

}  // namespace

absl::StatusOr<v1::PlanSetResponse> PlanSetHere(
    const std::vector<std::string>& models, const LoadFlags& flags) {
  ASSIGN_OR_RETURN(const auto memory, MemoryOfEach(flags, 1));
  std::vector<planner::SetMember> members;
  planner::RuntimeLoad load = {.n_threads = worker::UsableThreads(),
                               .n_slots = flags.slots,
                               .n_rows = flags.n_ubatch};
  for (const std::string& model : models) {
    ASSIGN_OR_RETURN(services::PlanSource source, OpenPlannable(model));
    planner::PlanOptions options = ToPlanOptions(
        flags, source.shape.n_ctx_train, ContextDefault::kLongestThatFits);
    // The line comes before the first model.
    if (!members.empty()) options.engine.projector.reset();
    load.n_vocab = std::max(load.n_vocab, source.shape.vocab_size);
    members.push_back({std::move(source.shape), options});
  }
  const planner::DeviceProfile profile = services::LocalProfile(load);
  ASSIGN_OR_RETURN(
      const planner::SetPlan set,
      planner::PlanSet(members, profile,
                       memory.front().value_or(profile.free_bytes)));
  return services::ToProto(set);
}

absl::StatusOr<v1::PlanSplitResponse> PlanSplitHere(
    const std::string& model, const std::vector<int64_t>& budgets,
    const LoadFlags& flags) {
  ASSIGN_OR_RETURN(const services::PlanSource source, OpenPlannable(model));
  std::vector<planner::SplitDevice> devices;
  devices.reserve(budgets.size());
  for (const int64_t budget : budgets) {
    devices.push_back({worker::LocalCpuProfile(), budget});
  }
  ASSIGN_OR_RETURN(
      const planner::SplitPlan split,
      planner::SplitLayers(source.shape,
                           ToPlanOptions(flags, source.shape.n_ctx_train,
                                         ContextDefault::kLongestThatFits),
                           devices));
  return services::ToProto(split, devices);
}

std::string RenderSet(const v1::PlanSetResponse& set,
                      const std::vector<std::string>& models,
                      const Style& style) {
  Table table({{"model"},
               {"context", Align::kRight},
               {"weights", Align::kRight},
               {"kv", Align::kRight},
               {"total", Align::kRight}});
  for (int i = 0; i < set.plans_size(); ++i) {
    const v1::MemoryPlan& plan = set.plans(i);
    int64_t weights = 0;
    int64_t kv = 0;
    for (const v1::MemoryRegion& region : plan.regions()) {
      if (region.name() == "weights" || region.name() == "mtp") {
        weights += Signed(region.bytes());
      }
      if (region.name() == "kv_full" || region.name() == "kv_window" ||
          region.name() == "kv_mtp" || region.name() == "state") {
        kv += Signed(region.bytes());
      }
    }
    const std::filesystem::path path = models[static_cast<size_t>(i)];
    table.AddRow({Printable(path.filename().string()),
                  FormatCount(plan.n_ctx()), FormatBytes(weights),
                  FormatBytes(kv), FormatBytes(Signed(plan.total_bytes()))});
  }
  const int64_t total = Signed(set.total_bytes());
  const int64_t budget = Signed(set.budget_bytes());
  return absl::StrCat(
      table.Render(style),
      Verdict(set.fits(),
              absl::StrCat(FormatBytes(total), " of ", FormatBytes(budget),
                           set.fits()
                               ? absl::StrCat(", ", FormatBytes(budget - total),
                                              " stay free")
                               : absl::StrCat(", ", FormatBytes(total - budget),
                                              " missing")),
              style));
}

std::string RenderSplit(const v1::PlanSplitResponse& split,
                        const std::vector<std::string>& names,
                        const Style& style) {
  Table table({{"device", names.empty() ? Align::kRight : Align::kLeft},
               {"layers"},
               {"used", Align::kRight},
               {"of", Align::kRight}});
  for (const v1::SplitPart& part : split.parts()) {
    table.AddRow({names.empty() ? absl::StrCat(part.device() + 1)
                                : Printable(names[part.device()]),
                  absl::StrCat(part.first_layer(), "-",
                               part.first_layer() + part.n_layers() - 1),
                  FormatBytes(Signed(part.plan().total_bytes())),
                  FormatBytes(Signed(
                      split.budget_bytes(static_cast<int>(part.device()))))});
  }
  std::string text = absl::StrCat(
      table.Render(style),
      Verdict(split.fits(),
              split.fits()
                  ? absl::StrCat(FormatCount(split.n_ctx()),
                                 " tokens of context a slot")
                  : absl::StrCat(split.n_layers_left(),
                                 " layers find no device; try a larger one, a "
                                 "smaller --n-ctx or fewer --slots"),
              style));
  if (split.fits()) return text;
  absl::StrAppend(&text, "  the last device lacks ",
                  FormatBytes(Signed(split.missing_bytes())), " for them\n");
  for (const v1::Suggestion& suggestion : split.suggestions()) {
    absl::StrAppend(&text, "  they all find one with ", suggestion.text(),
                    "\n");
  }
  return text;
}

}  // namespace plimsoll::cli
