#include "worker/text/chat/call_end.h"

#include "absl/strings/match.h"

namespace plimsoll::worker {

size_t CallEnd::Find(absl::string_view text, absl::string_view mark) {
  while (at_ < text.size()) {
    const absl::string_view rest = text.substr(at_);
    if (!strings_.is_inside()) {
      if (absl::StartsWith(rest, mark)) return at_;
      if (absl::StartsWith(mark, rest)) break;  // it may become the mark
    }
    strings_.Take(rest.front());
    ++at_;
  }
  return absl::string_view::npos;
}

}  // namespace plimsoll::worker
