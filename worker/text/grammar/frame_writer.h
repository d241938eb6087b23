// Writes the part of a grammar around the text of a schema in a reply.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_FRAME_WRITER_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_FRAME_WRITER_H_

#include <string>
#include <vector>

#include "worker/text/grammar/grammar_builder.h"
#include "worker/text/grammar/schema_frame.h"

namespace plimsoll::worker {

class FrameWriter {
 public:
  using Expr = GrammarBuilder::Expr;

  // Both must outlive it.
  FrameWriter(const SchemaFrame& frame, GrammarBuilder& builder)
      : frame_(frame), builder_(builder) {}

  // The reply that contains `value`, the schema's text.
  Expr Write(Expr value);
  // The reply that contains one of `values`, which has a text for each choice
  // of frame.choices.
  Expr Write(const std::vector<Expr>& values);

 private:
  Expr Space();
  Expr AsRule(Expr definition);
  // One of the texts, or an id.
  Expr OneOf(const std::vector<std::string>& texts);
  Expr List(Expr value);
  // The texts that may follow a trigger, of which there is at least one.
  Expr AfterOpen(Expr value);
  // A text that cannot be mistaken for the schema's text.
  Expr OtherText();

  const SchemaFrame& frame_;
  GrammarBuilder& builder_;
};

// A text with marks, whose line feeds may be left out.
GrammarBuilder::Expr LooseText(const std::string& text,
                               GrammarBuilder& builder);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_FRAME_WRITER_H_
