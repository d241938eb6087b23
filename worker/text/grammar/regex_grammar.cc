#include "worker/text/grammar/regex_grammar.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "worker/text/grammar/grammar_spread.h"
#include "worker/text/grammar/text_before.h"

namespace plimsoll::worker {
namespace {

using Expr = GrammarBuilder::Expr;
using Kind = RegexNode::Kind;

// Writes a tree. The recursion is as deep as the tree.
class RegexWriter {
 public:
  RegexWriter(const RegexOptions& options, GrammarBuilder& builder)
      : options_(options), builder_(builder) {}

  Expr Write(const RegexNode& node) {
    if (!builder_.ok()) return builder_.Literal("");
    switch (node.kind) {
      case Kind::kChars:
        return Chars(node.set);
      case Kind::kSequence:
      case Kind::kChoice: {
        std::vector<Expr> parts;
        for (const RegexNode& part : node.parts) parts.push_back(Write(part));
        return node.kind == Kind::kChoice ? builder_.Choice(std::move(parts))
                                          : builder_.Sequence(std::move(parts));
      }
      case Kind::kRepeat:
        return builder_.Repeat(Write(node.parts[0]), node.min, node.max);
      case Kind::kBegin:
      case Kind::kEnd:
        break;
    }
    return builder_.Literal("");
  }

  // An alternative of the whole pattern, which a search may find anywhere
  // unless an anchor binds it.
  Expr WriteAlternative(const RegexNode& node) {
    const bool is_list = node.kind == Kind::kSequence && !node.parts.empty();
    const bool has_begin = node.kind == Kind::kBegin ||
                           (is_list && node.parts.front().kind == Kind::kBegin);
    const bool has_end = node.kind == Kind::kEnd ||
                         (is_list && node.parts.back().kind == Kind::kEnd);
    std::vector<Expr> parts;
    if (options_.match == RegexMatch::kAnywhere && !has_begin)
      parts.push_back(Anything());
    parts.push_back(Write(node));
    if (options_.match == RegexMatch::kAnywhere && !has_end)
      parts.push_back(Anything());
    return builder_.Sequence(std::move(parts));
  }

 private:
  Expr Chars(const CodePoints& set) {
    return options_.chars ? options_.chars(set) : builder_.Chars(set);
  }
  Expr Anything() {
    return builder_.Repeat(Chars(Complement({})), 0,
                           GrammarBuilder::kUnlimited);
  }

  const RegexOptions& options_;
  GrammarBuilder& builder_;
};

}  // namespace

Expr AddRegex(const RegexNode& tree, const RegexOptions& options,
              GrammarBuilder& builder) {
  RegexWriter writer(options, builder);
  if (tree.kind != Kind::kChoice) return writer.WriteAlternative(tree);
  std::vector<Expr> choices;
  for (const RegexNode& one : tree.parts) {
    choices.push_back(writer.WriteAlternative(one));
  }
  return builder.Choice(std::move(choices));
}

absl::StatusOr<std::shared_ptr<const Grammar>> CompileRegex(
    absl::string_view pattern, StopCheck stop, absl::string_view trigger) {
  ASSIGN_OR_RETURN(const RegexNode tree,
                   ParseRegex(pattern, RegexSyntax::kPlain));
  // What follows a trigger is proved alone.
  if (!trigger.empty()) {
    RETURN_IF_ERROR(CompileRegex(pattern, stop).status());
  }
  GrammarBuilder builder(stop);
  const int32_t root = builder.NewRule("regex");
  const Expr all = AddRegex(tree, {}, builder);
  builder.Define(
      root, trigger.empty()
                ? all
                : TextBefore({.trigger = std::string(trigger)}, all, builder));
  ASSIGN_OR_RETURN(const std::shared_ptr<Grammar> grammar, builder.Build(root));
  if (trigger.empty()) RETURN_IF_ERROR(ProveBounded(grammar, stop));
  return grammar;
}

}  // namespace plimsoll::worker
