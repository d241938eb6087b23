#include "worker/text/jinja/syntax/checks.h"

#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/jinja/builtins/filters.h"
#include "worker/text/jinja/builtins/tests.h"
#include "worker/text/jinja/line_error.h"
#include "worker/text/jinja/syntax/lexer.h"

namespace plimsoll::worker::jinja {
namespace {

// What is allowed at the place of a statement.
struct Place {
  bool is_soft = false;     // below an `if`: what is unknown fails when it runs
  bool is_in_loop = false;  // `break` leaves a loop of this function
  bool is_below_loop = false;  // `loop` cannot be assigned to

  Place Soft() const {
    Place place = *this;
    place.is_soft = true;
    return place;
  }
  Place Hard() const {
    Place place = *this;
    place.is_soft = false;
    return place;
  }
  Place Function() const { return {.is_below_loop = is_below_loop}; }
};

// Whether a value that the template itself spells out is true; nothing for one
// that is computed.
std::optional<bool> LiteralTruth(const Expression& node) {
  switch (node.kind) {
    case ExpressionKind::kConstant:
      return node.constant.Truth();
    case ExpressionKind::kTuple:
    case ExpressionKind::kList:
    case ExpressionKind::kDict:
      for (const ExpressionPtr& operand : node.operands) {
        if (!LiteralTruth(*operand).has_value()) return std::nullopt;
      }
      return !node.operands.empty();
    case ExpressionKind::kNot: {
      const std::optional<bool> truth = LiteralTruth(*node.operands[0]);
      if (!truth.has_value()) return std::nullopt;
      return !*truth;
    }
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr: {
      const std::optional<bool> left = LiteralTruth(*node.operands[0]);
      const bool is_or = node.kind == ExpressionKind::kOr;
      if (!left.has_value() || *left == is_or) return left;
      return LiteralTruth(*node.operands[1]);
    }
    default:
      return std::nullopt;
  }
}

// True for an `and` or an `or` whose left part is a literal that decides it.
// Jinja2 drops the right part before it looks for unknown names.
bool IsDecidedByLeft(const Expression& node) {
  const bool is_or = node.kind == ExpressionKind::kOr;
  if (!is_or && node.kind != ExpressionKind::kAnd) return false;
  return LiteralTruth(*node.operands[0]) == is_or;
}

class Checker {
 public:
  absl::Status Check(const Block& block, const Place& place) {
    for (const Statement& statement : block) {
      RETURN_IF_ERROR(Check(statement, place));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Check(const Statement& node, const Place& place) {
    switch (node.kind) {
      case StatementKind::kIf:
        return CheckIf(node, place.Soft());
      case StatementKind::kFor:
        return CheckFor(node, place);
      case StatementKind::kSet:
        RETURN_IF_ERROR(CheckTarget(*node.target, place));
        return Check(node.value, place);
      case StatementKind::kSetBlock:
        RETURN_IF_ERROR(CheckTarget(*node.target, place));
        RETURN_IF_ERROR(Check(node.value, place.Hard()));
        return Check(node.body, place.Hard());
      case StatementKind::kMacro:
        RETURN_IF_ERROR(CheckTarget(*node.target, place));
        return CheckMacro(*node.macro, place.Function());
      case StatementKind::kCallBlock:
        RETURN_IF_ERROR(Check(node.value, place));
        return CheckMacro(*node.macro, place.Function());
      case StatementKind::kFilterBlock:
        RETURN_IF_ERROR(Check(node.value, place.Hard()));
        return Check(node.body, place.Hard());
      case StatementKind::kWith:
        for (const auto& pair : node.pairs) {
          RETURN_IF_ERROR(Check(pair.second, place));
        }
        return Check(node.body, place.Hard());
      case StatementKind::kScope:
        if (!node.name.empty() && !blocks_.insert(node.name).second) {
          return LineError(
              node.line, absl::StrCat("block '", node.name, "' defined twice"));
        }
        return Check(node.body, place.Function());
      case StatementKind::kBreak:
      case StatementKind::kContinue:
        if (place.is_in_loop) return absl::OkStatus();
        return LineError(node.line, "'break' or 'continue' outside loop");
      case StatementKind::kData:
      case StatementKind::kOutput:
      case StatementKind::kFail:
        break;
    }
    return Check(node.value, place);
  }

  absl::Status CheckIf(const Statement& node, const Place& place) {
    for (const Branch& branch : node.branches) {
      RETURN_IF_ERROR(Check(branch.test, place));
      RETURN_IF_ERROR(Check(branch.body, place));
    }
    return Check(node.otherwise, place);
  }

  absl::Status CheckFor(const Statement& node, const Place& place) {
    Place body = place.Hard();
    body.is_in_loop = true;
    body.is_below_loop = true;
    Place otherwise = place.Hard();
    otherwise.is_in_loop &= !node.is_recursive;
    otherwise.is_below_loop = true;
    RETURN_IF_ERROR(CheckTarget(*node.target, body));
    RETURN_IF_ERROR(Check(node.value, place));
    RETURN_IF_ERROR(Check(node.test, place.Hard()));
    RETURN_IF_ERROR(Check(node.body, body));
    return Check(node.otherwise, otherwise);
  }

  absl::Status CheckMacro(const MacroSyntax& macro, const Place& place) {
    for (const ExpressionPtr& value : macro.defaults) {
      RETURN_IF_ERROR(Check(value, place));
    }
    return Check(macro.body, place);
  }

  absl::Status CheckTarget(const Expression& target, const Place& place) {
    for (const ExpressionPtr& part : target.operands) {
      RETURN_IF_ERROR(CheckTarget(*part, place));
    }
    if (place.is_below_loop && target.kind == ExpressionKind::kName &&
        target.name == "loop") {
      return LineError(
          target.line,
          "Can't assign to special loop variable in for-loop target");
    }
    return absl::OkStatus();
  }

  absl::Status Check(const ExpressionPtr& node, const Place& place) {
    if (node == nullptr) return absl::OkStatus();
    const bool is_condition = node->kind == ExpressionKind::kCondition;
    const Place inner = is_condition ? place.Soft() : place;
    const bool is_filter = node->kind == ExpressionKind::kFilter;
    const bool is_test = node->kind == ExpressionKind::kTest;
    if (!inner.is_soft && ((is_filter && FindFilter(node->name) == nullptr) ||
                           (is_test && FindTest(node->name) == nullptr))) {
      return LineError(node->line,
                       absl::StrCat("No ", is_filter ? "filter" : "test",
                                    " named '", node->name, "'."));
    }
    if (IsDecidedByLeft(*node)) return Check(node->operands[0], inner);
    for (const ExpressionPtr& operand : node->operands) {
      RETURN_IF_ERROR(Check(operand, inner));
    }
    if (node->call == nullptr) return absl::OkStatus();
    for (const ExpressionPtr& argument : node->call->positional) {
      RETURN_IF_ERROR(Check(argument, inner));
    }
    for (const auto& argument : node->call->named) {
      RETURN_IF_ERROR(Check(argument.second, inner));
    }
    RETURN_IF_ERROR(Check(node->call->rest, inner));
    return Check(node->call->named_rest, inner);
  }

  std::set<std::string> blocks_;
};

}  // namespace

absl::Status CheckProgram(const Program& program) {
  return Checker().Check(program.body, Place());
}

}  // namespace plimsoll::worker::jinja
