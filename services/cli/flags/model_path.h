// Finds models: by a path, or by a name in the cache.
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

// At most this many files of a folder are listed.
inline constexpr size_t kMaxCachedModels = 1'024;

// The folder ${XDG_CACHE_HOME:-~/.cache}/plimsoll/models.
std::string CacheDirectory();

// Paths of a folder's *.gguf files, sorted. A model in several files is listed
// by its first one.
std::vector<std::string> ModelsIn(const std::string& folder);
// Paths of the models in the cache, as ModelsIn lists them.
std::vector<std::string> CachedModels();

// Returns `model` if there is such a file or it contains a slash; else the
// cached file of that name, with or without ".gguf"; else `model`, for the
// error message.
std::string ResolveModel(const std::string& model);

// Opens ResolveModel(model).
// Errors: those of ModelFile::Open, naming the file; if there is no file, the
// message says where models come from.
absl::StatusOr<std::unique_ptr<worker::ModelFile>> OpenModel(
    const std::string& model);

// Opens the tokenizer in ResolveModel(model), of any architecture; the file may
// have only a vocabulary.
// Errors: those of ModelFile::OpenHeader and LoadTokenizer, with the messages
// of OpenModel.
absl::StatusOr<std::unique_ptr<worker::Tokenizer>> OpenTokenizer(
    const std::string& model);

// Reads the source of a plan from ResolveModel(model), which may be several
// files. Errors: those of OpenPlanSource, with the messages of OpenModel.
absl::StatusOr<services::PlanSource> OpenPlannable(const std::string& model);

// Returns the bytes of the projector in ResolveModel(path).
// Errors: those of the reader and of planner::ProjectorFromGguf, naming the
// file.
absl::StatusOr<planner::ProjectorBytes> OpenProjector(const std::string& path);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_FLAGS_MODEL_PATH_H_
