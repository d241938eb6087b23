// Whether a model's files are those that the worker was told of, and who may
// change them.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_TRUST_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_TRUST_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/server/flags.h"
#include "worker/device/load_fence.h"
#include "worker/device/model_file.h"

namespace plimsoll::services {

// Reads all bytes of `file` and compares their SHA-256 with that of `flag`.
// Does nothing if `flag` has none. `on_progress` is called before each chunk,
// with the phase "verify". It takes about half a second for each GB of a file
// that is in the page cache, and else as long as the disk needs; the load's own
// reads then find the file in the page cache.
// Errors: kDataLoss with both digests if they differ; those of
// ModelFile::ReadAll and of `on_progress`.
absl::Status CheckDigest(worker::ModelFile& file, const ModelFlag& flag,
                         const worker::LoadFence& on_progress);

// The names, without their folders, of what lets users other than its owner and
// root change the model: its first file `path`, the folder that this lies in,
// and both of what it is a link to. A folder counts where others may replace
// files, so one with the sticky bit does not. What cannot be looked at is left
// out.
std::vector<std::string> ChangeableByOthers(const std::string& path);

// Writes a warning into the log if ChangeableByOthers has anything.
void WarnOfOthers(const ModelFlag& flag);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_TRUST_H_
