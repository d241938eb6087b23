#include "worker/text/jinja/syntax/expression_parser.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "worker/text/jinja/builtins/filters.h"
#include "worker/text/jinja/builtins/tests.h"
#include "worker/text/jinja/syntax/parser.h"

namespace plimsoll::worker::jinja {
namespace {

using Kind = ExpressionKind;
using Parsed = ExpressionParser::Parsed;

ExpressionPtr MakeConstant(int line, Value value) {
  auto node = std::make_unique<Expression>(Expression{Kind::kConstant, line});
  node->constant = std::move(value);
  return node;
}

std::vector<ExpressionPtr> Operands(ExpressionPtr a, ExpressionPtr b = nullptr,
                                    ExpressionPtr c = nullptr,
                                    ExpressionPtr d = nullptr) {
  std::vector<ExpressionPtr> operands;
  operands.push_back(std::move(a));
  for (ExpressionPtr* more : {&b, &c, &d}) {
    if (*more != nullptr) operands.push_back(std::move(*more));
  }
  return operands;
}

bool CanAssign(const Expression& target) {
  if (target.kind == Kind::kTuple) {
    return std::all_of(
        target.operands.begin(), target.operands.end(),
        [](const ExpressionPtr& part) { return CanAssign(*part); });
  }
  return target.kind == Kind::kName || target.kind == Kind::kMemberTarget;
}

// The value of a node that is the same each time, or null.
const Value* ConstantOf(const Expression& node) {
  const bool is_constant =
      node.kind == Kind::kConstant || node.constant.is_list();
  return is_constant ? &node.constant : nullptr;
}

// Makes a list or a tuple of constants once for all.
absl::Status KeepConstant(Expression& list) {
  std::vector<Value> items;
  items.reserve(list.operands.size());
  for (const ExpressionPtr& operand : list.operands) {
    const Value* item = ConstantOf(*operand);
    if (item == nullptr) return absl::OkStatus();
    items.push_back(*item);
  }
  ASSIGN_OR_RETURN(list.constant, Value::MakeList(std::move(items),
                                                  list.kind == Kind::kTuple));
  return absl::OkStatus();
}

}  // namespace

int ExpressionParser::NameId(const std::string& name) {
  if (name == "loop") ++n_loop_names_;
  const auto [place, is_new] =
      ids_.emplace(name, static_cast<int>(names_.size()));
  if (is_new) names_.push_back(name);
  return place->second;
}

Parsed ExpressionParser::Node(Head head, std::vector<ExpressionPtr> operands,
                              std::unique_ptr<CallSyntax> call) {
  auto node = std::make_unique<Expression>(
      Expression{head.kind, head.line, std::move(head.name)});
  const auto hold = [&node](const ExpressionPtr& part) {
    if (part == nullptr) return;
    node->height = std::max(node->height, part->height + 1);
  };
  for (const ExpressionPtr& operand : operands) hold(operand);
  if (call != nullptr) {
    for (const ExpressionPtr& argument : call->positional) hold(argument);
    for (const auto& argument : call->named) hold(argument.second);
    hold(call->rest);
    hold(call->named_rest);
  }
  if (node->height > kMaxHeight) {
    return LineError(head.line, absl::StrCat("an expression is longer than the "
                                             "limit of ",
                                             kMaxHeight));
  }
  node->operands = std::move(operands);
  node->call = std::move(call);
  if (node->kind == Kind::kList || node->kind == Kind::kTuple) {
    RETURN_IF_ERROR(KeepConstant(*node));
  }
  return node;
}

Parsed ExpressionParser::Condition() {
  if (depth_ >= kMaxSyntaxDepth) {
    return tokens_.Fail(absl::StrCat(
        "an expression is nested deeper than the limit of ", kMaxSyntaxDepth));
  }
  ++depth_;
  const int line = tokens_.line();
  ASSIGN_OR_RETURN(ExpressionPtr value, Or());
  while (tokens_.TakeName("if")) {
    ASSIGN_OR_RETURN(ExpressionPtr test, Or());
    ExpressionPtr otherwise;
    if (tokens_.TakeName("else")) {
      ASSIGN_OR_RETURN(otherwise, Condition());
    }
    ASSIGN_OR_RETURN(value, Node({Kind::kCondition, line},
                                 Operands(std::move(test), std::move(value),
                                          std::move(otherwise))));
  }
  --depth_;
  return value;
}

Parsed ExpressionParser::Or() {
  int line = tokens_.line();
  ASSIGN_OR_RETURN(ExpressionPtr left, And());
  while (tokens_.TakeName("or")) {
    ASSIGN_OR_RETURN(ExpressionPtr right, And());
    ASSIGN_OR_RETURN(left, Node({Kind::kOr, line},
                                Operands(std::move(left), std::move(right))));
    line = tokens_.line();
  }
  return left;
}

Parsed ExpressionParser::And() {
  int line = tokens_.line();
  ASSIGN_OR_RETURN(ExpressionPtr left, Not());
  while (tokens_.TakeName("and")) {
    ASSIGN_OR_RETURN(ExpressionPtr right, Not());
    ASSIGN_OR_RETURN(left, Node({Kind::kAnd, line},
                                Operands(std::move(left), std::move(right))));
    line = tokens_.line();
  }
  return left;
}

Parsed ExpressionParser::Not() {
  const int line = tokens_.line();
  int n = 0;
  while (tokens_.TakeName("not")) ++n;
  ASSIGN_OR_RETURN(ExpressionPtr value, Compare());
  for (; n > 0; --n) {
    ASSIGN_OR_RETURN(value,
                     Node({Kind::kNot, line}, Operands(std::move(value))));
  }
  return value;
}

Parsed ExpressionParser::Compare() {
  constexpr absl::string_view kOperators[] = {"==", "!=", ">", ">=", "<", "<="};
  const int line = tokens_.line();
  ASSIGN_OR_RETURN(ExpressionPtr first, Sum());
  std::vector<ExpressionPtr> operands;
  operands.push_back(std::move(first));
  std::vector<std::string> operators;
  while (true) {
    const bool is_sign = std::any_of(
        std::begin(kOperators), std::end(kOperators),
        [this](absl::string_view text) { return tokens_.IsOperator(text); });
    if (is_sign) {
      operators.push_back(tokens_.Next().text);
    } else if (tokens_.TakeName("in")) {
      operators.push_back("in");
    } else if (tokens_.IsName("not") && tokens_.IsName("in", 1)) {
      tokens_.Next();
      tokens_.Next();
      operators.push_back("not in");
    } else {
      break;
    }
    ASSIGN_OR_RETURN(ExpressionPtr next, Sum());
    operands.push_back(std::move(next));
  }
  if (operators.empty()) return std::move(operands[0]);
  ASSIGN_OR_RETURN(ExpressionPtr node,
                   Node({Kind::kCompare, line}, std::move(operands)));
  node->operators = std::move(operators);
  return node;
}

Parsed ExpressionParser::LeftChain(
    Parsed (ExpressionParser::*part)(),
    std::initializer_list<absl::string_view> operators) {
  int line = tokens_.line();
  ASSIGN_OR_RETURN(ExpressionPtr left, (this->*part)());
  while (std::any_of(
      operators.begin(), operators.end(),
      [this](absl::string_view text) { return tokens_.IsOperator(text); })) {
    std::string name = tokens_.Next().text;
    ASSIGN_OR_RETURN(ExpressionPtr right, (this->*part)());
    ASSIGN_OR_RETURN(left, Node({Kind::kBinary, line, std::move(name)},
                                Operands(std::move(left), std::move(right))));
    line = tokens_.line();
  }
  return left;
}

Parsed ExpressionParser::Sum() {
  return LeftChain(&ExpressionParser::Concat, {"+", "-"});
}

Parsed ExpressionParser::Concat() {
  const int line = tokens_.line();
  std::vector<ExpressionPtr> parts;
  do {
    ASSIGN_OR_RETURN(ExpressionPtr part, Product());
    parts.push_back(std::move(part));
  } while (tokens_.TakeOperator("~"));
  if (parts.size() == 1) return std::move(parts[0]);
  return Node({Kind::kConcat, line}, std::move(parts));
}

Parsed ExpressionParser::Product() {
  return LeftChain(&ExpressionParser::Power, {"*", "/", "//", "%"});
}

Parsed ExpressionParser::Power() {
  int line = tokens_.line();
  ASSIGN_OR_RETURN(ExpressionPtr left, Unary());
  while (tokens_.TakeOperator("**")) {
    ASSIGN_OR_RETURN(ExpressionPtr right, Unary());
    ASSIGN_OR_RETURN(left, Node({Kind::kBinary, line, "**"},
                                Operands(std::move(left), std::move(right))));
    line = tokens_.line();
  }
  return left;
}

Parsed ExpressionParser::Unary(bool with_filters) {
  const int line = tokens_.line();
  ExpressionPtr node;
  if (tokens_.IsOperator("-") || tokens_.IsOperator("+")) {
    if (depth_ >= kMaxSyntaxDepth) {
      return tokens_.Fail("there are too many signs");
    }
    ++depth_;
    std::string sign = tokens_.Next().text;
    ASSIGN_OR_RETURN(node, Unary(/*with_filters=*/false));
    ASSIGN_OR_RETURN(node, Node({Kind::kUnary, line, std::move(sign)},
                                Operands(std::move(node))));
    --depth_;
  } else {
    ASSIGN_OR_RETURN(node, Primary());
  }
  ASSIGN_OR_RETURN(node, Postfix(std::move(node)));
  if (with_filters) return FilterOrTest(std::move(node));
  return node;
}

Parsed ExpressionParser::NameOrConstant(bool with_members) {
  const Token token = tokens_.Next();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return MakeConstant(token.line, true);
  if (name == "false" || name == "False") {
    return MakeConstant(token.line, false);
  }
  if (name == "none" || name == "None") {
    return MakeConstant(token.line, None());
  }
  if (with_members && tokens_.TakeOperator(".")) {
    ASSIGN_OR_RETURN(std::string member, tokens_.TakeAnyName());
    ASSIGN_OR_RETURN(
        ExpressionPtr node,
        Node({Kind::kMemberTarget, token.line, std::move(member)}, {}));
    node->name_id = NameId(name);
    return node;
  }
  for (MacroSyntax* macro : macros_) {
    macro->uses_caller |= name == "caller";
    macro->uses_kwargs |= name == "kwargs";
    macro->uses_varargs |= name == "varargs";
  }
  ASSIGN_OR_RETURN(ExpressionPtr node,
                   Node({Kind::kName, token.line, name}, {}));
  node->name_id = NameId(name);
  return node;
}

Parsed ExpressionParser::Primary(bool with_members) {
  const int line = tokens_.line();
  switch (tokens_.Peek().kind) {
    case TokenKind::kName:
      return NameOrConstant(with_members);
    case TokenKind::kString: {
      std::string text;
      while (tokens_.Is(TokenKind::kString)) text += tokens_.Next().text;
      return MakeConstant(line, Value(Text(std::move(text))));
    }
    case TokenKind::kInteger:
      return MakeConstant(line, tokens_.Next().integer);
    case TokenKind::kFloat:
      return MakeConstant(line, tokens_.Next().number);
    default:
      break;
  }
  if (tokens_.TakeOperator("(")) {
    ASSIGN_OR_RETURN(ExpressionPtr node,
                     TupleOf([this] { return Condition(); }, nullptr,
                             /*has_brackets=*/true));
    RETURN_IF_ERROR(tokens_.ExpectOperator(")"));
    return node;
  }
  if (tokens_.IsOperator("[")) return ListLiteral();
  if (tokens_.IsOperator("{")) return DictLiteral();
  return tokens_.Fail(
      absl::StrCat("unexpected '", tokens_.Peek().text.substr(0, 64), "'"));
}

Parsed ExpressionParser::TupleOf(const std::function<Parsed()>& parse,
                                 const IsEnd& is_end, bool has_brackets) {
  int line = tokens_.line();
  std::vector<ExpressionPtr> parts;
  bool is_tuple = false;
  while (true) {
    if (!parts.empty()) RETURN_IF_ERROR(tokens_.ExpectOperator(","));
    if (tokens_.Is(TokenKind::kVariableEnd) ||
        tokens_.Is(TokenKind::kBlockEnd) || tokens_.IsOperator(")") ||
        (is_end && is_end())) {
      break;
    }
    ASSIGN_OR_RETURN(ExpressionPtr part, parse());
    parts.push_back(std::move(part));
    if (!tokens_.IsOperator(",")) break;
    is_tuple = true;
    line = tokens_.line();
  }
  if (!is_tuple && !parts.empty()) return std::move(parts[0]);
  if (!is_tuple && !has_brackets) {
    return tokens_.Fail("an expression is missing");
  }
  return Node({Kind::kTuple, line}, std::move(parts));
}

Parsed ExpressionParser::Tuple(bool with_condition, const IsEnd& is_end) {
  return TupleOf(
      [this, with_condition] { return with_condition ? Condition() : Or(); },
      is_end, /*has_brackets=*/false);
}

Parsed ExpressionParser::Target(bool with_members, const IsEnd& is_end) {
  const int line = tokens_.line();
  ASSIGN_OR_RETURN(
      ExpressionPtr target,
      TupleOf([this, with_members] { return Primary(with_members); }, is_end,
              /*has_brackets=*/false));
  if (!CanAssign(*target)) return LineError(line, "can't assign to this");
  return target;
}

Parsed ExpressionParser::ListLiteral() {
  const int line = tokens_.line();
  RETURN_IF_ERROR(tokens_.ExpectOperator("["));
  std::vector<ExpressionPtr> items;
  while (!tokens_.IsOperator("]")) {
    if (!items.empty()) RETURN_IF_ERROR(tokens_.ExpectOperator(","));
    if (tokens_.IsOperator("]")) break;
    ASSIGN_OR_RETURN(ExpressionPtr item, Condition());
    items.push_back(std::move(item));
  }
  RETURN_IF_ERROR(tokens_.ExpectOperator("]"));
  return Node({Kind::kList, line}, std::move(items));
}

Parsed ExpressionParser::DictLiteral() {
  const int line = tokens_.line();
  RETURN_IF_ERROR(tokens_.ExpectOperator("{"));
  std::vector<ExpressionPtr> pairs;
  while (!tokens_.IsOperator("}")) {
    if (!pairs.empty()) RETURN_IF_ERROR(tokens_.ExpectOperator(","));
    if (tokens_.IsOperator("}")) break;
    ASSIGN_OR_RETURN(ExpressionPtr key, Condition());
    RETURN_IF_ERROR(tokens_.ExpectOperator(":"));
    ASSIGN_OR_RETURN(ExpressionPtr value, Condition());
    pairs.push_back(std::move(key));
    pairs.push_back(std::move(value));
  }
  RETURN_IF_ERROR(tokens_.ExpectOperator("}"));
  return Node({Kind::kDict, line}, std::move(pairs));
}

Parsed ExpressionParser::Postfix(ExpressionPtr operand) {
  while (true) {
    if (tokens_.IsOperator(".") || tokens_.IsOperator("[")) {
      ASSIGN_OR_RETURN(operand, Subscript(std::move(operand)));
    } else if (tokens_.IsOperator("(")) {
      ASSIGN_OR_RETURN(operand, Call(std::move(operand)));
    } else {
      return operand;
    }
  }
}

Parsed ExpressionParser::FilterOrTest(ExpressionPtr operand) {
  while (true) {
    if (tokens_.IsOperator("|")) {
      ASSIGN_OR_RETURN(operand, Filters(std::move(operand)));
    } else if (tokens_.IsName("is")) {
      ASSIGN_OR_RETURN(operand, Test(std::move(operand)));
    } else if (tokens_.IsOperator("(")) {
      ASSIGN_OR_RETURN(operand, Call(std::move(operand)));
    } else {
      return operand;
    }
  }
}

Parsed ExpressionParser::OneSubscript(ExpressionPtr& object, bool& is_slice,
                                      int line) {
  ExpressionPtr parts[3];
  is_slice = tokens_.TakeOperator(":");
  if (!is_slice) {
    ASSIGN_OR_RETURN(parts[0], Condition());
    is_slice = tokens_.TakeOperator(":");
    if (!is_slice) return std::move(parts[0]);
  }
  const auto is_open = [this] {
    return tokens_.IsOperator("]") || tokens_.IsOperator(",");
  };
  if (!tokens_.IsOperator(":") && !is_open()) {
    ASSIGN_OR_RETURN(parts[1], Condition());
  }
  if (tokens_.TakeOperator(":") && !is_open()) {
    ASSIGN_OR_RETURN(parts[2], Condition());
  }
  std::vector<ExpressionPtr> operands;
  operands.push_back(std::move(object));
  for (ExpressionPtr& part : parts) operands.push_back(std::move(part));
  return Node({Kind::kSlice, line}, std::move(operands));
}

Parsed ExpressionParser::Subscript(ExpressionPtr operand) {
  const Token token = tokens_.Next();
  if (token.text == ".") {
    const Token member = tokens_.Next();
    if (member.kind == TokenKind::kName) {
      return Node({Kind::kMember, token.line, member.text},
                  Operands(std::move(operand)));
    }
    if (member.kind != TokenKind::kInteger) {
      return LineError(member.line, "expected name or number");
    }
    return Node({Kind::kItem, token.line},
                Operands(std::move(operand),
                         MakeConstant(member.line, member.integer)));
  }
  std::vector<ExpressionPtr> keys;
  while (!tokens_.IsOperator("]")) {
    if (!keys.empty()) RETURN_IF_ERROR(tokens_.ExpectOperator(","));
    bool is_slice = false;
    ASSIGN_OR_RETURN(ExpressionPtr key,
                     OneSubscript(operand, is_slice, token.line));
    if (is_slice) {
      if (!keys.empty() || !tokens_.TakeOperator("]")) {
        return LineError(token.line, "a slice stands alone in its brackets");
      }
      return key;
    }
    keys.push_back(std::move(key));
  }
  RETURN_IF_ERROR(tokens_.ExpectOperator("]"));
  ExpressionPtr key;
  if (keys.size() == 1) {
    key = std::move(keys[0]);
  } else {
    ASSIGN_OR_RETURN(key, Node({Kind::kTuple, token.line}, std::move(keys)));
  }
  return Node({Kind::kItem, token.line},
              Operands(std::move(operand), std::move(key)));
}

absl::Status ExpressionParser::OneArgument(CallSyntax& call) {
  const auto fail = [this] {
    return tokens_.Fail("invalid syntax for function call expression");
  };
  if (call.named_rest != nullptr) return fail();
  if (tokens_.TakeOperator("*")) {
    if (call.rest != nullptr) return fail();
    ASSIGN_OR_RETURN(call.rest, Condition());
    return absl::OkStatus();
  }
  if (tokens_.TakeOperator("**")) {
    ASSIGN_OR_RETURN(call.named_rest, Condition());
    return absl::OkStatus();
  }
  if (tokens_.Is(TokenKind::kName) && tokens_.IsOperator("=", 1)) {
    std::string name = tokens_.Next().text;
    tokens_.Next();
    for (const auto& other : call.named) {
      if (other.first == name) return tokens_.Fail("keyword argument repeated");
    }
    ASSIGN_OR_RETURN(ExpressionPtr value, Condition());
    call.named.emplace_back(std::move(name), std::move(value));
    return absl::OkStatus();
  }
  if (call.rest != nullptr || !call.named.empty()) return fail();
  ASSIGN_OR_RETURN(ExpressionPtr value, Condition());
  call.positional.push_back(std::move(value));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CallSyntax>> ExpressionParser::CallArguments() {
  auto call = std::make_unique<CallSyntax>();
  RETURN_IF_ERROR(tokens_.ExpectOperator("("));
  bool is_first = true;
  while (!tokens_.IsOperator(")")) {
    if (!is_first) {
      RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      if (tokens_.IsOperator(")")) break;
    }
    RETURN_IF_ERROR(OneArgument(*call));
    is_first = false;
  }
  RETURN_IF_ERROR(tokens_.ExpectOperator(")"));
  return call;
}

Parsed ExpressionParser::Call(ExpressionPtr operand) {
  const int line = tokens_.line();
  ASSIGN_OR_RETURN(auto call, CallArguments());
  return Node({Kind::kCall, line}, Operands(std::move(operand)),
              std::move(call));
}

absl::StatusOr<std::string> ExpressionParser::DottedName() {
  ASSIGN_OR_RETURN(std::string name, tokens_.TakeAnyName());
  while (tokens_.TakeOperator(".")) {
    ASSIGN_OR_RETURN(const std::string part, tokens_.TakeAnyName());
    absl::StrAppend(&name, ".", part);
  }
  return name;
}

Parsed ExpressionParser::Filters(ExpressionPtr operand, bool is_begun) {
  while (is_begun || tokens_.TakeOperator("|")) {
    is_begun = false;
    const int line = tokens_.line();
    ASSIGN_OR_RETURN(std::string name, DottedName());
    std::unique_ptr<CallSyntax> call = std::make_unique<CallSyntax>();
    if (tokens_.IsOperator("(")) {
      ASSIGN_OR_RETURN(call, CallArguments());
    }
    ASSIGN_OR_RETURN(operand,
                     Node({Kind::kFilter, line, std::move(name)},
                          Operands(std::move(operand)), std::move(call)));
    operand->filter = FindFilter(operand->name);
  }
  return operand;
}

Parsed ExpressionParser::Test(ExpressionPtr operand) {
  const int line = tokens_.line();
  RETURN_IF_ERROR(tokens_.ExpectName("is"));
  const bool is_negated = tokens_.TakeName("not");
  ASSIGN_OR_RETURN(std::string name, DottedName());
  auto call = std::make_unique<CallSyntax>();
  const TokenKind next = tokens_.Peek().kind;
  const bool is_operand =
      next == TokenKind::kString || next == TokenKind::kInteger ||
      next == TokenKind::kFloat || next == TokenKind::kName ||
      tokens_.IsOperator("[") || tokens_.IsOperator("{");
  if (tokens_.IsOperator("(")) {
    ASSIGN_OR_RETURN(call, CallArguments());
  } else if (is_operand && !tokens_.IsName("else") && !tokens_.IsName("or") &&
             !tokens_.IsName("and")) {
    if (tokens_.IsName("is")) {
      return tokens_.Fail("You cannot chain multiple tests with is");
    }
    ASSIGN_OR_RETURN(ExpressionPtr argument, Primary());
    ASSIGN_OR_RETURN(argument, Postfix(std::move(argument)));
    call->positional.push_back(std::move(argument));
  }
  ASSIGN_OR_RETURN(ExpressionPtr node,
                   Node({Kind::kTest, line, std::move(name)},
                        Operands(std::move(operand)), std::move(call)));
  node->test = FindTest(node->name);
  if (!is_negated) return node;
  return Node({Kind::kNot, line}, Operands(std::move(node)));
}

}  // namespace plimsoll::worker::jinja
