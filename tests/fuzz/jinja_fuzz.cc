// Any template is rendered or refused within the limits, and what a
// conversation says is never taken for the template's own text.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status_macros.h"
#include "worker/text/jinja/json_value.h"
#include "worker/text/jinja/syntax/template.h"
#include "worker/text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace jinja = plimsoll::worker::jinja;
  // U+10FFFD, which no template has: the fuzzer's own text is ASCII.
  static const auto& variables = *new jinja::Value(*jinja::FromJson(
      R"({"messages": [{"role": "user", "content": "\udbff\udffd \udbff\udffd,\udbff\udffd"},
          {"role": "assistant", "content": null, "tool_calls": [
              {"function": {"name": "\udbff\udffd", "arguments": {"\udbff\udffd": 1}}}]}],
          "x": [1, 2.5, "\udbff\udffd", true, {}], "n": 3})",
      /*is_tainted=*/true));
  FuzzedDataProvider input(data, size);
  std::string source = input.ConsumeRemainingBytesAsString();
  for (char& c : source) c = static_cast<char>(c & 0x7F);
  const auto parsed = jinja::Template::Parse(source);
  if (!parsed.ok()) return 0;
  jinja::Surroundings surroundings;
  surroundings.limits = {.max_steps = 20'000, .max_text_bytes = 1 << 16};
  const auto text = parsed->Render(variables.dict(), surroundings);
  if (!text.ok()) return 0;
  PLIMSOLL_CHECK(plimsoll::worker::IsValidUtf8(text->bytes()),
                 "rendered text is UTF-8");
  // An escape can make the character; a template without one cannot.
  if (source.find('\\') != std::string::npos) return 0;
  text->ForEachRun([](absl::string_view run, bool is_tainted) {
    PLIMSOLL_CHECK(
        is_tainted || run.find("\xF4\x8F\xBF\xBD") == absl::string_view::npos,
        "a conversation's text is tainted");
  });
  return 0;
}
