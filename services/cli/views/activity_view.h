// Tables of the work of a worker's models.
#ifndef PLIMSOLL_SERVICES_CLI_VIEWS_ACTIVITY_VIEW_H_
#define PLIMSOLL_SERVICES_CLI_VIEWS_ACTIVITY_VIEW_H_

#include <google/protobuf/repeated_field.h>

#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "plimsoll/v1/admin.pb.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {

// Returns a sentence such as "no call is in flight" or "3 calls are in flight".
std::string CallsText(uint32_t n_calls);

// Tokens of a model: since its load, or in a second.
struct TokenCounts {
  int64_t prompt = 0;
  int64_t cached = 0;
  int64_t generated = 0;
};

// Tokens in a second, by the name of the model.
using TokenRates = std::map<std::string, TokenCounts>;

// Returns the rates of the models that are in both replies, which were
// `elapsed` apart (above 0). A model that was loaded in between has none.
TokenRates RatesBetween(const v1::GetLoadResponse& before,
                        const v1::GetLoadResponse& after,
                        absl::Duration elapsed);

// Writes a table of the models and, if something runs or waits, one of the
// requests. Empty if there are no models. With `rates`, the table has them in
// place of the tokens since the load, and dashes for a model without them.
std::string RenderActivity(
    const google::protobuf::RepeatedPtrField<v1::ModelActivity>& models,
    const std::optional<TokenRates>& rates, const Style& style);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_VIEWS_ACTIVITY_VIEW_H_
