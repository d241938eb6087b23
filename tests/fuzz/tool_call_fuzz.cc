// Any text is a call or is refused by a reason; what is a call is written and
// read again as the same. Any text is a tool's parameters and a response, too,
// or refused.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "worker/text/chat/tool_call.h"
#include "worker/text/chat/tool_text.h"

namespace plimsoll::worker {
namespace {

void CheckCall(absl::string_view text) {
  const auto call = ParseToolCall(text);
  if (!call.ok()) {
    PLIMSOLL_CHECK(!call.status().message().empty(), "an error says why");
    return;
  }
  const auto written = WriteToolCall(*call);
  // A number may be out of every range, and replaced names may be the same.
  if (!written.ok()) return;
  const auto again = ParseToolCall(*written);
  PLIMSOLL_CHECK(
      again.ok() || static_cast<int64_t>(written->size()) > kMaxToolCallBytes,
      "what is written can be read");
  if (!again.ok()) return;
  const auto twice = WriteToolCall(*again);
  PLIMSOLL_CHECK(twice.ok() && *twice == *written, "and is the same");
}

}  // namespace
}  // namespace plimsoll::worker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace worker = plimsoll::worker;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  worker::CheckCall(text);
  (void)worker::WriteToolDeclaration({"f", "", std::string(text)});
  (void)worker::WriteToolResponse("f", text);
  return 0;
}
