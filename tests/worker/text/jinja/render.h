// Renders templates with variables written as JSON.
#ifndef PLIMSOLL_TESTS_WORKER_TEXT_JINJA_RENDER_H_
#define PLIMSOLL_TESTS_WORKER_TEXT_JINJA_RENDER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "worker/text/jinja/json_value.h"
#include "worker/text/jinja/syntax/template.h"

namespace plimsoll::worker::jinja {

// What a template is rendered with. All text of the variables is tainted.
struct Rendering {
  absl::string_view variables = "{}";
  Surroundings surroundings = {};
};

inline absl::StatusOr<Text> RenderText(absl::string_view source,
                                       const Rendering& with) {
  ASSIGN_OR_RETURN(const Template parsed, Template::Parse(source));
  ASSIGN_OR_RETURN(const Value values,
                   FromJson(with.variables, /*is_tainted=*/true));
  return parsed.Render(values.dict(), with.surroundings);
}

// The text, or "ERROR: " and why there is none.
inline std::string RenderWith(absl::string_view source, const Rendering& with) {
  const auto text = RenderText(source, with);
  if (text.ok()) return std::string(text->bytes());
  return absl::StrCat("ERROR: ", text.status().message());
}

inline std::string Render(absl::string_view source) {
  return RenderWith(source, {});
}

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_TESTS_WORKER_TEXT_JINJA_RENDER_H_
