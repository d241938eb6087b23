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
// Errors: kInvalidArgument if CheckFileName refuses the URL's name and `name`
// is empty, or if the name belongs to a later part.
absl::StatusOr<std::vector<RemoteFile>> FilesOfUrl(const PullSource& source,
                                                   const std::string& name);

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_REMOTE_MODEL_H_
