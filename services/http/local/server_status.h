// The memory use and the work of a process, as JSON for the page: the plans of
// its models beside measured figures.
#ifndef PLIMSOLL_SERVICES_HTTP_LOCAL_SERVER_STATUS_H_
#define PLIMSOLL_SERVICES_HTTP_LOCAL_SERVER_STATUS_H_

#include <string>

#include "services/http/json.h"
#include "services/worker/models/model_registry.h"

namespace plimsoll::services {

// Returns the reply of /plimsoll/status, which docs/http.md describes. `state`
// is the word of /health. It takes no longer than reading some small files of
// /proc.
Json ServerStatus(ModelRegistry& registry, const std::string& state);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_LOCAL_SERVER_STATUS_H_
