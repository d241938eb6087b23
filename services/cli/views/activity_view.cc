// Tables of what a worker's models do.
#include "services/cli/views/activity_view.h"

#include <cmath>
#include <utility>
#include <vector>

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

TokenCounts TokensOf(const v1::ModelActivity& model) {
  return {.prompt = static_cast<int64_t>(model.prompt_tokens()),
          .cached = static_cast<int64_t>(model.cached_tokens()),
          .generated = static_cast<int64_t>(model.generated_tokens())};
}

// The cells of a model's tokens: numbers since its load, or rates. A model that
// has no rates yet has dashes.
std::vector<std::string> TokenCells(const v1::ModelActivity& model,
                                    const std::optional<TokenRates>& rates) {
  TokenCounts tokens = TokensOf(model);
  if (rates.has_value()) {
    const auto rate = rates->find(model.model());
    if (rate == rates->end()) return {"-", "-", "-"};
    tokens = rate->second;
  }
  return {FormatCount(tokens.prompt), FormatCount(tokens.cached),
          FormatCount(tokens.generated)};
}

std::string ModelTable(const Models& models,
                       const std::optional<TokenRates>& rates,
                       const Style& style) {
  const absl::string_view unit = rates.has_value() ? "/s" : "";
  Table table({{"running", Align::kRight},
               {"waiting", Align::kRight},
               {"sessions", Align::kRight},
               {"kv pages", Align::kRight},
               {absl::StrCat("prompt", unit), Align::kRight},
               {absl::StrCat("cached", unit), Align::kRight},
               {absl::StrCat("generated", unit), Align::kRight},
               {"model"}});
  for (const v1::ModelActivity& model : models) {
    const bool is_ready = model.state() == v1::MODEL_STATE_READY;
    std::vector<std::string> cells = {
        Of(model.running(), model.n_slots()),
        Of(model.waiting(), model.max_waiting()), Count(model.sessions()),
        Of(model.kv_used_pages(), model.kv_pages())};
    for (std::string& cell : TokenCells(model, rates)) {
      cells.push_back(std::move(cell));
    }
    cells.push_back(
        absl::StrCat(Printable(model.model()), is_ready ? "" : " (draining)"));
    table.AddRow(std::move(cells));
  }
  return table.Render(style);
}

}  // namespace

std::string CallsText(uint32_t n_calls) {
  if (n_calls == 0) return "no call is in flight";
  if (n_calls == 1) return "1 call is in flight";
  return absl::StrCat(Count(n_calls), " calls are in flight");
}

TokenRates RatesBetween(const v1::GetLoadResponse& before,
                        const v1::GetLoadResponse& after,
                        absl::Duration elapsed) {
  std::map<std::string, TokenCounts> earlier;
  for (const v1::ModelActivity& model : before.models()) {
    earlier[model.model()] = TokensOf(model);
  }
  const double seconds = absl::ToDoubleSeconds(elapsed);
  const auto rate = [seconds](int64_t from, int64_t to) {
    return static_cast<int64_t>(
        std::llround(static_cast<double>(to - from) / seconds));
  };
  TokenRates rates;
  for (const v1::ModelActivity& model : after.models()) {
    const auto from = earlier.find(model.model());
    if (from == earlier.end()) continue;
    const TokenCounts to = TokensOf(model);
    if (to.prompt < from->second.prompt || to.cached < from->second.cached ||
        to.generated < from->second.generated) {
      continue;
    }
    rates[model.model()] = {
        .prompt = rate(from->second.prompt, to.prompt),
        .cached = rate(from->second.cached, to.cached),
        .generated = rate(from->second.generated, to.generated)};
  }
  return rates;
}

std::string RenderActivity(const Models& models,
                           const std::optional<TokenRates>& rates,
                           const Style& style) {
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
  std::string out = ModelTable(models, rates, style);
  if (n_listed > 0) absl::StrAppend(&out, "\n", table.Render(style));
  if (n_requests > n_listed) {
    absl::StrAppend(&out, "  and ", Count(n_requests - n_listed), " more\n");
  }
  return out;
}

}  // namespace plimsoll::cli
