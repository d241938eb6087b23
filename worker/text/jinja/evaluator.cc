#include "worker/text/jinja/evaluator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/jinja/iteration.h"
#include "worker/text/jinja/line_error.h"
#include "worker/text/jinja/objects.h"
#include "worker/text/jinja/operations.h"
#include "worker/text/jinja/printing.h"

namespace plimsoll::worker::jinja {
namespace {

ScopePtr NewScope(const ScopePtr& parent) {
  return std::make_shared<Scope>(Scope{parent});
}

// Makes `inner` an empty scope in `scope`: that of the iteration before, unless
// a macro or a generator keeps it.
void EnterIteration(const ScopePtr& scope, ScopePtr& inner) {
  if (inner != nullptr && inner.use_count() == 1) {
    inner->values.clear();
  } else {
    inner = NewScope(scope);
  }
}

// True for `set x = x ~ ...` and `set x = x + y`.
bool IsAppend(const Expression& target, const Expression& value) {
  const bool joins =
      value.kind == ExpressionKind::kConcat ||
      (value.kind == ExpressionKind::kBinary && value.name == "+");
  if (!joins) return false;
  const Expression& first = *value.operands[0];
  if (target.kind == ExpressionKind::kName) {
    return first.kind == ExpressionKind::kName &&
           first.name_id == target.name_id;
  }
  return target.kind == ExpressionKind::kMemberTarget &&
         first.kind == ExpressionKind::kMember && first.name == target.name &&
         first.operands[0]->kind == ExpressionKind::kName &&
         first.operands[0]->name_id == target.name_id;
}

// The values of the program's names: the variables, then functions.
std::vector<Value> GlobalsOf(const Program& program, const Dict& variables) {
  std::vector<Value> globals;
  globals.reserve(program.names.size());
  for (const std::string& name : program.names) {
    const Value* variable = variables.Find(name);
    const NativeFunction function = FindGlobal(name);
    if (variable != nullptr) {
      globals.push_back(*variable);
    } else if (function != nullptr) {
      globals.emplace_back(std::shared_ptr<Object>(
          std::make_shared<Function>(function, Value())));
    } else {
      globals.push_back(
          Value::MakeUndefined(absl::StrCat("'", name, "' is undefined")));
    }
  }
  return globals;
}

}  // namespace

Evaluator::Evaluator(const Program& program, const Dict& variables,
                     const Surroundings& surroundings)
    : program_(program),
      surroundings_(surroundings),
      meter_(surroundings.limits),
      expressions_(*this, meter_, GlobalsOf(program, variables)) {
  const auto id_of = [&program](absl::string_view name) {
    const auto& names = program.names;
    const auto found = std::find(names.begin(), names.end(), name);
    return found == names.end() ? -1 : static_cast<int>(found - names.begin());
  };
  loop_name_ = id_of("loop");
  caller_name_ = id_of("caller");
  kwargs_name_ = id_of("kwargs");
  varargs_name_ = id_of("varargs");
}

Evaluator::~Evaluator() {
  for (const auto& object : owned_) object->Release();
  for (const ScopePtr& scope : kept_scopes_) {
    const auto values = std::exchange(scope->values, {});
  }
}

absl::StatusOr<Value> Evaluator::MakeText(Text text) {
  const auto bytes = static_cast<int64_t>(text.size());
  RETURN_IF_ERROR(meter_.CheckTextSize(bytes));
  RETURN_IF_ERROR(Spend(bytes / kBytesPerStep));
  return Value(std::move(text));
}

absl::StatusOr<Text> Evaluator::Run() {
  Output out;
  out_ = &out;
  absl::Status status = Execute(program_.body, NewScope(nullptr)).status();
  if (status.ok()) status = CheckItems(out);
  if (status.ok()) return out.text.Take();
  return LineError(std::max(meter_.error_line(), 1), status.message());
}

absl::StatusOr<Evaluator::Flow> Evaluator::Execute(const Block& block,
                                                   const ScopePtr& scope) {
  for (const Statement& statement : block) {
    const auto flow = Execute(statement, scope);
    if (!flow.ok()) return meter_.AtLine(flow.status(), statement.line);
    if (*flow != Flow::kNext) return *flow;
  }
  return Flow::kNext;
}

absl::StatusOr<Evaluator::Flow> Evaluator::Execute(const Statement& node,
                                                   const ScopePtr& scope) {
  const DepthGuard depth(meter_);
  RETURN_IF_ERROR(depth.Check());
  RETURN_IF_ERROR(Spend(1));
  switch (node.kind) {
    case StatementKind::kData:
      RETURN_IF_ERROR(Write(node.value->constant));
      break;
    case StatementKind::kOutput:
      RETURN_IF_ERROR(ExecuteOutput(*node.value, scope));
      break;
    case StatementKind::kIf:
      return ExecuteIf(node, scope);
    case StatementKind::kFor: {
      ASSIGN_OR_RETURN(const Value items,
                       expressions_.Compute(*node.value, scope));
      if (!node.is_recursive) return ExecuteFor(node, scope, items, 0);
      ASSIGN_OR_RETURN(const Value text, RunLoop(node, items, scope, 0));
      RETURN_IF_ERROR(Write(text));
      break;
    }
    case StatementKind::kSet:
      RETURN_IF_ERROR(ExecuteSet(node, scope));
      break;
    case StatementKind::kMacro:
      RETURN_IF_ERROR(ExecuteMacro(node, scope));
      break;
    case StatementKind::kCallBlock:
      RETURN_IF_ERROR(ExecuteCallBlock(node, scope));
      break;
    case StatementKind::kSetBlock:
    case StatementKind::kFilterBlock:
    case StatementKind::kScope:
      return ExecuteCaptured(node, scope);
    case StatementKind::kWith:
      return ExecuteWith(node, scope);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
    case StatementKind::kFail:
      return absl::InvalidArgumentError(node.name);
  }
  return Flow::kNext;
}

absl::Status Evaluator::Write(const Value& value) {
  if (value.is_string()) {
    out_->text.Append(value.text());
  } else {
    ASSIGN_OR_RETURN(const Text text, Str(*this, value));
    out_->text.Append(text);
  }
  if (static_cast<int64_t>(out_->text.size()) <=
      surroundings_.limits.max_text_bytes) {
    return Spend(value.is_string()
                     ? static_cast<int64_t>(value.text().size()) / kBytesPerStep
                     : 0);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the output is longer than the limit of ",
                   surroundings_.limits.max_text_bytes, " bytes"));
}

