// Tables of the work of a worker's models.
#ifndef PLIMSOLL_SERVICES_CLI_VIEWS_ACTIVITY_VIEW_H_
#define PLIMSOLL_SERVICES_CLI_VIEWS_ACTIVITY_VIEW_H_

#include <google/protobuf/repeated_field.h>

#include <string>

#include "plimsoll/v1/admin.pb.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {

// Returns a sentence such as "no call is in flight" or "3 calls are in flight".
std::string CallsText(uint32_t n_calls);

// Writes a table of the models and, if something runs or waits, one of the
// requests. Empty if there are no models.
std::string RenderActivity(
    const google::protobuf::RepeatedPtrField<v1::ModelActivity>& models,
    const Style& style);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_VIEWS_ACTIVITY_VIEW_H_
