#include "services/http/page.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace plimsoll::services {
namespace {

constexpr absl::string_view kIndex = "index.html";

// Scripts, styles and data come from this server's files only, nothing can be
// written into the page as HTML, and no other page may show it in a frame.
constexpr char kContentSecurityPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'";

absl::string_view TypeOf(absl::string_view name) {
  if (absl::EndsWith(name, ".html")) return "text/html; charset=utf-8";
  if (absl::EndsWith(name, ".css")) return "text/css; charset=utf-8";
  if (absl::EndsWith(name, ".js")) return "text/javascript; charset=utf-8";
  if (absl::EndsWith(name, ".json")) return "application/json";
  return "image/svg+xml";
}

// Whether a list of tags, some of them weak ones, has this one.
bool Names(absl::string_view tags, absl::string_view etag) {
  for (absl::string_view tag : absl::StrSplit(tags, ',')) {
    tag = absl::StripAsciiWhitespace(tag);
    absl::ConsumePrefix(&tag, "W/");
    if (tag == etag || tag == "*") return true;
  }
  return false;
}

}  // namespace

const PageFile* FindPageFile(absl::string_view path) {
  absl::string_view name = kIndex;
  if (path != "/") {
    if (!absl::ConsumePrefix(&path, "/page/") || path == kIndex) return nullptr;
    name = path;
  }
  for (const PageFile& file : PageFiles()) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

const PageFile& DescriptionFile() { return DescriptionFiles().front(); }

HttpResponse PageResponse(const PageFile& file,
                          absl::string_view if_none_match) {
  HttpResponse response;
  response.content_type = std::string(TypeOf(file.name));
  // A new version of the program has other files at the same paths, so browsers
  // ask each time whether theirs are current.
  response.headers = {{"ETag", std::string(file.etag)},
                      {"Cache-Control", "no-cache"},
                      {"Content-Security-Policy", kContentSecurityPolicy},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cross-Origin-Resource-Policy", "same-origin"},
                      {"Referrer-Policy", "no-referrer"}};
  if (Names(if_none_match, file.etag)) {
    response.status = 304;
  } else {
    response.body = std::string(file.bytes);
  }
  return response;
}

}  // namespace plimsoll::services
