// The files of services/http/page and services/http/openapi, which the build
// puts into the program.
#ifndef PLIMSOLL_SERVICES_HTTP_PAGE_FILES_H_
#define PLIMSOLL_SERVICES_HTTP_PAGE_FILES_H_

#include <span>

#include "absl/strings/string_view.h"

namespace plimsoll::services {

struct PageFile {
  absl::string_view name;  // such as "index.html"
  absl::string_view etag;  // a hash of its bytes, in quotes
  absl::string_view bytes;
};

// All files of the page, in the build's order.
std::span<const PageFile> PageFiles();
// openapi.json alone.
std::span<const PageFile> DescriptionFiles();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_PAGE_FILES_H_
