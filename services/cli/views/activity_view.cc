// Tables of what a worker's models do.
#include "services/cli/views/activity_view.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/cli/terminal/age.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/table.h"

namespace plimsoll::cli {
namespace {

using Models = google::protobuf::RepeatedPtrField<v1::ModelActivity>;

std::string Count(uint64_t count) {
  return FormatCount(static_cast<int64_t>(count));
}

std::string Of(uint64_t count, uint64_t limit) {
  return absl::StrCat(Count(count), "/", Count(limit));
}

std::string StateName(v1::RequestState state) {
  absl::string_view name = v1::RequestState_Name(state);
  absl::ConsumePrefix(&name, "REQUEST_STATE_");
  return absl::AsciiStrToLower(name);
}

std::string ModelTable(const Models& models, const Style& style) {
  Table table({{"running", Align::kRight},
               {"waiting", Align::kRight},
               {"sessions", Align::kRight},
               {"kv pages", Align::kRight},
               {"prompt", Align::kRight},
               {"cached", Align::kRight},
               {"generated", Align::kRight},
               {"model"}});
  for (const v1::ModelActivity& model : models) {
    const bool is_ready = model.state() == v1::MODEL_STATE_READY;
    table.AddRow({Of(model.running(), model.n_slots()),
                  Of(model.waiting(), model.max_waiting()),
                  Count(model.sessions()),
                  Of(model.kv_used_pages(), model.kv_pages()),
                  Count(model.prompt_tokens()), Count(model.cached_tokens()),
                  Count(model.generated_tokens()),
                  absl::StrCat(Printable(model.model()),
                               is_ready ? "" : " (draining)")});
  }
  return table.Render(style);
}

}  // namespace

std::string CallsText(uint32_t n_calls) {
  if (n_calls == 0) return "no call is in flight";
  if (n_calls == 1) return "1 call is in flight";
  return absl::StrCat(Count(n_calls), " calls are in flight");
}

std::string RenderActivity(const Models& models, const Style& style) {
  if (models.empty()) return "";
  Table table({{"state"},
               {"prompt", Align::kRight},
               {"generated", Align::kRight},
               {"age", Align::kRight},
               {"model"},
               {"request"}});
  uint64_t n_listed = 0;
  uint64_t n_requests = 0;
  for (const v1::ModelActivity& model : models) {
    n_requests += model.running() + model.waiting();
    n_listed += static_cast<uint64_t>(model.requests_size());
    for (const v1::ActiveRequest& request : model.requests()) {
      table.AddRow({StateName(request.state()), Count(request.prompt_tokens()),
                    Count(request.generated_tokens()), AgeText(request.age()),
                    Printable(model.model()), Printable(request.request_id())});
    }
  }
  std::string out = ModelTable(models, style);
  if (n_listed > 0) absl::StrAppend(&out, "\n", table.Render(style));
  if (n_requests > n_listed) {
    absl::StrAppend(&out, "  and ", Count(n_requests - n_listed), " more\n");
  }
  return out;
}

}  // namespace plimsoll::cli
