#include "worker/text/grammar/frame_writer.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_split.h"
#include "worker/text/code_points.h"
#include "worker/text/grammar/text_before.h"

namespace plimsoll::worker {
namespace {

using Expr = GrammarBuilder::Expr;

// White space before or after a text.
constexpr int64_t kMaxSpace = 4;

}  // namespace

Expr LooseText(const std::string& text, GrammarBuilder& builder) {
  std::vector<Expr> parts;
  for (const absl::string_view piece : absl::StrSplit(text, '\n')) {
    if (!parts.empty()) {
      parts.push_back(builder.Optional(builder.Literal("\n")));
    }
    parts.push_back(builder.Marked(piece));
  }
  return builder.Sequence(std::move(parts));
}

Expr FrameWriter::Space() {
  return builder_.Repeat(builder_.Chars({{' ', ' '}, {'\n', '\n'}}), 0,
                         kMaxSpace);
}

Expr FrameWriter::AsRule(Expr definition) {
  const int32_t rule = builder_.NewRule("part");
  builder_.Define(rule, definition);
  return builder_.Rule(rule);
}

Expr FrameWriter::OneOf(const std::vector<std::string>& texts) {
  if (texts.empty()) {
    return builder_.Repeat(builder_.Chars({{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}),
                           1, kMaxFrameId);
  }
  std::vector<Expr> choices;
  choices.reserve(texts.size());
  for (const std::string& text : texts) {
    choices.push_back(builder_.Marked(text));
  }
  return builder_.Choice(std::move(choices));
}

Expr FrameWriter::List(Expr value) {
  const Expr more = builder_.Sequence({builder_.Literal(","), Space(), value});
  return AsRule(builder_.Sequence(
      {builder_.Marked(frame_.list->open), value,
       builder_.Repeat(more, 0,
                       frame_.list->repeats ? GrammarBuilder::kUnlimited : 0),
       builder_.Marked(frame_.list->close)}));
}

Expr FrameWriter::AfterOpen(Expr value) {
  const Expr space = Space();
  const Expr inside = frame_.has_space ? space : builder_.Literal("");
  if (frame_.has_space || !frame_.close.empty()) {
    value = AsRule(builder_.Sequence(
        {inside, value, inside, builder_.Marked(frame_.close)}));
  }
  if (frame_.repeats) {
    const Expr more =
        builder_.Sequence({space, builder_.Marked(frame_.trigger), value});
    value = AsRule(builder_.Sequence(
        {value, builder_.Repeat(more, 0, GrammarBuilder::kUnlimited)}));
  }
  if (frame_.outer_close.empty()) return value;
  return AsRule(builder_.Sequence(
      {value, builder_.Optional(builder_.Sequence(
                  {space, builder_.Marked(frame_.outer_close)}))}));
}

Expr FrameWriter::OtherText() {
  const CodePoints space = {{'\t', '\r'}, {' ', ' '}};
  CodePoints begins_text = {{'[', '['}, {'{', '{'}};
  begins_text.insert(begins_text.end(), space.begin(), space.end());
  begins_text = Complement(Normalized(begins_text));
  return builder_.Sequence(
      {builder_.Repeat(builder_.Chars(space), 0, GrammarBuilder::kUnlimited),
       builder_.Optional(
           builder_.Sequence({builder_.Chars(begins_text),
                              builder_.Repeat(builder_.Chars(Complement({})), 0,
                                              GrammarBuilder::kUnlimited)}))});
}

Expr FrameWriter::Write(Expr value) {
  if (frame_.list) value = List(value);
  value = AfterOpen(value);
  if (frame_.trigger.empty()) {
    return frame_.may_be_text ? builder_.Choice({value, OtherText()}) : value;
  }
  if (!frame_.is_first) {
    return TextBefore({.trigger = frame_.trigger}, value, builder_);
  }
  const Expr first =
      AsRule(builder_.Sequence({Space(), builder_.Marked(frame_.outer_open),
                                builder_.Marked(frame_.trigger), value}));
  if (frame_.passage_close.empty()) return first;
  const Expr passage = TextBefore(
      {.trigger = frame_.passage_close, .is_needed = true}, first, builder_);
  if (frame_.begins_passage) return passage;
  return builder_.Choice(
      {first, builder_.Sequence(
                  {Space(), builder_.Marked(frame_.passage_open), passage})});
}

Expr FrameWriter::Write(const std::vector<Expr>& values) {
  std::vector<Expr> texts;
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<Expr> parts;
    for (const std::vector<std::string>& texts_of : frame_.choices[i].before) {
      parts.push_back(OneOf(texts_of));
    }
    parts.push_back(values[i]);
    parts.push_back(builder_.Marked(frame_.choices[i].after));
    texts.push_back(builder_.Sequence(std::move(parts)));
  }
  return Write(AsRule(builder_.Choice(std::move(texts))));
}

}  // namespace plimsoll::worker
