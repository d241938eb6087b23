// The page at "/" and the description of all paths, whose files are in the
// program.
#ifndef PLIMSOLL_SERVICES_HTTP_PAGE_H_
#define PLIMSOLL_SERVICES_HTTP_PAGE_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "services/http/http_message.h"
#include "services/http/page_files.h"

namespace plimsoll::services {

// The most bytes that all files of the page may have together.
inline constexpr size_t kMaxPageBytes = 100'000;

// The file at a path: index.html at "/", the others at "/page/NAME". Null if
// there is none.
const PageFile* FindPageFile(absl::string_view path);

// The description of all paths as OpenAPI writes it, and where it is.
const PageFile& DescriptionFile();
inline constexpr char kDescriptionPath[] = "/openapi.json";

// The reply that has the file, or says that the client has it already: 304 if
// `if_none_match`, which is the header of that name, names its ETag.
HttpResponse PageResponse(const PageFile& file,
                          absl::string_view if_none_match);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_PAGE_H_
