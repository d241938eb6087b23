// The place of a schema's text in a reply, and the spelling of a call's
// arguments.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_SCHEMA_FRAME_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_SCHEMA_FRAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/text/grammar/grammar.h"
#include "worker/text/grammar/json_spelling.h"

namespace plimsoll::worker {

// The spelling of the members of a call's arguments, if they are not members of
// a JSON object. Line feeds in these texts may be left out.
struct MemberSpelling {
  JsonSpelling list = {};  // texts around and between all members
  std::string before_name = {};
  std::string after_name = {};
  std::string after_value = {};
  std::string after_member = {};
  // The spelling of the members of FrameChoice::strings, with their end instead
  // of after_value; absent: like other values.
  std::optional<RawStrings> strings = {};
};

// The spelling of a call's arguments.
struct ArgumentSpelling {
  JsonSpelling values = {};
  std::optional<MemberSpelling> members = {};  // absent: as one value
};

// The text around one of several texts of a schema.
struct FrameChoice {
  // One text of each list comes before the schema's text, in order. A text may
  // be empty, and a list without texts is an id: 1 to kMaxFrameId letters and
  // digits.
  std::vector<std::vector<std::string>> before = {};
  std::string after = {};
  std::vector<std::string> strings = {};  // names of members that are strings
};
inline constexpr int64_t kMaxFrameId = 16;

// The text around the texts between two marks.
struct FrameList {
  std::string open;
  std::string close;
  bool repeats;  // several texts may come, separated by commas
};

// The texts around a schema's text in a reply.
struct SchemaFrame {
  // The text before the schema's text. The text before the trigger is free. A
  // reply without the trigger is allowed too. Empty = the reply is the schema's
  // text.
  std::string trigger = {};
  // The reply begins with the trigger; only one passage of free text may come
  // before it.
  bool is_first = false;
  // Without a trigger: the reply may be another text that does not begin with
  // '{' or '['.
  bool may_be_text = false;
  // The marks of that passage; empty = no passage.
  std::string passage_open = {};
  std::string passage_close = {};
  bool begins_passage = false;  // the reply begins inside the passage
  // White space may stand around the schema's text.
  bool has_space = false;
  // The text that ends the schema's text.
  std::string close = {};
  // After `close`, the trigger and another text of the schema may follow.
  bool repeats = false;
  // The marks around all texts of the schema. The opening mark is required if
  // is_first; otherwise it is free text.
  std::string outer_open = {};
  std::string outer_close = {};
  // If there are choices, the schema is an array with one item for each, by
  // "prefixItems". The text is then one of these items within its choice.
  std::vector<FrameChoice> choices = {};
  ArgumentSpelling spelling = {};  // spelling of the items
  std::optional<FrameList> list = {};
  // Parts of the texts above that are control tokens.
  std::vector<GrammarMark> marks = {};

  // True if the schema's text is the whole reply.
  bool IsEmpty() const {
    return trigger.empty() && choices.empty() && !has_space && !may_be_text;
  }
};

// Returns a key that differs for different frames.
std::string KeyOf(const SchemaFrame& frame);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_SCHEMA_FRAME_H_
