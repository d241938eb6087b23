#include "worker/text/chat/call_end.h"

#include "absl/strings/match.h"

namespace plimsoll::worker {

size_t CallEnd::Find(absl::string_view text, absl::string_view mark) {
  while (at_ < text.size()) {
    const absl::string_view rest = text.substr(at_);
    if (!is_string_) {
      if (absl::StartsWith(rest, mark)) return at_;
      if (absl::StartsWith(mark, rest)) break;  // it may become the mark
    }
    const bool is_escape = is_string_ && rest[0] == '\\';
    if (is_escape && rest.size() == 1) break;
    if (rest[0] == '"') is_string_ = !is_string_;
    at_ += is_escape ? 2 : 1;
  }
  return absl::string_view::npos;
}

}  // namespace plimsoll::worker
