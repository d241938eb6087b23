#include "worker/text/jinja/syntax/template.h"

#include <utility>

#include "base/status_macros.h"
#include "worker/text/jinja/syntax/parser.h"

namespace plimsoll::worker::jinja {

absl::StatusOr<Template> Template::Parse(absl::string_view source) {
  ASSIGN_OR_RETURN(Program program, jinja::Parse(source));
  return Template(std::move(program));
}

absl::StatusOr<Text> Template::Render(const Dict& variables,
                                      const Surroundings& surroundings) const {
  Evaluator evaluator(*program_, variables, surroundings);
  return evaluator.Run();
}

}  // namespace plimsoll::worker::jinja
