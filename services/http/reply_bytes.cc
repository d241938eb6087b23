#include "services/http/reply_bytes.h"

#include "absl/strings/str_cat.h"

namespace plimsoll::services {
namespace {

// The words of RFC 9110 for the statuses that this server sends.
absl::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Internal Server Error";
  }
}

}  // namespace

std::string HeadBytes(int status, absl::string_view content_type,
                      absl::string_view framing, bool keeps_alive) {
  return absl::StrCat("HTTP/1.1 ", status, " ", ReasonPhrase(status),
                      "\r\nContent-Type: ", content_type, "\r\n", framing,
                      framing.empty() ? "" : "\r\n",
                      "X-Content-Type-Options: nosniff\r\nConnection: ",
                      keeps_alive ? "keep-alive" : "close", "\r\n");
}

std::string ChunkBytes(const std::string& bytes) {
  return absl::StrCat(absl::Hex(bytes.size()), "\r\n", bytes, "\r\n");
}

}  // namespace plimsoll::services