absl::Status Evaluator::ExecuteOutput(const Expression& node,
                                      const ScopePtr& scope) {
  if (node.kind == ExpressionKind::kCall) {
    return expressions_.WriteCall(node, scope);
  }
  Value room;
  ASSIGN_OR_RETURN(const Value* value, expressions_.Refer(node, scope, room));
  return Write(*value);
}

absl::Status Evaluator::WriteText(const Value& value, int line) {
  if (value.is_string()) return Write(value);
  if (out_->error.ok()) {
    out_->error = TypeError(
        absl::StrCat("expected str instance, ", value.TypeName(), " found"));
    out_->error_line = line;
  }
  return absl::OkStatus();
}

absl::Status Evaluator::CheckItems(const Output& output) {
  if (output.error.ok()) return absl::OkStatus();
  return meter_.AtLine(output.error, output.error_line);
}

absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteIf(const Statement& node,
                                                     const ScopePtr& scope) {
  for (const Branch& branch : node.branches) {
    ASSIGN_OR_RETURN(const bool holds,
                     expressions_.Decide(*branch.test, scope));
    if (holds) return Execute(branch.body, scope);
  }
  return Execute(node.otherwise, scope);
}

absl::StatusOr<bool> Evaluator::PassesTest(const Statement& loop,
                                           const ScopePtr& scope,
                                           const Value& item) {
  const ScopePtr inner = NewScope(scope);
  RETURN_IF_ERROR(Assign(*loop.target, item, inner));
  return expressions_.Decide(*loop.test, inner);
}

absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteFor(const Statement& node,
                                                      const ScopePtr& scope,
                                                      const Value& items,
                                                      int64_t depth0) {
  if (!node.uses_loop && !node.is_recursive && node.test == nullptr) {
    return ExecutePlainFor(node, scope, items);
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Iterator> iterator, Iterate(items));
  std::optional<int64_t> length = LengthOf(items);
  if (node.test != nullptr) {
    length = std::nullopt;
    ASSIGN_OR_RETURN(
        iterator,
        MakeIterator(
            iterator->depth(),
            [&node, scope, source = iterator](
                Evaluator& evaluator) -> absl::StatusOr<std::optional<Value>> {
              while (true) {
                ASSIGN_OR_RETURN(std::optional<Value> item,
                                 source->Next(evaluator));
                if (!item) return item;
                ASSIGN_OR_RETURN(const bool passes,
                                 evaluator.PassesTest(node, scope, *item));
                if (passes) return item;
              }
            }));
  }
  RETURN_IF_ERROR(CheckNesting(iterator->depth() + 1));
  const auto loop =
      std::make_shared<Loop>(Loop::Items{std::move(iterator), length}, node,
                             node.is_recursive ? scope : nullptr, depth0);
  bool is_empty = true;
  ScopePtr inner;
  while (true) {
    ASSIGN_OR_RETURN(std::optional<Value> item, loop->Advance(*this));
    if (!item) break;
    EnterIteration(scope, inner);
    RETURN_IF_ERROR(Assign(*node.target, *std::move(item), inner));
    if (loop_name_ >= 0) {
      inner->Set(loop_name_, Value(std::shared_ptr<Object>(loop)));
    }
    ASSIGN_OR_RETURN(const Flow flow, Execute(node.body, inner));
    // As in jinja2, an iteration counts only if it comes to its end.
    is_empty = is_empty && flow != Flow::kNext;
    if (flow == Flow::kBreak) break;
  }
  if (!is_empty || node.otherwise.empty()) return Flow::kNext;
  return Execute(node.otherwise, NewScope(scope));
}

absl::StatusOr<Evaluator::Flow> Evaluator::ExecutePlainFor(
    const Statement& node, const ScopePtr& scope, const Value& items) {
  ASSIGN_OR_RETURN(Cursor cursor, Cursor::Over(items));
  bool is_empty = true;
  ScopePtr inner;
  while (true) {
    Value item;
    ASSIGN_OR_RETURN(const bool has_item, cursor.Next(*this, item));
    if (!has_item) break;
    EnterIteration(scope, inner);
    RETURN_IF_ERROR(Assign(*node.target, std::move(item), inner));
    if (node.has_same_test && !items.is_iterator()) {
      const Expression& test = *node.body[0].branches[0].test;
      ASSIGN_OR_RETURN(const bool holds, expressions_.Decide(test, inner));
      if (!holds) return Flow::kNext;
    }
    ASSIGN_OR_RETURN(const Flow flow, Execute(node.body, inner));
    is_empty = is_empty && flow != Flow::kNext;
    if (flow == Flow::kBreak) break;
  }
  if (!is_empty || node.otherwise.empty()) return Flow::kNext;
  return Execute(node.otherwise, NewScope(scope));
}

absl::StatusOr<Value> Evaluator::RunLoop(const Statement& loop,
                                         const Value& items,
                                         const ScopePtr& scope,
                                         int64_t depth0) {
  const DepthGuard depth(meter_);
  RETURN_IF_ERROR(depth.Check());
  Output text;
  Output* const outer = std::exchange(out_, &text);
  const auto flow = ExecuteFor(loop, scope, items, depth0);
  out_ = outer;
  RETURN_IF_ERROR(flow.status());
  RETURN_IF_ERROR(CheckItems(text));
  return MakeText(text.text.Take());
}

absl::Status Evaluator::ExecuteSet(const Statement& node,
                                   const ScopePtr& scope) {
  RETURN_IF_ERROR(CheckMembers(*node.target, scope));
  const bool is_append = IsAppend(*node.target, *node.value);
  ASSIGN_OR_RETURN(
      Value value,
      is_append ? expressions_.ComputeAppended(*node.value, *node.target, scope)
                : expressions_.Compute(*node.value, scope));
  return Assign(*node.target, std::move(value), scope);
}

absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteWith(const Statement& node,
                                                       const ScopePtr& scope) {
  const ScopePtr inner = NewScope(scope);
  for (const auto& [target, expression] : node.pairs) {
    ASSIGN_OR_RETURN(Value value, expressions_.Compute(*expression, scope));
    RETURN_IF_ERROR(Assign(*target, std::move(value), inner));
  }
  return Execute(node.body, inner);
}

