// The tests of templates, whose names stand behind `is`.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_TESTS_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_TESTS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/jinja/evaluator.h"
#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

// A test by its name, or null.
TestFunction FindTest(absl::string_view name);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_BUILTINS_TESTS_H_
