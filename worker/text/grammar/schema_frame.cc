#include "worker/text/grammar/schema_frame.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace plimsoll::worker {
namespace {

// Appends texts and numbers so that others cannot give the same key.
class KeyWriter {
 public:
  void Add(absl::string_view text) {
    absl::StrAppend(&key_, text.size(), ":", text);
  }
  void Add(const std::vector<std::string>& texts) {
    Number(texts.size());
    for (const std::string& text : texts) Add(text);
  }
  void Add(const std::optional<RawStrings>& raw) {
    Flag(raw.has_value());
    if (!raw) return;
    for (const std::string* text : {&raw->open, &raw->close, &raw->end}) {
      Add(*text);
    }
    Add(raw->never);
  }
  void Add(const JsonSpelling& spelling) {
    Flag(spelling.is_any);
    Flag(spelling.plain_integers);
    Flag(spelling.has_space);
    Flag(spelling.has_bare_keys);
    for (const std::string* text :
         {&spelling.escaped, &spelling.object_open, &spelling.object_close,
          &spelling.comma, &spelling.true_word, &spelling.false_word,
          &spelling.null_word}) {
      Add(*text);
    }
    Add(spelling.raw);
  }
  void Add(const ArgumentSpelling& spelling) {
    Add(spelling.values);
    Flag(spelling.members.has_value());
    if (!spelling.members) return;
    Add(spelling.members->list);
    for (const std::string* text :
         {&spelling.members->before_name, &spelling.members->after_name,
          &spelling.members->after_value, &spelling.members->after_member}) {
      Add(*text);
    }
    Add(spelling.members->strings);
  }
  void Number(size_t number) { absl::StrAppend(&key_, number, ":"); }
  void Flag(bool is_set) { key_ += is_set ? 'y' : 'n'; }

  const std::string& key() const { return key_; }

 private:
  std::string key_;
};

}  // namespace

std::string KeyOf(const SchemaFrame& frame) {
  KeyWriter key;
  for (const bool flag :
       {frame.is_first, frame.may_be_text, frame.begins_passage,
        frame.has_space, frame.repeats, frame.list.has_value()}) {
    key.Flag(flag);
  }
  for (const std::string* text :
       {&frame.trigger, &frame.passage_open, &frame.passage_close, &frame.close,
        &frame.outer_open, &frame.outer_close}) {
    key.Add(*text);
  }
  key.Number(frame.choices.size());
  for (const FrameChoice& choice : frame.choices) {
    key.Number(choice.before.size());
    for (const std::vector<std::string>& part : choice.before) key.Add(part);
    key.Add(choice.after);
    key.Add(choice.strings);
  }
  key.Add(frame.spelling);
  if (frame.list) {
    key.Add(frame.list->open);
    key.Add(frame.list->close);
    key.Flag(frame.list->repeats);
  }
  key.Number(frame.marks.size());
  for (const GrammarMark& mark : frame.marks) {
    key.Number(static_cast<size_t>(mark.id));
    key.Flag(mark.is_free);
    key.Add(mark.text);
  }
  return key.key();
}

}  // namespace plimsoll::worker
