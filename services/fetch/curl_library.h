// The system's libcurl, which is opened only when it is needed. libcurl and its
// dependencies take about 4 MB and 10 ms, which other commands and plans should
// not pay.
#ifndef PLIMSOLL_SERVICES_FETCH_CURL_LIBRARY_H_
#define PLIMSOLL_SERVICES_FETCH_CURL_LIBRARY_H_

#include <curl/curl.h>

#include "absl/status/statusor.h"

namespace plimsoll::fetch {

// The used functions, with libcurl's names without "curl_".
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
// Errors: kFailedPrecondition naming the package to install.
absl::StatusOr<const CurlLibrary*> OpenCurl();

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_CURL_LIBRARY_H_
