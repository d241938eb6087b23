// The forms in which families of models write tool calls: the text around the
// arguments, and the spelling of the arguments.
#ifndef PLIMSOLL_SERVICES_GENERATION_CALL_FORMS_H_
#define PLIMSOLL_SERVICES_GENERATION_CALL_FORMS_H_

#include "worker/text/chat/reply_format.h"
#include "worker/text/chat/tool_call.h"
#include "worker/text/grammar/schema_frame.h"

namespace plimsoll::services {

// True if the calls between two marks are a JSON array.
bool IsList(worker::CallForm form);
// True if calls are JSON with the tool's name in it; otherwise the name stands
// before the arguments.
bool IsJson(worker::CallForm form);

// The names of a call's members, for a form that IsJson.
struct CallKeys {
  const char* id;  // nullptr = none
  const char* name;
  const char* arguments;
};
CallKeys KeysOf(worker::CallForm form);

// The text around the arguments of a call of `tool`, for other forms.
worker::FrameChoice ChoiceOf(const worker::Tool& tool, worker::CallForm form);
// The spelling of these arguments. Strings without escapes never contain the
// mark that ends a call.
worker::ArgumentSpelling SpellingOf(const worker::ReplyFormat& format);
// True if the models were trained on arguments that are sorted by their names,
// without regard to case.
bool IsSorted(worker::CallForm form);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_CALL_FORMS_H_
