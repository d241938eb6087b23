// The syntax tree of a template.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_TREE_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_TREE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

enum class ExpressionKind {
  kConstant,   // constant
  kName,       // name, name_id
  kTuple,      // operands; constant is the tuple if all operands are constant
  kList,       // the same with a list
  kDict,       // operands: key, value, key, value ...
  kUnary,      // name is "+" or "-"; operands[0]
  kNot,        // operands[0]
  kBinary,     // name is the operator; operands[0], operands[1]
  kAnd,        // operands[0], operands[1]
  kOr,         // operands[0], operands[1]
  kCompare,    // operands[0], then operators[i] with operands[i + 1]
  kConcat,     // operands joined by "~"
  kCondition,  // operands: test, then, else (may be null)
  kMember,     // operands[0].name
  kItem,       // operands[0][operands[1]]
  kSlice,      // operands: object, begin, end, step; the last three may be null
  kCall,       // operands[0] and `call`
  kFilter,     // name, filter, operands[0] (null in a block) and `call`
  kTest,       // name, test, operands[0] and `call`
  kMemberTarget,  // name_id and name: an assignment to a namespace
};

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

// The arguments in the brackets of a call.
struct CallSyntax {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr rest;        // *rest
  ExpressionPtr named_rest;  // **named_rest
};

struct Expression {
  ExpressionKind kind;
  int line;
  std::string name = {};
  int name_id = -1;  // an index into Program::names
  Value constant = {};
  std::vector<ExpressionPtr> operands = {};
  std::vector<std::string> operators = {};
  std::unique_ptr<CallSyntax> call = {};
  // The function of the filter `name`, or null.
  NativeFunction filter = nullptr;
  TestFunction test = nullptr;
  int height = 1;  // levels of the tree from here down
};

struct Statement;
using Block = std::vector<Statement>;

// A macro, or the body of a `call` block.
struct MacroSyntax {
  std::string name;
  std::vector<int> parameters;          // names
  std::vector<ExpressionPtr> defaults;  // values of the last parameters
  Block body;
  // Whether the body uses the special names.
  bool uses_caller = false;
  bool uses_kwargs = false;
  bool uses_varargs = false;
};

enum class StatementKind {
  kData,         // value is a constant
  kOutput,       // value
  kIf,           // branches, otherwise
  kFor,          // target, value, test (may be null), body, otherwise
  kSet,          // target, value
  kSetBlock,     // target, value (a filter, or null), body
  kMacro,        // target, macro
  kCallBlock,    // value (a call), macro
  kFilterBlock,  // value (a filter), body
  kWith,         // pairs, body
  kScope,        // body, as text: `generation` and `block`
  kBreak,
  kContinue,
  kFail,  // always fails: it needs other templates; name is the reason
};

struct Branch {
  ExpressionPtr test;
  Block body;
};

struct Statement {
  StatementKind kind;
  int line;
  std::string name = {};
  ExpressionPtr target = {};
  ExpressionPtr value = {};
  ExpressionPtr test = {};
  Block body = {};
  Block otherwise = {};
  std::vector<Branch> branches = {};
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> pairs = {};
  std::unique_ptr<MacroSyntax> macro = {};
  bool is_recursive = false;
  bool uses_loop = false;  // the body has the name `loop`
  // The body is one `if` without `else` whose test has the same value for each
  // item until its body runs: after it is false, no later item has an effect.
  bool has_same_test = false;
};

struct Program {
  std::vector<std::string> names;  // names of variables, each once
  Block body;
};

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_TREE_H_
