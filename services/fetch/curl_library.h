// The system's libcurl, opened when it is needed: it and what it depends on
// take some 4 MB and 10 ms, which no other command and no plan should carry.
#ifndef PLIMSOLL_SERVICES_FETCH_CURL_LIBRARY_H_
#define PLIMSOLL_SERVICES_FETCH_CURL_LIBRARY_H_

#include <curl/curl.h>

#include "absl/status/statusor.h"

namespace plimsoll::fetch {

// The functions that are called, by libcurl's names without "curl_".
struct CurlLibrary {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_reset) easy_reset = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_perform) easy_perform = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
};

// Returns the library, which stays open until the process ends. Thread-safe.
// Errors: kFailedPrecondition that names the package which has it.
absl::StatusOr<const CurlLibrary*> OpenCurl();

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_CURL_LIBRARY_H_
