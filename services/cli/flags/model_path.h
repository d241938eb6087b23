// Where models lie: a path as given, or a name in the cache.
#ifndef PLIMSOLL_SERVICES_CLI_FLAGS_MODEL_PATH_H_
#define PLIMSOLL_SERVICES_CLI_FLAGS_MODEL_PATH_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/layout/memory_plan.h"
#include "services/sources/plan_source.h"
#include "worker/device/model_file.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::cli {

// Files of the cache that are listed at most.
inline constexpr size_t kMaxCachedModels = 1'024;

// ${XDG_CACHE_HOME:-~/.cache}/plimsoll/models.
std::string CacheDirectory();

// Paths of the cache's *.gguf files, sorted.
std::vector<std::string> CachedModels();

// `model` if there is such a file or it contains a slash; else the cached file
// of that name, with or without ".gguf"; else `model`, for the error message.
std::string ResolveModel(const std::string& model);

// Opens ResolveModel(model).
// Errors: those of ModelFile::Open, naming the file; for one that is not there,
// with where models come from.
absl::StatusOr<std::unique_ptr<worker::ModelFile>> OpenModel(
    const std::string& model);

// The tokenizer in ResolveModel(model), of whatever architecture; a file with a
// vocabulary alone will do.
// Errors: those of ModelFile::OpenHeader and LoadTokenizer, as OpenModel's.
absl::StatusOr<std::unique_ptr<worker::Tokenizer>> OpenTokenizer(
    const std::string& model);

// Reads what can be planned of ResolveModel(model), which need not be one file.
// Errors: those of OpenPlanSource, as OpenModel's.
absl::StatusOr<services::PlanSource> OpenPlannable(const std::string& model);

// What the projector in ResolveModel(path) takes.
// Errors: those of the reader and of planner::ProjectorFromGguf, naming the
// file.
absl::StatusOr<planner::ProjectorBytes> OpenProjector(const std::string& path);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_FLAGS_MODEL_PATH_H_