// Runs a body whose text is needed: for `set`, `filter`, `generation` and
// `block`.
absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteCaptured(
    const Statement& node, const ScopePtr& scope) {
  Output text;
  Output* const outer = std::exchange(out_, &text);
  const ScopePtr inner = NewScope(scope);
  const auto flow = Execute(node.body, inner);
  out_ = outer;
  RETURN_IF_ERROR(flow.status());
  if (*flow != Flow::kNext) return *flow;  // it left the loop around it
  RETURN_IF_ERROR(CheckItems(text));
  ASSIGN_OR_RETURN(Value value, MakeText(text.text.Take()));
  if (node.value != nullptr) {
    ASSIGN_OR_RETURN(value,
                     expressions_.ComputeFilter(*node.value, inner, &value));
  }
  if (node.target == nullptr) {
    RETURN_IF_ERROR(WriteText(value, node.line));
  } else {
    RETURN_IF_ERROR(CheckMembers(*node.target, scope));
    RETURN_IF_ERROR(Assign(*node.target, std::move(value), scope));
  }
  return Flow::kNext;
}

absl::Status Evaluator::ExecuteMacro(const Statement& node,
                                     const ScopePtr& scope) {
  Own(scope);
  return Assign(*node.target,
                Value(std::shared_ptr<Object>(
                    std::make_shared<Macro>(*node.macro, program_, scope))),
                scope);
}

absl::Status Evaluator::ExecuteCallBlock(const Statement& node,
                                         const ScopePtr& scope) {
  Own(scope);
  const Expression& call = *node.value;
  ASSIGN_OR_RETURN(const Value callee,
                   expressions_.Compute(*call.operands[0], scope));
  ASSIGN_OR_RETURN(Arguments arguments,
                   expressions_.ComputeArguments(*call.call, scope));
  if (arguments.Take("caller")) {
    return TypeError("got multiple values for keyword argument 'caller'");
  }
  arguments.named.emplace_back(
      "caller", Value(std::shared_ptr<Object>(
                    std::make_shared<Macro>(*node.macro, program_, scope))));
  ASSIGN_OR_RETURN(const Value value, Call(callee, std::move(arguments)));
  return WriteText(value, node.line);
}

absl::Status Evaluator::CheckMembers(const Expression& target,
                                     const ScopePtr& scope) {
  for (const ExpressionPtr& one : target.operands) {
    RETURN_IF_ERROR(CheckMembers(*one, scope));
  }
  if (target.kind != ExpressionKind::kMemberTarget) return absl::OkStatus();
  const Value& object = expressions_.Variable(target, scope);
  if (object.is_object() && object.object().TypeName() == "Namespace") {
    return absl::OkStatus();
  }
  return TypeError("cannot assign attribute on non-namespace object");
}

absl::Status Evaluator::Assign(const Expression& target, Value value,
                               const ScopePtr& scope) {
  if (target.kind == ExpressionKind::kTuple) {
    return AssignItems(target, value, scope);
  }
  if (target.kind == ExpressionKind::kName) {
    scope->Set(target.name_id, std::move(value));
    return absl::OkStatus();
  }
  return static_cast<Namespace&>(expressions_.Variable(target, scope).object())
      .Set(target.name, std::move(value));
}

absl::Status Evaluator::AssignItems(const Expression& target,
                                    const Value& value, const ScopePtr& scope) {
  ASSIGN_OR_RETURN(std::vector<Value> items, ToVector(*this, value));
  if (items.size() != target.operands.size()) {
    return TypeError(absl::StrCat("cannot unpack ", items.size(),
                                  " values into ", target.operands.size()));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    RETURN_IF_ERROR(Assign(*target.operands[i], std::move(items[i]), scope));
  }
  return absl::OkStatus();
}

