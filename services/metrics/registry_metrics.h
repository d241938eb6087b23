// The metrics that are read from a worker's models at each scrape.
#ifndef PLIMSOLL_SERVICES_METRICS_REGISTRY_METRICS_H_
#define PLIMSOLL_SERVICES_METRICS_REGISTRY_METRICS_H_

#include <vector>

#include "services/metrics/scrape.h"
#include "services/worker/models/model_info.h"
#include "services/worker/models/model_registry.h"

namespace plimsoll::services {

// Adds the state of `models`, and their counts since they were loaded.
void AddModels(const std::vector<ModelInfo>& models, Scrape& scrape);

// Adds the plans of the loaded models, and the measured memory.
void AddMemory(ModelRegistry& registry, Scrape& scrape);

// Adds the usage of tenants, if there are quotas.
void AddTenants(ModelRegistry& registry, Scrape& scrape);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_REGISTRY_METRICS_H_
