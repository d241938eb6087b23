#include "worker/text/tokenizer/space_mark.h"

#include <algorithm>
#include <cstdint>

#include "base/status_macros.h"

namespace plimsoll::worker {

size_t CharBytes(char lead) {
  constexpr uint8_t kBytes[16] = {1, 1, 1, 1, 1, 1, 1, 1,
                                  1, 1, 1, 1, 2, 2, 3, 4};
  return kBytes[static_cast<unsigned char>(lead) >> 4];
}

absl::Status MarkSpaces(absl::string_view text, bool with_space_prefix,
                        StopCounter& stop, std::string& marked) {
  marked.clear();
  if (with_space_prefix) marked.append(kSpaceMark.data(), kSpaceMark.size());
  while (!text.empty()) {
    const absl::string_view some = text.substr(0, StopCounter::kUnits);
    RETURN_IF_ERROR(stop.Spend(StopCounter::kUnits));
    const auto n_spaces =
        static_cast<size_t>(std::count(some.begin(), some.end(), ' '));
    size_t at = marked.size();
    marked.resize(at + some.size() + (kSpaceMark.size() - 1) * n_spaces);
    for (const char c : some) {
      if (c == ' ') {
        kSpaceMark.copy(&marked[at], kSpaceMark.size());
        at += kSpaceMark.size();
      } else {
        marked[at++] = c;
      }
    }
    text.remove_prefix(some.size());
  }
  return absl::OkStatus();
}

void AppendUnmarked(absl::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size();) {
    if (text.substr(i, kSpaceMark.size()) == kSpaceMark) {
      out.push_back(' ');
      i += kSpaceMark.size();
    } else {
      out.push_back(text[i++]);
    }
  }
}

}  // namespace plimsoll::worker
