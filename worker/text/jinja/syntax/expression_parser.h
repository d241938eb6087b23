// Parses the expressions in a template's tags.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_EXPRESSION_PARSER_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_EXPRESSION_PARSER_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/text/jinja/syntax/token_stream.h"
#include "worker/text/jinja/syntax_tree.h"

namespace plimsoll::worker::jinja {

// Every method takes its tokens from the stream. Errors: kInvalidArgument
// naming the line.
class ExpressionParser {
 public:
  using IsEnd = std::function<bool()>;
  using Parsed = absl::StatusOr<ExpressionPtr>;

  // Names are given ids in `names`; both must outlive the parser.
  ExpressionParser(TokenStream& tokens, std::vector<std::string>& names)
      : tokens_(tokens), names_(names) {}

  Parsed Condition();  // a whole expression
  Parsed Or();         // an expression without a trailing `if`
  // An expression, or several with commas, which are a tuple. `is_end` tells
  // where the expression may end, besides the end of a tag.
  Parsed Tuple(bool with_condition, const IsEnd& is_end = nullptr);
  // Parses the target of an assignment: a name, a tuple of names or, with
  // `with_members`, a member of a namespace.
  Parsed Target(bool with_members, const IsEnd& is_end = nullptr);
  // A chain of filters, each behind a "|", around `operand`, which may be null.
  // With `is_begun`, the first one has no "|".
  Parsed Filters(ExpressionPtr operand, bool is_begun = false);

  int NameId(const std::string& name);
  // The number of uses of the name `loop` as a variable.
  int n_loop_names() const { return n_loop_names_; }
  // Macros whose bodies are being parsed. The parser notes which special names
  // they use.
  std::vector<MacroSyntax*>& macros() { return macros_; }

 private:
  Parsed And();
  Parsed Not();
  Parsed Compare();
  Parsed Sum();
  Parsed Concat();
  Parsed Product();
  Parsed Power();
  Parsed Unary(bool with_filters = true);
  Parsed Primary(bool with_members = false);
  Parsed NameOrConstant(bool with_members);
  Parsed TupleOf(const std::function<Parsed()>& parse, const IsEnd& is_end,
                 bool has_brackets);
  Parsed ListLiteral();
  Parsed DictLiteral();
  Parsed Postfix(ExpressionPtr operand);
  Parsed FilterOrTest(ExpressionPtr operand);
  Parsed Subscript(ExpressionPtr operand);
  Parsed OneSubscript(ExpressionPtr& object, bool& is_slice, int line);
  Parsed Call(ExpressionPtr operand);
  Parsed Test(ExpressionPtr operand);
  absl::StatusOr<std::unique_ptr<CallSyntax>> CallArguments();
  absl::Status OneArgument(CallSyntax& call);
  absl::StatusOr<std::string> DottedName();
  // What a node is, without its operands.
  struct Head {
    ExpressionKind kind;
    int line;
    std::string name = {};
  };
  // A node with these operands, if the tree is not too high.
  Parsed Node(Head head, std::vector<ExpressionPtr> operands,
              std::unique_ptr<CallSyntax> call = nullptr);
  Parsed LeftChain(Parsed (ExpressionParser::*part)(),
                   std::initializer_list<absl::string_view> operators);

  TokenStream& tokens_;
  std::vector<std::string>& names_;
  std::map<std::string, int, std::less<>> ids_;
  std::vector<MacroSyntax*> macros_;
  int n_loop_names_ = 0;
  int depth_ = 0;
};

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_EXPRESSION_PARSER_H_
