// A chat template of a model's file: a Jinja program that behaves as in
// transformers and jinja2.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_TEMPLATE_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_TEMPLATE_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/jinja/evaluator.h"
#include "worker/text/jinja/syntax_tree.h"
#include "worker/text/jinja/text.h"
#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

// Immutable after Parse, so thread-safe. Cheap to copy.
class Template {
 public:
  // Errors: kInvalidArgument naming the line.
  static absl::StatusOr<Template> Parse(absl::string_view source);

  // Renders the template with `variables`. Their tainted text stays tainted in
  // the output, also if the template changes it.
  // Errors: kInvalidArgument naming the line: for errors that the template
  // raises, for values of a wrong kind, and beyond the limits.
  absl::StatusOr<Text> Render(const Dict& variables,
                              const Surroundings& surroundings = {}) const;

 private:
  explicit Template(Program program)
      : program_(std::make_shared<const Program>(std::move(program))) {}

  std::shared_ptr<const Program> program_;
};

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_TEMPLATE_H_
