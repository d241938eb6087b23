#include "services/fetch/curl_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace plimsoll::fetch {
namespace {

// The name has been the same since 2006.
constexpr char kCurlFile[] = "libcurl.so.4";

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

absl::StatusOr<CurlLibrary> LoadCurl() {
  void* const library = dlopen(kCurlFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return absl::FailedPreconditionError(
        absl::StrCat("pull needs libcurl, which cannot be opened: ",
                     why == nullptr ? kCurlFile : why,
                     "\n  try: install the package libcurl4 (libcurl4t64 on "
                     "newer systems)"));
  }
  CurlLibrary curl;
  const bool has_all =
      Find(library, "curl_global_init", curl.global_init) &&
      Find(library, "curl_easy_init", curl.easy_init) &&
      Find(library, "curl_easy_reset", curl.easy_reset) &&
      Find(library, "curl_easy_setopt", curl.easy_setopt) &&
      Find(library, "curl_easy_perform", curl.easy_perform) &&
      Find(library, "curl_easy_cleanup", curl.easy_cleanup) &&
      Find(library, "curl_easy_strerror", curl.easy_strerror) &&
      Find(library, "curl_slist_append", curl.slist_append) &&
      Find(library, "curl_slist_free_all", curl.slist_free_all);
  if (!has_all || curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    return absl::FailedPreconditionError(
        absl::StrCat(kCurlFile, " is no libcurl that can be used"));
  }
  return curl;
}

}  // namespace

absl::StatusOr<const CurlLibrary*> OpenCurl() {
  static const auto* const library =
      new absl::StatusOr<CurlLibrary>(LoadCurl());
  if (!library->ok()) return library->status();
  return &**library;
}

}  // namespace plimsoll::fetch
