// Tools for writing chat formats: runs of scaffold and of content, and the
// trimming that templates do.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_CHAT_SEGMENTS_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_CHAT_SEGMENTS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/chat/chat_template.h"

namespace plimsoll::worker {

// FunctionGemma's markers.
inline constexpr absl::string_view kDeclarationBegin =
    "<start_function_declaration>";
inline constexpr absl::string_view kDeclarationEnd =
    "<end_function_declaration>";
inline constexpr absl::string_view kCallBegin = "<start_function_call>";
inline constexpr absl::string_view kCallEnd = "<end_function_call>";
inline constexpr absl::string_view kResponseBegin = "<start_function_response>";
inline constexpr absl::string_view kResponseEnd = "<end_function_response>";
inline constexpr absl::string_view kEscape = "<escape>";
inline constexpr absl::string_view kToolMarkers[] = {
    kDeclarationBegin, kDeclarationEnd, kCallBegin, kCallEnd,
    kResponseBegin,    kResponseEnd,    kEscape};

// Joins adjacent segments of one kind.
class SegmentWriter {
 public:
  void Scaffold(absl::string_view text) { Add(text, /*is_scaffold=*/true); }
  void Content(absl::string_view text) { Add(text, /*is_scaffold=*/false); }
  std::vector<ChatSegment> Take() { return std::move(segments_); }

 private:
  void Add(absl::string_view text, bool is_scaffold) {
    if (text.empty()) return;
    if (segments_.empty() || segments_.back().is_scaffold != is_scaffold) {
      segments_.push_back({std::string(), is_scaffold});
    }
    segments_.back().text.append(text.data(), text.size());
  }

  std::vector<ChatSegment> segments_;
};

// Returns "system", "user", "assistant" or "tool".
absl::string_view RoleName(ChatRole role);

// Errors: kInvalidArgument if there are no messages, or beyond the limits of a
// conversation.
absl::Status CheckChatLimits(const std::vector<ChatMessage>& messages,
                             const std::vector<Tool>& tools);

// Errors: kOutOfRange if the segments have too many bytes for
// limits.max_tokens.
absl::Status CheckSegmentsFit(const Tokenizer& tokenizer,
                              const std::vector<ChatSegment>& segments,
                              const EncodeLimits& limits);

// Removes the same characters as the templates' own `trim`: those of Python's
// str.isspace.
absl::string_view TrimChat(absl::string_view text);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_CHAT_SEGMENTS_H_
