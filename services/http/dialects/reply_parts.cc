#include "services/http/dialects/reply_parts.h"

#include "absl/strings/str_cat.h"

namespace plimsoll::services {

std::string PlainText(const ReplyFormat::Part& part) {
  std::string text = part.text();
  for (const v1::ToolCall& call : part.tool_calls()) text += call.text();
  return text;
}

void AppendNamedEvent(absl::string_view name, absl::string_view data,
                      std::string& events) {
  absl::StrAppend(&events, "event: ", name, "\ndata: ", data, "\n\n");
}

}  // namespace plimsoll::services
