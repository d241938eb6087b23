// The bytes around the body of a reply in HTTP/1.1.
#ifndef PLIMSOLL_SERVICES_HTTP_REPLY_BYTES_H_
#define PLIMSOLL_SERVICES_HTTP_REPLY_BYTES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::services {

// Writes the status line and the first headers of a reply. `framing` is the
// header that says where the body ends, or empty if there is none; other
// headers may follow.
std::string HeadBytes(int status, absl::string_view content_type,
                      absl::string_view framing, bool keeps_alive);

// Writes bytes, at least one, as a chunk of a body.
std::string ChunkBytes(const std::string& bytes);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_REPLY_BYTES_H_
