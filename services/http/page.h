// The page at "/" and the description of all paths. Their files are part of the
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

// The OpenAPI description of all paths, and its own path.
const PageFile& DescriptionFile();
inline constexpr char kDescriptionPath[] = "/openapi.json";

// The reply with the file, or 304 if the client has the file already:
// `if_none_match`, the header of that name, has its ETag.
HttpResponse PageResponse(const PageFile& file,
                          absl::string_view if_none_match);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_PAGE_H_
