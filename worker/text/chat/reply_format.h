// The marks of reasoning and tool calls in a model's replies, found from the
// model's chat template.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_REPLY_FORMAT_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_REPLY_FORMAT_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// The syntax of a call's text between its marks.
enum class CallSyntax {
  kNone,        // the model's replies have no known calls
  kJson,        // {"name": N, "arguments": {...}}, or an array of these
  kBareJson,    // kJson without marks: the whole reply is a call
  kNamedJson,   // N{...}, N[ARGS]{...} or kJson (Mistral)
  kParameters,  // <function=N><parameter=K>V</parameter></function>
  kPairs,       // N<arg_key>K</arg_key><arg_value>V</arg_value> (GLM)
  kPython,      // [N(K=V, ...), ...] (LFM2)
  kKeywords,    // call:N{K:V}, with marks around strings (Gemma)
  kChannel,     // N ... <|message|>{...} (gpt-oss)
  kDeepSeek,    // N<sep>{...}, or function<sep>N and {...} in a fence
  kKimi,        // functions.N:I<|tool_call_argument_begin|>{...}
};

// The form of a call that is constrained to its tool's schema during
// generation: the text around its arguments. In the first forms the arguments
// are JSON.
enum class CallForm {
  kFree,        // calls are not constrained: their syntax is unknown
  kObject,      // {"name": N, "arguments": {...}}
  kList,        // an array of kObject
  kToolList,    // [{"tool_call_id": I, "tool_name": N, "parameters": {...}}]
  kNamed,       // N[ARGS]{...}
  kNamedById,   // N[CALL_ID]I[ARGS]{...}
  kChannel,     // N json<|message|>{...}
  kSeparated,   // N<｜tool▁sep｜>{...}
  kFenced,      // function<｜tool▁sep｜>N and {...} in a block of JSON
  kCounted,     // functions.N:I<|tool_call_argument_begin|>{...}
  kBare,        // {"name": N, "parameters": {...}}, without marks
  kParameters,  // <function=N><parameter=K>V</parameter></function>
  kPairs,       // N<arg_key>K</arg_key><arg_value>V</arg_value>
  kKeywords,    // call:N{K:V}, with marks around strings
  kPython,      // [N(K=V)]
};

// Text between two marks. If `close` is empty, the text continues to the
// reply's end or to the next `open`.
struct MarkPair {
  absl::string_view open = {};
  absl::string_view close = {};
};

// Marks of reasoning that are text, and no control tokens. Sources: the chat
// templates of DeepSeek R1, Qwen 3 and SmolLM 3; of Seed-OSS; of Magistral.
inline constexpr MarkPair kThinkMarks[] = {{"<think>", "</think>"},
                                           {"<seed:think>", "</seed:think>"},
                                           {"[THINK]", "[/THINK]"}};

struct ReplyFormat {
  MarkPair reasoning;  // empty: replies have no reasoning
  // The template's text between reasoning and the answer.
  absl::string_view after_reasoning = {};
  MarkPair call;
  CallSyntax syntax = CallSyntax::kNone;
  CallForm form = CallForm::kFree;
  MarkPair all_calls = {};       // the marks around all calls; may be empty
  absl::string_view quote = {};  // the mark around strings of kKeywords
  // True if calls are looked for even if the request has no tools, because the
  // model may have been trained for its own tools.
  bool has_undeclared_calls = false;
  // Marks that are not part of the model's text.
  std::vector<absl::string_view> dropped = {};

  bool IsPlain() const {
    return reasoning.open.empty() && syntax == CallSyntax::kNone;
  }
};

// The format of a model with this template: the first one in a table whose
// marks the template has. A model whose template has no known marks replies in
// plain text.
ReplyFormat FindReplyFormat(absl::string_view chat_template);

// Control tokens that are marks of the format, or parts of them. The text of a
// reply must show them, so that the marks can be found.
std::vector<int32_t> TokensToShow(const ReplyFormat& format,
                                  const Tokenizer& tokenizer);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_REPLY_FORMAT_H_
