#include "worker/text/jinja/syntax/parser.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "worker/text/jinja/syntax/checks.h"
#include "worker/text/jinja/syntax/expression_parser.h"
#include "worker/text/jinja/syntax/token_stream.h"
#include "worker/text/utf8.h"

namespace plimsoll::worker::jinja {
namespace {

using Ends = std::initializer_list<absl::string_view>;

bool Assigns(const Expression& target, int name_id) {
  return target.name_id == name_id ||
         std::any_of(target.operands.begin(), target.operands.end(),
                     [name_id](const ExpressionPtr& part) {
                       return Assigns(*part, name_id);
                     });
}

// True if the value depends on variables alone, of which `target` is none, and
// nothing happens when it is computed.
bool DependsOnOthers(const Expression& node, const Expression& target) {
  switch (node.kind) {
    case ExpressionKind::kConstant:
      return true;
    case ExpressionKind::kName:
      return !Assigns(target, node.name_id);
    case ExpressionKind::kNot:
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
    case ExpressionKind::kMember:
      return std::all_of(node.operands.begin(), node.operands.end(),
                         [&target](const ExpressionPtr& operand) {
                           return DependsOnOthers(*operand, target);
                         });
    default:
      return false;
  }
}

bool HasSameTest(const Statement& loop) {
  if (loop.uses_loop || loop.is_recursive || loop.test != nullptr ||
      loop.body.size() != 1) {
    return false;
  }
  const Statement& only = loop.body[0];
  return only.kind == StatementKind::kIf && only.branches.size() == 1 &&
         only.otherwise.empty() &&
         DependsOnOthers(*only.branches[0].test, *loop.target);
}

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens)
      : tokens_(std::move(tokens)), expressions_(tokens_, program_.names) {}

  absl::StatusOr<Program> Run() {
    ASSIGN_OR_RETURN(program_.body, Body({}));
    return std::move(program_);
  }

 private:
  Statement Begin(StatementKind kind) { return {kind, tokens_.Next().line}; }

  // Statements up to a tag that begins with one of `ends`; the name of that tag
  // is the next token. Without `ends`, up to the end of the template.
  absl::StatusOr<Block> Body(Ends ends) {
    if (depth_ >= kMaxSyntaxDepth) {
      return tokens_.Fail(absl::StrCat(
          "blocks are nested deeper than the limit of ", kMaxSyntaxDepth));
    }
    ++depth_;
    Block body;
    while (!tokens_.Is(TokenKind::kEnd)) {
      if (tokens_.Is(TokenKind::kData)) {
        Token token = tokens_.Next();
        body.push_back({StatementKind::kData, token.line});
        body.back().value = std::make_unique<Expression>(
            Expression{ExpressionKind::kConstant, token.line});
        body.back().value->constant = Value(Text(std::move(token.text)));
        continue;
      }
      if (tokens_.Is(TokenKind::kVariableBegin)) {
        body.push_back(Begin(StatementKind::kOutput));
        ASSIGN_OR_RETURN(body.back().value,
                         expressions_.Tuple(/*with_condition=*/true));
        RETURN_IF_ERROR(
            tokens_.Expect(TokenKind::kVariableEnd, "end of print statement"));
        continue;
      }
      tokens_.Next();  // the beginning of a block tag
      const bool is_end = std::any_of(
          ends.begin(), ends.end(),
          [this](absl::string_view end) { return tokens_.IsName(end); });
      if (is_end) {
        --depth_;
        return body;
      }
      RETURN_IF_ERROR(OneStatement(body));
      RETURN_IF_ERROR(EndOfTag());
    }
    if (ends.size() > 0) {
      return tokens_.Fail(absl::StrCat("Unexpected end of template, expected ",
                                       absl::StrJoin(ends, " or ")));
    }
    --depth_;
    return body;
  }

  absl::Status EndOfTag() {
    return tokens_.Expect(TokenKind::kBlockEnd, "end of statement block");
  }

  // The body of a tag whose end comes next.
  absl::StatusOr<Block> BodyAfterTag(Ends ends) {
    tokens_.TakeOperator(":");
    RETURN_IF_ERROR(EndOfTag());
    return Body(ends);
  }
  absl::StatusOr<Block> WholeBody(absl::string_view end) {
    ASSIGN_OR_RETURN(Block body, BodyAfterTag({end}));
    tokens_.Next();
    return body;
  }

