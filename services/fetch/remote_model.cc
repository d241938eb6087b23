#include "services/fetch/remote_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/gguf/split_files.h"

namespace plimsoll::fetch {

absl::StatusOr<std::vector<RemoteFile>> FilesOfUrl(const PullSource& source,
                                                   const std::string& name) {
  const std::string last = source.url.LastSegment();
  if (!name.empty()) return std::vector<RemoteFile>{{name, source.url}};
  if (const absl::Status status = CheckFileName(last); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(status.message(), "; --name gives the file another name"));
  }
  if (planner::IsLaterSplit(last)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", last, "' is one of several files; name the first of them"));
  }
  std::vector<std::string> names = planner::SplitNames(last);
  if (names.empty()) names = {last};
  std::vector<RemoteFile> files;
  files.reserve(names.size());
  for (const std::string& name : names) {
    Url url = source.url;
    const size_t query = std::min(url.path.find('?'), url.path.size());
    const size_t slash = url.path.rfind('/', query);
    // The first one keeps the letters that the person wrote.
    if (name != last) {
      url.path.replace(slash + 1, query - slash - 1, PercentEncode(name));
    }
    files.push_back({name, std::move(url)});
  }
  return files;
}

}  // namespace plimsoll::fetch
