// The metrics that are read from a worker's models when they are asked for.
#ifndef PLIMSOLL_SERVICES_METRICS_REGISTRY_METRICS_H_
#define PLIMSOLL_SERVICES_METRICS_REGISTRY_METRICS_H_

#include <vector>

#include "services/metrics/scrape.h"
#include "services/worker/models/model_info.h"
#include "services/worker/models/model_registry.h"

namespace plimsoll::services {

// Adds what `models` do and did since they were loaded.
void AddModels(const std::vector<ModelInfo>& models, Scrape& scrape);

// Adds the plans of the models in memory, beside what was measured.
void AddMemory(ModelRegistry& registry, Scrape& scrape);

// Adds what tenants took, if there are quotas.
void AddTenants(ModelRegistry& registry, Scrape& scrape);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_REGISTRY_METRICS_H_
