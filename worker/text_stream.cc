#include "worker/text_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

namespace plimsoll::worker {

std::string TextStream::Push(absl::string_view bytes) {
  if (stopped_) return "";
  pending_ += utf8_.Push(bytes);
  return Release();
}

std::string TextStream::Finish() {
  if (stopped_) return "";
  pending_ += utf8_.Finish();
  std::string text = Release();
  if (!stopped_) text += std::exchange(pending_, "");
  return text;
}

std::string TextStream::Release() {
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
    std::string text = pending_.substr(0, begin);
    pending_.clear();
    return text;
  }
  // Hold the longest tail that begins some stop string.
  size_t held = 0;
  for (const std::string& stop : stop_strings_) {
    for (size_t n = std::min(stop.size() - 1, pending_.size()); n > held; --n) {
      if (absl::EndsWith(pending_, absl::string_view(stop).substr(0, n))) {
        held = n;
        break;
      }
    }
  }
  std::string text = pending_.substr(0, pending_.size() - held);
  pending_.erase(0, text.size());
  return text;
}

}  // namespace plimsoll::worker
