#include "services/worker/models/model_description.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace plimsoll::services {
namespace {

// Bytes of a plan's region; 0 if it has none of that name.
int64_t BytesOf(const planner::MemoryPlan& plan, absl::string_view region) {
  const planner::Region* found = plan.FindRegion(region);
  return found == nullptr ? 0 : found->bytes;
}

// What a device's own free bytes say of a part's plan; empty on the host.
std::string TakenNote(const LoadedModel& model, size_t i) {
  const worker::MemoryReport memory = model.engine->MemoryOf(i);
  if (!memory.device_taken_bytes.has_value()) return "";
  const planner::MemoryPlan& plan = model.engine->parts()[i].plan;
  return absl::StrCat("; the device has ", *memory.device_taken_bytes,
                      " bytes less, the plan is of ", plan.total_bytes, ", ",
                      BytesOf(plan, "runtime"), " of them the process's own");
}

// Where the layers of a model on several devices are, and what the devices say.
std::string PartsNote(const LoadedModel& model) {
  if (model.parts.size() == 1) return TakenNote(model, 0);
  std::string note;
  for (size_t i = 0; i < model.parts.size(); ++i) {
    const worker::EnginePart& part = model.engine->parts()[i];
    absl::StrAppend(&note, "; layers ", part.first_layer, "-",
                    part.first_layer + part.n_layers - 1, " on ",
                    model.parts[i].device_id, " in ", part.plan.total_bytes,
                    " bytes", TakenNote(model, i));
  }
  return note;
}

// How fast the weights came; empty where that took no time.
std::string RateNote(const LoadedModel& model) {
  const double seconds = absl::ToDoubleSeconds(model.weight_time);
  if (seconds <= 0) return "";
  return absl::StrFormat(
      "; weights read at %.1f GB/s",
      static_cast<double>(model.weight_bytes) / seconds / 1e9);
}

}  // namespace

ServedModel Served(LoadedModel::Use use, QuotaBook* quotas) {
  const LoadedModel& model = *use;
  return {model.name,
          model.engine.get(),
          model.chat_format,
          model.own_template,
          std::make_shared<LoadedModel::Use>(std::move(use)),
          quotas};
}

ReadyModel DescribeReady(const LoadedModel& model) {
  ReadyModel ready;
  ready.architecture = model.architecture;
  ready.display_name = model.display_name;
  ready.n_ctx = model.engine->n_ctx();
  ready.n_ctx_train = model.n_ctx_train;
  ready.weight_bytes = model.weight_bytes;
  if (model.chat_format.ok()) {
    ready.chat_format =
        std::string(worker::ChatFormatName(model.chat_format->format));
    ready.has_tools = worker::FormatHasTools(model.chat_format->format);
  } else if (model.own_template != nullptr) {
    ready.chat_format = std::string(worker::kTemplateFormat);
    ready.has_tools =
        model.own_template->reply_format().syntax != worker::CallSyntax::kNone;
  }
  for (size_t i = 0; i < model.parts.size(); ++i) {
    const worker::EnginePart& part = model.engine->parts()[i];
    ready.parts.push_back({model.parts[i].device_id, part.first_layer,
                           part.n_layers, part.plan.total_bytes,
                           model.parts[i].is_on_host});
  }
  ready.load = model.engine->CurrentLoad();
  ready.idle_since = model.IdleSince();
  return ready;
}

std::vector<PlannedPart> PlannedPartsOf(const LoadedModel& model) {
  std::vector<PlannedPart> parts;
  for (size_t i = 0; i < model.parts.size(); ++i) {
    const worker::EnginePart& part = model.engine->parts()[i];
    parts.push_back(
        {model.parts[i].device_id, part.first_layer, part.n_layers, part.plan});
  }
  return parts;
}

std::vector<PlannedPart> PlannedPartsOf(
    const std::vector<planner::SplitPart>& parts,
    const std::vector<WorkerDevice>& devices) {
  std::vector<PlannedPart> result;
  result.reserve(parts.size());
  for (const planner::SplitPart& part : parts) {
    result.push_back({devices[static_cast<size_t>(part.device)].id,
                      part.first_layer, part.n_layers, part.plan});
  }
  return result;
}

int64_t PlannedResidentBytes(const LoadedModel& model) {
  int64_t bytes = 0;
  for (size_t i = 0; i < model.parts.size(); ++i) {
    if (!model.parts[i].is_on_host) continue;
    const worker::MemoryReport memory = model.engine->MemoryOf(i);
    const planner::MemoryPlan& plan = model.engine->parts()[i].plan;
    bytes += memory.allocated_bytes +
             std::min(memory.vocab_bytes, BytesOf(plan, "vocab")) +
             std::min(memory.table_bytes, BytesOf(plan, "tables"));
  }
  return bytes;
}

std::string LoadNote(const LoadedModel& model) {
  const planner::MemoryPlan& plan = model.engine->plan();
  return absl::StrCat(
      plan.n_ctx_reason, plan.cpu_experts_reason.empty() ? "" : "; ",
      plan.cpu_experts_reason, RateNote(model), PartsNote(model));
}

}  // namespace plimsoll::services
