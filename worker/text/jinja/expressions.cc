#include "worker/text/jinja/expressions.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/jinja/evaluator.h"
#include "worker/text/jinja/iteration.h"
#include "worker/text/jinja/methods.h"
#include "worker/text/jinja/objects.h"
#include "worker/text/jinja/operations.h"
#include "worker/text/jinja/printing.h"

namespace plimsoll::worker::jinja {

namespace {

// True if nothing else is computed when the value is looked up.
bool IsLookup(const Expression& node) {
  return node.kind == ExpressionKind::kConstant ||
         node.kind == ExpressionKind::kName;
}

bool IsPlainText(const Value& value) {
  return value.is_string() && !value.text().is_markup();
}

}  // namespace

void Scope::Set(int name, Value value) {
  if (Value* old = Find(name)) {
    *old = std::move(value);
  } else {
    values.emplace_back(name, std::move(value));
  }
}

Value* Scope::Find(int name) {
  for (auto& [known, value] : values) {
    if (known == name) return &value;
  }
  return nullptr;
}

absl::StatusOr<Value> Expressions::Compute(const Expression& node,
                                           const ScopePtr& scope) {
  if (node.kind == ExpressionKind::kConstant) return node.constant;
  return meter_.AtNode(node.line, [&] { return ComputeKind(node, scope); });
}

absl::StatusOr<const Value*> Expressions::Refer(const Expression& node,
                                                const ScopePtr& scope,
                                                Value& room) {
  switch (node.kind) {
    case ExpressionKind::kConstant:
      return &node.constant;
    case ExpressionKind::kName:
      RETURN_IF_ERROR(meter_.Spend(1));
      return &Variable(node, scope);
    case ExpressionKind::kTuple:
    case ExpressionKind::kList:
      if (node.constant.is_list()) return &node.constant;
      break;
    case ExpressionKind::kMember:
    case ExpressionKind::kItem:
      return meter_.AtNode(node.line,
                           [&] { return ReferHeld(node, scope, room); });
    default:
      break;
  }
  ASSIGN_OR_RETURN(room, Compute(node, scope));
  return &room;
}

absl::StatusOr<const Value*> Expressions::ReferHeld(const Expression& node,
                                                    const ScopePtr& scope,
                                                    Value& room) {
  const bool is_member = node.kind == ExpressionKind::kMember;
  Value object_room;
  Value key_room;
  const Value* object = &object_room;
  const Value* key = nullptr;
  if (is_member || IsLookup(*node.operands[1])) {
    ASSIGN_OR_RETURN(object, Refer(*node.operands[0], scope, object_room));
  } else {
    ASSIGN_OR_RETURN(object_room, Compute(*node.operands[0], scope));
  }
  if (!is_member) {
    ASSIGN_OR_RETURN(key, Refer(*node.operands[1], scope, key_room));
  }
  const Value* held = is_member ? FindHeldMember(*object, node.name)
                                : FindHeldItem(*object, *key);
  if (held != nullptr && object != &object_room) return held;
  if (held != nullptr) {
    room = *held;
    return &room;
  }
  // To look for it may run code of the template, which may drop the object.
  if (object != &object_room) object_room = *object;
  ASSIGN_OR_RETURN(room, is_member
                             ? GetMember(evaluator_, object_room, node.name)
                             : GetItem(evaluator_, object_room, *key));
  return &room;
}

absl::StatusOr<bool> Expressions::Decide(const Expression& node,
                                         const ScopePtr& scope) {
  switch (node.kind) {
    case ExpressionKind::kNot:
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
    case ExpressionKind::kCompare:
    case ExpressionKind::kTest:
      return meter_.AtNode(node.line, [&] { return DecideKind(node, scope); });
    default: {
      Value room;
      ASSIGN_OR_RETURN(const Value* value, Refer(node, scope, room));
      return value->Truth();
    }
  }
}

absl::StatusOr<bool> Expressions::DecideKind(const Expression& node,
                                             const ScopePtr& scope) {
  if (node.kind == ExpressionKind::kCompare) return DecideCompare(node, scope);
  if (node.kind == ExpressionKind::kTest) return DecideTest(node, scope);
  ASSIGN_OR_RETURN(const bool first, Decide(*node.operands[0], scope));
  if (node.kind == ExpressionKind::kNot) return !first;
  if (first == (node.kind == ExpressionKind::kOr)) return first;
  return Decide(*node.operands[1], scope);
}

absl::StatusOr<Value> Expressions::ComputeKind(const Expression& node,
                                               const ScopePtr& scope) {
  switch (node.kind) {
    case ExpressionKind::kConstant:
      return node.constant;
    case ExpressionKind::kName:
    case ExpressionKind::kMemberTarget:
      return Variable(node, scope);
    case ExpressionKind::kTuple:
    case ExpressionKind::kList:
      return ComputeList(node, scope);
    case ExpressionKind::kDict:
      return ComputeDict(node, scope);
    case ExpressionKind::kUnary: {
      ASSIGN_OR_RETURN(const Value value, Compute(*node.operands[0], scope));
      return Negate(value, node.name);
    }
    case ExpressionKind::kNot:
    case ExpressionKind::kCompare:
    case ExpressionKind::kTest: {
      ASSIGN_OR_RETURN(const bool holds, DecideKind(node, scope));
      return Value(holds);
    }
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
      return ComputeChoice(node, scope);
    case ExpressionKind::kBinary:
      return ComputeBinary(node, scope);
    case ExpressionKind::kConcat:
      return ComputeConcat(node, scope);
    case ExpressionKind::kCondition:
      return ComputeCondition(node, scope);
    case ExpressionKind::kMember:
    case ExpressionKind::kItem: {
      Value room;
      ASSIGN_OR_RETURN(const Value* held, ReferHeld(node, scope, room));
      if (held == &room) return room;
      return *held;
    }
    case ExpressionKind::kSlice:
      return ComputeSlice(node, scope);
    case ExpressionKind::kCall:
      return ComputeCall(node, scope);
    case ExpressionKind::kFilter:
      return ComputeFilter(node, scope);
  }
  return absl::InternalError("an expression of no kind");
}

absl::StatusOr<Value> Expressions::ComputeChoice(const Expression& node,
                                                 const ScopePtr& scope) {
  ASSIGN_OR_RETURN(Value left, Compute(*node.operands[0], scope));
  const bool is_or = node.kind == ExpressionKind::kOr;
  if (left.Truth() == is_or) return left;
  return Compute(*node.operands[1], scope);
}

const Value& Expressions::Variable(const Expression& node,
                                   const ScopePtr& scope) const {
  for (Scope* at = scope.get(); at != nullptr; at = at->parent.get()) {
    if (const Value* value = at->Find(node.name_id)) return *value;
  }
  return globals_[static_cast<size_t>(node.name_id)];
}

absl::StatusOr<Value> Expressions::ComputeList(const Expression& node,
                                               const ScopePtr& scope) {
  if (node.constant.is_list()) return node.constant;
  std::vector<Value> items;
  items.reserve(node.operands.size());
  for (const ExpressionPtr& operand : node.operands) {
    ASSIGN_OR_RETURN(Value item, Compute(*operand, scope));
    items.push_back(std::move(item));
  }
  return Value::MakeList(std::move(items), node.kind == ExpressionKind::kTuple);
}

absl::StatusOr<Value> Expressions::ComputeDict(const Expression& node,
                                               const ScopePtr& scope) {
  auto dict = std::make_shared<Dict>();
  for (size_t i = 0; i + 1 < node.operands.size(); i += 2) {
    ASSIGN_OR_RETURN(Value key, Compute(*node.operands[i], scope));
    ASSIGN_OR_RETURN(Value value, Compute(*node.operands[i + 1], scope));
    RETURN_IF_ERROR(dict->Set(std::move(key), std::move(value)));
  }
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

absl::StatusOr<bool> Expressions::DecideCompare(const Expression& node,
                                                const ScopePtr& scope) {
  Value left;
  const Value* a = &left;
  const bool is_simple =
      node.operators.size() == 1 && IsLookup(*node.operands[1]);
  if (is_simple) {
    ASSIGN_OR_RETURN(a, Refer(*node.operands[0], scope, left));
  } else {
    ASSIGN_OR_RETURN(left, Compute(*node.operands[0], scope));
  }
  for (size_t i = 0; i < node.operators.size(); ++i) {
    Value right;
    ASSIGN_OR_RETURN(const Value* b,
                     Refer(*node.operands[i + 1], scope, right));
    // What an iterator runs may drop what it is compared with.
    if (b->is_iterator() && a != &left) {
      left = *a;
      a = &left;
    }
    ASSIGN_OR_RETURN(const bool holds,
                     Compare(evaluator_, node.operators[i], *a, *b));
    if (!holds || i + 1 == node.operators.size()) return holds;
    if (b == &right) {
      left = std::move(right);
    } else {
      left = *b;
    }
  }
  return true;
}

absl::StatusOr<bool> Expressions::DecideTest(const Expression& node,
                                             const ScopePtr& scope) {
  const CallSyntax& call = *node.call;
  const bool has_arguments = !call.positional.empty() || !call.named.empty() ||
                             call.rest != nullptr || call.named_rest != nullptr;
  Value room;
  if (!has_arguments) {
    ASSIGN_OR_RETURN(const Value* value, Refer(*node.operands[0], scope, room));
    return evaluator_.ApplyTest(node.test, node.name, *value, Arguments());
  }
  ASSIGN_OR_RETURN(room, Compute(*node.operands[0], scope));
  ASSIGN_OR_RETURN(Arguments arguments, ComputeArguments(call, scope));
  return evaluator_.ApplyTest(node.test, node.name, room, std::move(arguments));
}

absl::StatusOr<Value> Expressions::ComputeBinary(const Expression& node,
                                                 const ScopePtr& scope) {
  Value left;
  Value right;
  const Value* a = &left;
  if (IsLookup(*node.operands[1])) {
    ASSIGN_OR_RETURN(a, Refer(*node.operands[0], scope, left));
  } else {
    ASSIGN_OR_RETURN(left, Compute(*node.operands[0], scope));
  }
  ASSIGN_OR_RETURN(const Value* b, Refer(*node.operands[1], scope, right));
  return Binary(evaluator_, node.name, *a, *b);
}

Value* Expressions::Held(const Expression& target, const ScopePtr& scope) {
  if (target.kind == ExpressionKind::kName) return scope->Find(target.name_id);
  return static_cast<Namespace&>(Variable(target, scope).object())
      .Find(target.name);
}

absl::Status Expressions::AppendOperands(const Expression& node, size_t first,
                                         const ScopePtr& scope,
                                         TextBuilder& out) {
  for (size_t i = first; i < node.operands.size(); ++i) {
    Value room;
    ASSIGN_OR_RETURN(const Value* part, Refer(*node.operands[i], scope, room));
    if (part->is_string()) {
      out.Append(part->text());
    } else {
      ASSIGN_OR_RETURN(const Text text, Str(evaluator_, *part));
      out.Append(text);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Expressions::ComputeConcat(const Expression& node,
                                                 const ScopePtr& scope) {
  TextBuilder out;
  RETURN_IF_ERROR(AppendOperands(node, 0, scope, out));
  return evaluator_.MakeText(out.Take());
}

absl::StatusOr<Value> Expressions::ComputeAppended(const Expression& node,
                                                   const Expression& target,
                                                   const ScopePtr& scope) {
  return meter_.AtNode(
      node.line, [&] { return ComputeAppendedKind(node, target, scope); });
}

absl::StatusOr<Value> Expressions::ComputeAppendedKind(const Expression& node,
                                                       const Expression& target,
                                                       const ScopePtr& scope) {
  const bool is_binary = node.kind == ExpressionKind::kBinary;
  ASSIGN_OR_RETURN(Value text, Compute(*node.operands[0], scope));
  Value more;
  if (is_binary) {
    ASSIGN_OR_RETURN(more, Compute(*node.operands[1], scope));
    if (!IsPlainText(text) || !IsPlainText(more)) {
      return Binary(evaluator_, node.name, text, more);
    }
  } else {
    TextBuilder parts;
    RETURN_IF_ERROR(AppendOperands(node, 1, scope, parts));
    more = Value(parts.Take());
  }
  Value* held = Held(target, scope);
  if (held != nullptr && held->IsSame(text)) {
    text = std::exchange(*held, Value());
  }
  Text* sole = text.SoleText();
  if (sole == nullptr || sole->is_markup()) {
    ASSIGN_OR_RETURN(Text whole, Str(evaluator_, text));
    whole.Append(more.text());
    whole.set_markup(false);
    return evaluator_.MakeText(std::move(whole));
  }
  const size_t size = sole->size() + more.text().size();
  RETURN_IF_ERROR(meter_.CheckTextSize(static_cast<int64_t>(size)));
  RETURN_IF_ERROR(
      meter_.Spend(static_cast<int64_t>(more.text().size()) / kBytesPerStep));
  sole->Append(more.text());
  return text;
}

absl::StatusOr<Value> Expressions::ComputeCondition(const Expression& node,
                                                    const ScopePtr& scope) {
  ASSIGN_OR_RETURN(const bool holds, Decide(*node.operands[0], scope));
  if (holds) return Compute(*node.operands[1], scope);
  if (node.operands.size() > 2) return Compute(*node.operands[2], scope);
  return Value::MakeUndefined(
      absl::StrCat("the inline if-expression on line ", node.line,
                   " evaluated to false and no else section was defined."));
}

absl::StatusOr<Value> Expressions::ComputeSlice(const Expression& node,
                                                const ScopePtr& scope) {
  ASSIGN_OR_RETURN(const Value object, Compute(*node.operands[0], scope));
  SliceNumbers numbers;
  size_t i = 1;
  for (Value* number : {&numbers.begin, &numbers.end, &numbers.step}) {
    const ExpressionPtr& operand = node.operands[i++];
    if (operand == nullptr) continue;
    ASSIGN_OR_RETURN(*number, Compute(*operand, scope));
  }
  return Slice(evaluator_, object, numbers);
}

absl::StatusOr<Expressions::Callee> Expressions::ComputeCallee(
    const Expression& node, const ScopePtr& scope) {
  Callee callee;
  if (node.kind != ExpressionKind::kMember) {
    ASSIGN_OR_RETURN(callee.value, Compute(node, scope));
    return callee;
  }
  return meter_.AtNode(node.line, [&]() -> absl::StatusOr<Callee> {
    ASSIGN_OR_RETURN(callee.value, Compute(*node.operands[0], scope));
    callee.method = FindMethod(callee.value, node.name);
    if (callee.method == nullptr) {
      ASSIGN_OR_RETURN(callee.value,
                       GetMember(evaluator_, Value(callee.value), node.name));
    } else {
      RETURN_IF_ERROR(CheckNesting(callee.value.Depth() + 1));
    }
    return callee;
  });
}

absl::StatusOr<Value> Expressions::CallMethod(const Callee& callee,
                                              Arguments&& arguments) {
  if (callee.method == nullptr) {
    return evaluator_.Call(callee.value, std::move(arguments));
  }
  return callee.method(evaluator_, callee.value, std::move(arguments));
}

absl::StatusOr<Value> Expressions::ComputeCall(const Expression& node,
                                               const ScopePtr& scope) {
  ASSIGN_OR_RETURN(const Callee callee,
                   ComputeCallee(*node.operands[0], scope));
  ASSIGN_OR_RETURN(Arguments arguments, ComputeArguments(*node.call, scope));
  return CallMethod(callee, std::move(arguments));
}

absl::Status Expressions::WriteCall(const Expression& node,
                                    const ScopePtr& scope) {
  return meter_.AtNode(node.line, [&] { return WriteCallKind(node, scope); });
}

absl::Status Expressions::WriteCallKind(const Expression& node,
                                        const ScopePtr& scope) {
  ASSIGN_OR_RETURN(const Callee callee,
                   ComputeCallee(*node.operands[0], scope));
  ASSIGN_OR_RETURN(Arguments arguments, ComputeArguments(*node.call, scope));
  if (callee.method == nullptr && callee.value.is_object()) {
    return callee.value.object().CallAndWrite(evaluator_, std::move(arguments));
  }
  ASSIGN_OR_RETURN(const Value value, CallMethod(callee, std::move(arguments)));
  return evaluator_.Write(value);
}

absl::StatusOr<Value> Expressions::ComputeFilter(const Expression& node,
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
  return evaluator_.ApplyFilter(node.filter, node.name, value,
                                std::move(arguments));
}

absl::StatusOr<Arguments> Expressions::ComputeArguments(const CallSyntax& call,
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
    ASSIGN_OR_RETURN(const std::vector<Value> values,
                     ToVector(evaluator_, rest));
    arguments.positional.insert(arguments.positional.end(), values.begin(),
                                values.end());
  }
  if (call.named_rest == nullptr) return arguments;
  ASSIGN_OR_RETURN(const Value rest, Compute(*call.named_rest, scope));
  if (!rest.is_dict()) return TypeError("argument after ** must be a mapping");
  RETURN_IF_ERROR(meter_.Spend(rest.dict().size()));
  for (const Dict::Pair& pair : rest.dict().pairs()) {
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
