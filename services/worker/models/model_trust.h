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

// Returns the names, without their folders, of the files and folders through
// which users other than their owner and root can change the model. It looks at
// the model's first file, `path`, at its folder, and, if `path` is a link, at
// the file that it leads to and the folder of that. A folder counts if others
// may replace files in it, so a folder with the sticky bit does not count.
// Files and folders that cannot be looked at are left out.
std::vector<std::string> ChangeableByOthers(const std::string& path);

// Writes a warning into the log if ChangeableByOthers has anything.
void WarnOfOthers(const ModelFlag& flag);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_TRUST_H_