  absl::Status OneStatement(Block& body) {
    using Method = absl::StatusOr<Statement> (Parser::*)();
    constexpr std::pair<absl::string_view, Method> kTags[] = {
        {"if", &Parser::If},
        {"for", &Parser::For},
        {"set", &Parser::Set},
        {"macro", &Parser::Macro},
        {"call", &Parser::CallBlock},
        {"filter", &Parser::FilterBlock},
        {"with", &Parser::With},
        {"block", &Parser::NamedBlock},
        {"generation", &Parser::Generation},
        {"autoescape", &Parser::Autoescape},
        {"break", &Parser::Break},
        {"continue", &Parser::Continue},
        {"extends", &Parser::OtherTemplate},
        {"include", &Parser::OtherTemplate},
        {"import", &Parser::OtherTemplate},
        {"from", &Parser::OtherTemplate},
    };
    if (!tokens_.Is(TokenKind::kName)) {
      return tokens_.Fail("tag name expected");
    }
    if (tokens_.IsName("print")) return Print(body);
    for (const auto& [name, method] : kTags) {
      if (!tokens_.IsName(name)) continue;
      ASSIGN_OR_RETURN(Statement statement, (this->*method)());
      body.push_back(std::move(statement));
      return absl::OkStatus();
    }
    return tokens_.Fail(absl::StrCat("Encountered unknown tag '",
                                     tokens_.Peek().text.substr(0, 64), "'"));
  }

