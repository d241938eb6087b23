// Finds the files of a hub's repository that a source means.
#ifndef PLIMSOLL_SERVICES_FETCH_HUB_H_
#define PLIMSOLL_SERVICES_FETCH_HUB_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/fetch/download.h"
#include "services/fetch/session.h"
#include "services/fetch/source.h"

namespace plimsoll::fetch {

// The most bytes of a hub's list of files.
inline constexpr size_t kMaxListBytes = 16 << 20;
inline constexpr size_t kMaxListedFiles = 100'000;

// Returns the files for the source from a hub's list, which is JSON.
// Errors: kDataLoss if it is no list; kNotFound if no file fits; the messages
// name the list's contents. kInvalidArgument if several models fit.
absl::StatusOr<std::vector<RemoteFile>> FilesOfList(const PullSource& source,
                                                    const Url& hub,
                                                    absl::string_view list,
                                                    const std::string& name);

// Asks a hub for the repository's files and returns FilesOfList.
// Errors: those of FetchSession and FilesOfList.
absl::StatusOr<std::vector<RemoteFile>> FilesOfHub(FetchSession& session,
                                                   const PullSource& source,
                                                   const Url& hub,
                                                   const std::string& name);

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_HUB_H_
