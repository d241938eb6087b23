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

// All text of the variables is tainted.
inline absl::StatusOr<Text> RenderText(absl::string_view source,
                                       absl::string_view variables = "{}",
                                       const Surroundings& surroundings = {}) {
  ASSIGN_OR_RETURN(const Template parsed, Template::Parse(source));
  ASSIGN_OR_RETURN(const Value values,
                   FromJson(variables, /*is_tainted=*/true));
  return parsed.Render(values.dict(), surroundings);
}

// The text, or "ERROR: " and why there is none.
inline std::string Render(absl::string_view source,
                          absl::string_view variables = "{}",
                          const Surroundings& surroundings = {}) {
  const auto text = RenderText(source, variables, surroundings);
  if (text.ok()) return std::string(text->bytes());
  return absl::StrCat("ERROR: ", text.status().message());
}

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_TESTS_WORKER_TEXT_JINJA_RENDER_H_