  absl::Status Print(Block& body) {
    const int line = tokens_.Next().line;
    bool is_first = true;
    while (!tokens_.Is(TokenKind::kBlockEnd)) {
      if (!is_first) RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      is_first = false;
      body.push_back({StatementKind::kOutput, line});
      ASSIGN_OR_RETURN(body.back().value, expressions_.Condition());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Statement> If() {
    Statement node = Begin(StatementKind::kIf);
    while (true) {
      Branch& branch = node.branches.emplace_back();
      ASSIGN_OR_RETURN(branch.test,
                       expressions_.Tuple(/*with_condition=*/false));
      ASSIGN_OR_RETURN(branch.body, BodyAfterTag({"elif", "else", "endif"}));
      const Token end = tokens_.Next();
      if (end.text == "elif") continue;
      if (end.text == "else") {
        ASSIGN_OR_RETURN(node.otherwise, WholeBody("endif"));
      }
      return node;
    }
  }

  absl::StatusOr<Statement> For() {
    Statement node = Begin(StatementKind::kFor);
    ASSIGN_OR_RETURN(node.target,
                     expressions_.Target(/*with_members=*/false, [this] {
                       return tokens_.IsName("in");
                     }));
    RETURN_IF_ERROR(tokens_.ExpectName("in"));
    ASSIGN_OR_RETURN(node.value,
                     expressions_.Tuple(/*with_condition=*/false, [this] {
                       return tokens_.IsName("recursive");
                     }));
    if (tokens_.TakeName("if")) {
      ASSIGN_OR_RETURN(node.test, expressions_.Condition());
    }
    node.is_recursive = tokens_.TakeName("recursive");
    const int n_loop_names = expressions_.n_loop_names();
    ASSIGN_OR_RETURN(node.body, BodyAfterTag({"endfor", "else"}));
    node.uses_loop = expressions_.n_loop_names() > n_loop_names;
    node.has_same_test = HasSameTest(node);
    if (tokens_.Next().text == "else") {
      ASSIGN_OR_RETURN(node.otherwise, WholeBody("endfor"));
    }
    return node;
  }

  absl::StatusOr<Statement> Set() {
    Statement node = Begin(StatementKind::kSet);
    ASSIGN_OR_RETURN(node.target, expressions_.Target(/*with_members=*/true));
    if (tokens_.TakeOperator("=")) {
      ASSIGN_OR_RETURN(node.value, expressions_.Tuple(/*with_condition=*/true));
      return node;
    }
    node.kind = StatementKind::kSetBlock;
    ASSIGN_OR_RETURN(node.value, expressions_.Filters(nullptr));
    ASSIGN_OR_RETURN(node.body, WholeBody("endset"));
    return node;
  }

  absl::Status Signature(MacroSyntax& macro) {
    RETURN_IF_ERROR(tokens_.ExpectOperator("("));
    while (!tokens_.IsOperator(")")) {
      if (!macro.parameters.empty()) {
        RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      }
      ASSIGN_OR_RETURN(const std::string name, tokens_.TakeAnyName());
      const int id = expressions_.NameId(name);
      if (std::count(macro.parameters.begin(), macro.parameters.end(), id)) {
        return tokens_.Fail("a parameter is there twice");
      }
      if (tokens_.TakeOperator("=")) {
        ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.Condition());
        macro.defaults.push_back(std::move(value));
      } else if (!macro.defaults.empty()) {
        return tokens_.Fail("non-default argument follows default argument");
      }
      macro.parameters.push_back(id);
    }
    return tokens_.ExpectOperator(")");
  }

  absl::Status MacroBody(MacroSyntax& macro, absl::string_view end) {
    expressions_.macros().push_back(&macro);
    ASSIGN_OR_RETURN(macro.body, WholeBody(end));
    expressions_.macros().pop_back();
    const size_t n_plain = macro.parameters.size() - macro.defaults.size();
    const auto plain_end =
        macro.parameters.begin() + static_cast<ptrdiff_t>(n_plain);
    const int caller = expressions_.NameId("caller");
    if (macro.uses_caller &&
        std::find(macro.parameters.begin(), plain_end, caller) != plain_end) {
      return tokens_.Fail(
          "the special \"caller\" argument must be omitted or be given a "
          "default");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Statement> Macro() {
    Statement node = Begin(StatementKind::kMacro);
    node.macro = std::make_unique<MacroSyntax>();
    const int line = tokens_.line();
    ASSIGN_OR_RETURN(node.macro->name, tokens_.TakeAnyName());
    node.target = std::make_unique<Expression>(
        Expression{ExpressionKind::kName, line, node.macro->name});
    node.target->name_id = expressions_.NameId(node.macro->name);
    RETURN_IF_ERROR(Signature(*node.macro));
    RETURN_IF_ERROR(MacroBody(*node.macro, "endmacro"));
    return node;
  }

  absl::StatusOr<Statement> CallBlock() {
    Statement node = Begin(StatementKind::kCallBlock);
    node.macro = std::make_unique<MacroSyntax>();
    if (tokens_.IsOperator("(")) RETURN_IF_ERROR(Signature(*node.macro));
    ASSIGN_OR_RETURN(node.value, expressions_.Condition());
    if (node.value->kind != ExpressionKind::kCall) {
      return LineError(node.line, "expected call");
    }
    RETURN_IF_ERROR(MacroBody(*node.macro, "endcall"));
    return node;
  }

  absl::StatusOr<Statement> FilterBlock() {
    Statement node = Begin(StatementKind::kFilterBlock);
    ASSIGN_OR_RETURN(node.value,
                     expressions_.Filters(nullptr, /*is_begun=*/true));
    ASSIGN_OR_RETURN(node.body, WholeBody("endfilter"));
    return node;
  }

  absl::StatusOr<Statement> With() {
    Statement node = Begin(StatementKind::kWith);
    while (!tokens_.Is(TokenKind::kBlockEnd)) {
      if (!node.pairs.empty()) RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      auto& pair = node.pairs.emplace_back();
      ASSIGN_OR_RETURN(pair.first, expressions_.Target(/*with_members=*/false));
      RETURN_IF_ERROR(tokens_.ExpectOperator("="));
      ASSIGN_OR_RETURN(pair.second, expressions_.Condition());
    }
    ASSIGN_OR_RETURN(node.body, WholeBody("endwith"));
    return node;
  }

  absl::StatusOr<Statement> NamedBlock() {
    Statement node = Begin(StatementKind::kScope);
    ASSIGN_OR_RETURN(node.name, tokens_.TakeAnyName());
    const bool is_scoped = tokens_.TakeName("scoped");
    const bool is_required = tokens_.TakeName("required");
    ASSIGN_OR_RETURN(node.body, WholeBody("endblock"));
    tokens_.TakeName(node.name);
    if (is_scoped || is_required) {
      node.kind = StatementKind::kFail;
      node.name = "blocks for other templates are not supported";
    }
    return node;
  }

  absl::StatusOr<Statement> Generation() {
    Statement node = Begin(StatementKind::kScope);
    ASSIGN_OR_RETURN(node.body, WholeBody("endgeneration"));
    return node;
  }

  absl::StatusOr<Statement> Autoescape() {
    Statement node = Begin(StatementKind::kWith);
    ASSIGN_OR_RETURN(const ExpressionPtr is_on, expressions_.Condition());
    if (is_on->kind != ExpressionKind::kConstant || is_on->constant.Truth()) {
      node.kind = StatementKind::kFail;
      node.name = "autoescape is not supported";
    }
    ASSIGN_OR_RETURN(node.body, WholeBody("endautoescape"));
    return node;
  }

  absl::StatusOr<Statement> Break() { return Begin(StatementKind::kBreak); }
  absl::StatusOr<Statement> Continue() {
    return Begin(StatementKind::kContinue);
  }

  absl::StatusOr<Statement> OtherTemplate() {
    Statement node = Begin(StatementKind::kFail);
    node.name = "a chat template cannot use other templates";
    while (!tokens_.Is(TokenKind::kBlockEnd) && !tokens_.Is(TokenKind::kEnd)) {
      tokens_.Next();
    }
    return node;
  }

  TokenStream tokens_;
  Program program_;
  ExpressionParser expressions_;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<Program> Parse(absl::string_view source) {
  if (static_cast<int64_t>(source.size()) > kMaxTemplateBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the template is longer than the limit of ",
                     kMaxTemplateBytes, " bytes"));
  }
  if (!IsValidUtf8(source)) {
    return absl::InvalidArgumentError("the template is not UTF-8");
  }
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  ASSIGN_OR_RETURN(Program program, Parser(std::move(tokens)).Run());
  RETURN_IF_ERROR(CheckProgram(program));
  return program;
}

}  // namespace plimsoll::worker::jinja
