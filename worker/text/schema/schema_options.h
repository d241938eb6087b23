// How a JSON schema is read, and what is said about it.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SCHEMA_OPTIONS_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SCHEMA_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/text/grammar/grammar.h"

namespace plimsoll::worker {

// Longest name of a property, in bytes.
inline constexpr size_t kMaxPropertyBytes = 1'024;
// Most properties of one object, and most schemas of one anyOf or oneOf. A text
// may stand at all of them at once, so there are fewer than
// GrammarState::kMaxReadings.
inline constexpr size_t kMaxSchemaMembers = 2'000;

struct SchemaOptions {
  // Objects have the listed properties only where the schema does not say
  // otherwise. Without it, absent additionalProperties means true.
  bool closed_objects = false;
  // Listed properties come in any order, instead of the schema's.
  bool any_order = false;
  // Strings and numbers have every spelling of JSON, instead of one.
  bool any_spelling = false;
  // Keywords and formats that are not known are refused, instead of noted.
  bool refuse_unknown = false;
  // Formats say nothing about what is valid.
  bool ignore_formats = false;
};

// What stands around one of several texts of a schema.
struct FrameChoice {
  // One text of each list comes before it, in order. A text may be empty, and a
  // list without texts is an id: 1 to kMaxFrameId letters and digits.
  std::vector<std::vector<std::string>> before = {};
  std::string after = {};
};
inline constexpr int64_t kMaxFrameId = 16;

// Where the text of a schema stands in a reply.
struct SchemaFrame {
  // The schema's text follows this one, and everything before it is free. A
  // reply without it is allowed, too. Empty = the reply is the schema's text.
  std::string trigger = {};
  // The reply begins with the trigger, but for one passage of free text.
  bool is_first = false;
  // The marks of that passage; empty = there is none.
  std::string passage_open = {};
  std::string passage_close = {};
  bool begins_passage = false;  // the reply begins inside of it
  // White space may stand around the schema's text.
  bool has_space = false;
  // What ends the schema's text.
  std::string close = {};
  // After `close`, the trigger and such a text may come again.
  bool repeats = false;
  // The marks around all such texts. The first one is needed if the reply
  // begins with them; elsewhere it is free text.
  std::string outer_open = {};
  std::string outer_close = {};
  // If there are any, the schema is an array of as many items, by
  // "prefixItems", and the text is one of the items in its choice.
  std::vector<FrameChoice> choices = {};
  // Parts of the texts above that are control tokens.
  std::vector<GrammarMark> marks = {};
};

// What the compiler took for an annotation: "#/properties/x: ...".
using SchemaNotes = std::vector<std::string>;
inline constexpr size_t kMaxSchemaNotes = 16;

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SCHEMA_OPTIONS_H_
