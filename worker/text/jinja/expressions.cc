// How the evaluator computes expressions.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/jinja/evaluator.h"
#include "worker/text/jinja/iteration.h"
#include "worker/text/jinja/operations.h"
#include "worker/text/jinja/printing.h"

namespace plimsoll::worker::jinja {

absl::StatusOr<Value> Evaluator::Compute(const Expression& node,
                                         const ScopePtr& scope) {
  if (node.kind == ExpressionKind::kConstant) return node.constant;
  ++depth_;
  absl::StatusOr<Value> value =
      depth_ <= kMaxCallDepth
          ? ComputeKind(node, scope)
          : absl::InvalidArgumentError(
                absl::StrCat("the template calls itself deeper than the limit "
                             "of ",
                             kMaxCallDepth));
  --depth_;
  if (!value.ok()) return AtLine(value.status(), node.line);
  RETURN_IF_ERROR(Spend(1));
  return value;
}

absl::StatusOr<Value> Evaluator::ComputeKind(const Expression& node,
                                             const ScopePtr& scope) {
  switch (node.kind) {
    case ExpressionKind::kConstant:
      return node.constant;
    case ExpressionKind::kName:
    case ExpressionKind::kMemberTarget:
      return ComputeName(node, scope);
    case ExpressionKind::kTuple:
    case ExpressionKind::kList:
      return ComputeList(node, scope);
    case ExpressionKind::kDict:
      return ComputeDict(node, scope);
    case ExpressionKind::kUnary: {
      ASSIGN_OR_RETURN(const Value value, Compute(*node.operands[0], scope));
      return Negate(value, node.name);
    }
    case ExpressionKind::kNot: {
      ASSIGN_OR_RETURN(const Value value, Compute(*node.operands[0], scope));
      return Value(!value.Truth());
    }
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
      return ComputeChoice(node, scope);
    case ExpressionKind::kBinary: {
      ASSIGN_OR_RETURN(const Value a, Compute(*node.operands[0], scope));
      ASSIGN_OR_RETURN(const Value b, Compute(*node.operands[1], scope));
      return Binary(*this, node.name, a, b);
    }
    case ExpressionKind::kCompare:
      return ComputeCompare(node, scope);
    case ExpressionKind::kConcat:
      return ComputeConcat(node, scope);
    case ExpressionKind::kCondition:
      return ComputeCondition(node, scope);
    case ExpressionKind::kMember: {
      ASSIGN_OR_RETURN(const Value object, Compute(*node.operands[0], scope));
      return GetMember(*this, object, node.name);
    }
    case ExpressionKind::kItem: {
      ASSIGN_OR_RETURN(const Value object, Compute(*node.operands[0], scope));
      ASSIGN_OR_RETURN(const Value key, Compute(*node.operands[1], scope));
      return GetItem(*this, object, key);
    }
    case ExpressionKind::kSlice:
      return ComputeSlice(node, scope);
    case ExpressionKind::kCall:
      return ComputeCall(node, scope);
    case ExpressionKind::kFilter:
      return ComputeFilter(node, scope);
    case ExpressionKind::kTest: {
      ASSIGN_OR_RETURN(const Value value, Compute(*node.operands[0], scope));
      ASSIGN_OR_RETURN(Arguments arguments,
                       ComputeArguments(*node.call, scope));
      ASSIGN_OR_RETURN(const bool holds,
                       ApplyTest(node.name, value, std::move(arguments)));
      return Value(holds);
    }
  }
  return absl::InternalError("an expression of no kind");
}

absl::StatusOr<Value> Evaluator::ComputeChoice(const Expression& node,
                                               const ScopePtr& scope) {
  ASSIGN_OR_RETURN(Value left, Compute(*node.operands[0], scope));
  const bool is_or = node.kind == ExpressionKind::kOr;
  if (left.Truth() == is_or) return left;
  return Compute(*node.operands[1], scope);
}

absl::StatusOr<Value> Evaluator::ComputeName(const Expression& node,
                                             const ScopePtr& scope) {
  for (const Scope* at = scope.get(); at != nullptr; at = at->parent.get()) {
    if (const Value* value = at->Find(node.name_id)) return *value;
  }
  return globals_[static_cast<size_t>(node.name_id)];
}

absl::StatusOr<Value> Evaluator::ComputeList(const Expression& node,
                                             const ScopePtr& scope) {
  std::vector<Value> items;
  items.reserve(node.operands.size());
  for (const ExpressionPtr& operand : node.operands) {
    ASSIGN_OR_RETURN(Value item, Compute(*operand, scope));
    items.push_back(std::move(item));
  }
  return Value::MakeList(std::move(items), node.kind == ExpressionKind::kTuple);
}

absl::StatusOr<Value> Evaluator::ComputeDict(const Expression& node,
                                             const ScopePtr& scope) {
  auto dict = std::make_shared<Dict>();
  for (size_t i = 0; i + 1 < node.operands.size(); i += 2) {
    ASSIGN_OR_RETURN(Value key, Compute(*node.operands[i], scope));
    ASSIGN_OR_RETURN(Value value, Compute(*node.operands[i + 1], scope));
    RETURN_IF_ERROR(dict->Set(std::move(key), std::move(value)));
  }
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

absl::StatusOr<Value> Evaluator::ComputeCompare(const Expression& node,
                                                const ScopePtr& scope) {
  ASSIGN_OR_RETURN(Value left, Compute(*node.operands[0], scope));
  for (size_t i = 0; i < node.operators.size(); ++i) {
    ASSIGN_OR_RETURN(Value right, Compute(*node.operands[i + 1], scope));
    ASSIGN_OR_RETURN(const bool holds,
                     Compare(*this, node.operators[i], left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

absl::StatusOr<Value> Evaluator::ComputeConcat(const Expression& node,
                                               const ScopePtr& scope) {
  TextBuilder out;
  for (const ExpressionPtr& operand : node.operands) {
    ASSIGN_OR_RETURN(const Value part, Compute(*operand, scope));
    ASSIGN_OR_RETURN(const Text text, Str(*this, part));
    out.Append(text);
  }
  return MakeText(out.Take());
}

absl::StatusOr<Value> Evaluator::ComputeCondition(const Expression& node,
                                                  const ScopePtr& scope) {
  ASSIGN_OR_RETURN(const Value test, Compute(*node.operands[0], scope));
  if (test.Truth()) return Compute(*node.operands[1], scope);
  if (node.operands.size() > 2) return Compute(*node.operands[2], scope);
  return Value::MakeUndefined(
      absl::StrCat("the inline if-expression on line ", node.line,
                   " evaluated to false and no else section was defined."));
}

absl::StatusOr<Value> Evaluator::ComputeSlice(const Expression& node,
                                              const ScopePtr& scope) {
  ASSIGN_OR_RETURN(const Value object, Compute(*node.operands[0], scope));
  Value bounds[3] = {None(), None(), None()};
  for (size_t i = 0; i < 3; ++i) {
    const ExpressionPtr& bound = node.operands[i + 1];
    if (bound == nullptr) continue;
    ASSIGN_OR_RETURN(bounds[i], Compute(*bound, scope));
  }
  return Slice(*this, object, bounds[0], bounds[1], bounds[2]);
}

absl::StatusOr<Value> Evaluator::ComputeCall(const Expression& node,
                                             const ScopePtr& scope) {
  ASSIGN_OR_RETURN(const Value callee, Compute(*node.operands[0], scope));
  ASSIGN_OR_RETURN(Arguments arguments, ComputeArguments(*node.call, scope));
  return Call(callee, std::move(arguments));
}

absl::StatusOr<Value> Evaluator::ComputeFilter(const Expression& node,
                                               const ScopePtr& scope,
                                               const Value* input) {
  Value value;
  if (node.operands[0] == nullptr) {
    value = *input;
  } else if (node.operands[0]->kind == ExpressionKind::kFilter &&
             input != nullptr) {
    ASSIGN_OR_RETURN(value, ComputeFilter(*node.operands[0], scope, input));
  } else {
    ASSIGN_OR_RETURN(value, Compute(*node.operands[0], scope));
  }
  ASSIGN_OR_RETURN(Arguments arguments, ComputeArguments(*node.call, scope));
  return ApplyFilter(node.name, value, std::move(arguments));
}

absl::StatusOr<Arguments> Evaluator::ComputeArguments(const CallSyntax& call,
                                                      const ScopePtr& scope) {
  Arguments arguments;
  arguments.positional.reserve(call.positional.size());
  for (const ExpressionPtr& argument : call.positional) {
    ASSIGN_OR_RETURN(Value value, Compute(*argument, scope));
    arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, argument] : call.named) {
    ASSIGN_OR_RETURN(Value value, Compute(*argument, scope));
    arguments.named.emplace_back(name, std::move(value));
  }
  if (call.rest != nullptr) {
    ASSIGN_OR_RETURN(const Value rest, Compute(*call.rest, scope));
    ASSIGN_OR_RETURN(const std::vector<Value> values, ToVector(*this, rest));
    arguments.positional.insert(arguments.positional.end(), values.begin(),
                                values.end());
  }
  if (call.named_rest == nullptr) return arguments;
  ASSIGN_OR_RETURN(const Value rest, Compute(*call.named_rest, scope));
  if (!rest.is_dict()) return TypeError("argument after ** must be a mapping");
  RETURN_IF_ERROR(Spend(rest.dict()->size()));
  for (const Dict::Pair& pair : rest.dict()->pairs()) {
    if (!pair.first.is_string()) return TypeError("keywords must be strings");
    for (const auto& named : arguments.named) {
      if (named.first == pair.first.bytes()) {
        return TypeError("got multiple values for a keyword argument");
      }
    }
    arguments.named.emplace_back(pair.first.bytes(), pair.second);
  }
  return arguments;
}

}  // namespace plimsoll::worker::jinja