absl::Status Evaluator::BindParameters(const MacroSyntax& macro,
                                       const ScopePtr& scope,
                                       Arguments&& arguments) {
  const size_t n = macro.parameters.size();
  scope->values.reserve(n + 1);
  const size_t n_given = std::min(arguments.positional.size(), n);
  std::vector<bool> is_missing(n, false);
  for (size_t i = 0; i < n; ++i) {
    const std::string& name =
        program_.names[static_cast<size_t>(macro.parameters[i])];
    if (i < n_given) {
      scope->Set(macro.parameters[i], std::move(arguments.positional[i]));
      continue;
    }
    std::optional<Value> value = arguments.Take(name);
    is_missing[i] = !value.has_value();
    if (!value) {
      value = Value::MakeUndefined(
          absl::StrCat("parameter '", name, "' was not provided"));
    }
    scope->Set(macro.parameters[i], *std::move(value));
  }
  if (macro.uses_caller && scope->Find(caller_name_) == nullptr) {
    scope->Set(caller_name_, arguments.Take("caller").value_or(
                                 Value::MakeUndefined("No caller defined")));
  }
  if (macro.uses_kwargs && scope->Find(kwargs_name_) == nullptr) {
    auto named = std::make_shared<Dict>();
    for (auto& [name, value] : arguments.named) {
      RETURN_IF_ERROR(named->Set(Value::String(name), std::move(value)));
    }
    scope->Set(kwargs_name_,
               Value(std::shared_ptr<const Dict>(std::move(named))));
  } else if (!arguments.named.empty()) {
    return TypeError(absl::StrCat("macro '", macro.name,
                                  "' takes no keyword argument '",
                                  arguments.named[0].first, "'"));
  }
  if (macro.uses_varargs && scope->Find(varargs_name_) == nullptr) {
    const auto rest =
        arguments.positional.begin() + static_cast<ptrdiff_t>(n_given);
    ASSIGN_OR_RETURN(Value tuple, Value::MakeTuple(std::vector<Value>(
                                      rest, arguments.positional.end())));
    scope->Set(varargs_name_, std::move(tuple));
  } else if (arguments.positional.size() > n) {
    return TypeError(absl::StrCat("macro '", macro.name,
                                  "' takes not more than ", n, " argument(s)"));
  }
  const size_t n_plain = n - macro.defaults.size();
  for (size_t i = n_plain; i < n; ++i) {
    if (!is_missing[i]) continue;
    ASSIGN_OR_RETURN(Value value,
                     expressions_.Compute(*macro.defaults[i - n_plain], scope));
    scope->Set(macro.parameters[i], std::move(value));
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Evaluator::CallMacro(const MacroSyntax& macro,
                                           const ScopePtr& scope,
                                           Arguments&& arguments) {
  Output text;
  Output* const outer = std::exchange(out_, &text);
  const absl::Status status = WriteMacro(macro, scope, std::move(arguments));
  out_ = outer;
  RETURN_IF_ERROR(status);
  return MakeText(text.text.Take());
}

absl::Status Evaluator::WriteMacro(const MacroSyntax& macro,
                                   const ScopePtr& scope,
                                   Arguments&& arguments) {
  const DepthGuard depth(meter_);
  RETURN_IF_ERROR(depth.Check());
  const ScopePtr inner = NewScope(scope);
  RETURN_IF_ERROR(BindParameters(macro, inner, std::move(arguments)));
  const absl::Status before = std::exchange(out_->error, absl::OkStatus());
  RETURN_IF_ERROR(Execute(macro.body, inner).status());
  RETURN_IF_ERROR(CheckItems(*out_));  // a macro joins its parts
  out_->error = before;
  return absl::OkStatus();
}

absl::StatusOr<Value> Evaluator::Call(const Value& callee,
                                      Arguments&& arguments) {
  if (callee.is_undefined()) return UndefinedError(callee);
  if (!callee.is_object()) {
    return TypeError(
        absl::StrCat("'", callee.TypeName(), "' object is not callable"));
  }
  return callee.object().Call(*this, std::move(arguments));
}

absl::StatusOr<Value> Evaluator::ApplyFilter(NativeFunction filter,
                                             absl::string_view name,
                                             const Value& value,
                                             Arguments&& arguments) {
  const DepthGuard depth(meter_);
  RETURN_IF_ERROR(depth.Check());
  RETURN_IF_ERROR(Spend(1));
  if (filter == nullptr) {
    return TypeError(absl::StrCat("No filter named '", name, "'."));
  }
  return filter(*this, value, std::move(arguments));
}

absl::StatusOr<bool> Evaluator::ApplyTest(TestFunction test,
                                          absl::string_view name,
                                          const Value& value,
                                          Arguments&& arguments) {
  RETURN_IF_ERROR(Spend(1));
  if (test == nullptr) {
    return TypeError(absl::StrCat("No test named '", name, "'."));
  }
  return test(*this, value, std::move(arguments));
}

}  // namespace plimsoll::worker::jinja
