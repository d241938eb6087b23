#include "worker/text/text_stream.h"

#include <algorithm>
#include <utility>

#include "worker/text/mark_end.h"

namespace plimsoll::worker {

void TextStream::Push(absl::string_view bytes, std::string& out) {
  if (stopped_) return;
  utf8_.Push(bytes, pending_);
  Release(out);
}

void TextStream::Finish(std::string& out) {
  if (stopped_) return;
  pending_ += utf8_.Finish();
  Release(out);
  if (!stopped_) out += std::exchange(pending_, "");
}

void TextStream::Release(std::string& out) {
  size_t begin = 0;
  size_t end = std::string::npos;
  for (const std::string& stop : stop_strings_) {
    const size_t at = pending_.find(stop);
    if (at == std::string::npos) continue;
    if (at + stop.size() > end || (at + stop.size() == end && at >= begin)) {
      continue;
    }
    begin = at;
    end = at + stop.size();
    stop_string_ = stop;
  }
  if (end != std::string::npos) {
    stopped_ = true;
    out.append(pending_, 0, begin);
    pending_.clear();
    return;
  }
  // Hold the longest tail that begins some stop string.
  size_t held = 0;
  for (const std::string& stop : stop_strings_) {
    held = std::max(held, EndThatBegins(stop, pending_));
  }
  const size_t n_certain = pending_.size() - held;
  out.append(pending_, 0, n_certain);
  pending_.erase(0, n_certain);
}

}  // namespace plimsoll::worker
