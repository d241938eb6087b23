// Finds the files that a source means by a URL's name.
#ifndef PLIMSOLL_SERVICES_FETCH_REMOTE_MODEL_H_
#define PLIMSOLL_SERVICES_FETCH_REMOTE_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/fetch/download.h"
#include "services/fetch/source.h"

namespace plimsoll::fetch {

// The file of a URL, or all parts if it is the first of several.
// Errors: kInvalidArgument if the name is not CheckFileName's and `name` is
// empty, or if it is that of a later part.
absl::StatusOr<std::vector<RemoteFile>> FilesOfUrl(const PullSource& source,
                                                   const std::string& name);

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_REMOTE_MODEL_H_
