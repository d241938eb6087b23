// Runs a template: executes its statements and writes text.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_EVALUATOR_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_EVALUATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/text/jinja/expressions.h"
#include "worker/text/jinja/render_meter.h"
#include "worker/text/jinja/syntax_tree.h"
#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

// Facts about the process that a template may read.
struct Surroundings {
  absl::Time now = absl::UnixEpoch();  // for strftime_now
  absl::TimeZone time_zone = absl::UTCTimeZone();
  RenderLimits limits = {};
};

// One rendering. Used by one thread. Filters, tests and methods use it to
// compute and to count their steps.
class Evaluator {
 public:
  // All must outlive the evaluator.
  Evaluator(const Program& program, const Dict& variables,
            const Surroundings& surroundings);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  // Renders the template. Errors: kInvalidArgument naming the line: for errors
  // that the template raises, for values of a wrong kind, and beyond the
  // limits.
  absl::StatusOr<Text> Run();

  // Accounts for work. Errors: kInvalidArgument beyond the limits.
  absl::Status Spend(int64_t steps) { return meter_.Spend(steps); }
  // Makes a value of `text`. Errors: those of Spend, and for a text that is
  // longer than the limit.
  absl::StatusOr<Value> MakeText(Text text);
  const Surroundings& surroundings() const { return surroundings_; }

  absl::StatusOr<Value> Call(const Value& callee, Arguments&& arguments);
  // Applies the filter or test that is called `name`. Errors: kInvalidArgument
  // if it is null; those of the filter or test.
  absl::StatusOr<Value> ApplyFilter(NativeFunction filter,
                                    absl::string_view name, const Value& value,
                                    Arguments&& arguments);
  absl::StatusOr<bool> ApplyTest(TestFunction test, absl::string_view name,
                                 const Value& value, Arguments&& arguments);

  // Calls a macro whose outer variables are in `scope`.
  absl::StatusOr<Value> CallMacro(const MacroSyntax& macro,
                                  const ScopePtr& scope, Arguments&& arguments);
  // Like CallMacro, and writes the macro's text.
  absl::Status WriteMacro(const MacroSyntax& macro, const ScopePtr& scope,
                          Arguments&& arguments);
  // Writes the value as text.
  absl::Status Write(const Value& value);
  // Runs a loop over `items` and returns its text. `depth0` is the depth of the
  // loop's recursion, from 0.
  absl::StatusOr<Value> RunLoop(const Statement& loop, const Value& items,
                                const ScopePtr& scope, int64_t depth0);
  // Whether an item passes the test of a loop.
  absl::StatusOr<bool> PassesTest(const Statement& loop, const ScopePtr& scope,
                                  const Value& item);

  // Releases the values of `object` when the rendering ends, so that no circle
  // of references stays.
  void Own(std::shared_ptr<Object> object) {
    owned_.push_back(std::move(object));
  }
  // Releases the variables of `scope`, which a macro keeps, when the rendering
  // ends.
  void Own(ScopePtr scope) { kept_scopes_.push_back(std::move(scope)); }

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // The parts that a capture has written. Python joins them only when the
  // capture ends, so a part that is no string causes no error if `break` leaves
  // the capture before its end.
  struct Output {
    TextBuilder text;
    absl::Status error;  // error of the first part that is no string
    int error_line = 0;
  };

  absl::StatusOr<Flow> Execute(const Block& block, const ScopePtr& scope);
  absl::StatusOr<Flow> Execute(const Statement& node, const ScopePtr& scope);
  absl::StatusOr<Flow> ExecuteIf(const Statement& node, const ScopePtr& scope);
  absl::StatusOr<Flow> ExecuteFor(const Statement& node, const ScopePtr& scope,
                                  const Value& items, int64_t depth0);
  // Runs a loop whose body does not use the variable `loop`.
  absl::StatusOr<Flow> ExecutePlainFor(const Statement& node,
                                       const ScopePtr& scope,
                                       const Value& items);
  absl::Status ExecuteSet(const Statement& node, const ScopePtr& scope);
  absl::StatusOr<Flow> ExecuteWith(const Statement& node,
                                   const ScopePtr& scope);
  absl::StatusOr<Flow> ExecuteCaptured(const Statement& node,
                                       const ScopePtr& scope);
  absl::Status ExecuteMacro(const Statement& node, const ScopePtr& scope);
  absl::Status ExecuteCallBlock(const Statement& node, const ScopePtr& scope);
  absl::Status ExecuteOutput(const Expression& node, const ScopePtr& scope);
  // Writes a value that must be a string. If it is no string, the output keeps
  // the error; `line` is the line of the value.
  absl::Status WriteText(const Value& value, int line);
  // The error that `output` keeps, or OK.
  absl::Status CheckItems(const Output& output);
  absl::Status Assign(const Expression& target, Value value,
                      const ScopePtr& scope);
  absl::Status AssignItems(const Expression& target, const Value& value,
                           const ScopePtr& scope);
  absl::Status CheckMembers(const Expression& target, const ScopePtr& scope);
  absl::Status BindParameters(const MacroSyntax& macro, const ScopePtr& scope,
                              Arguments&& arguments);

  const Program& program_;
  const Surroundings& surroundings_;
  RenderMeter meter_;
  Expressions expressions_;
  // Ids of the names that the evaluator sets itself, or -1.
  int loop_name_ = -1;
  int caller_name_ = -1;
  int kwargs_name_ = -1;
  int varargs_name_ = -1;
  Output* out_ = nullptr;
  std::vector<std::shared_ptr<Object>> owned_;
  std::vector<ScopePtr> kept_scopes_;
};

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_EVALUATOR_H_
