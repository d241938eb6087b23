#include "worker/text/schema/schema_writer.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/grammar/json_grammar.h"
#include "worker/text/grammar/regex_grammar.h"
#include "worker/text/schema/object_writer.h"

namespace plimsoll::worker {
namespace {

using Expr = GrammarBuilder::Expr;

// White space before or after a text in a frame.
constexpr int64_t kMaxFrameSpace = 4;

class SchemaWriter {
 public:
  SchemaWriter(const SchemaPlan& plan, SchemaPlanner& planner,
               const SchemaOptions& options, StopCheck stop)
      : plan_(plan),
        planner_(planner),
        options_(options),
        builder_(stop),
        json_(builder_, options.any_spelling,
              planner.index().IntegersArePlain()),
        rules_(plan.values.size()) {}

  absl::StatusOr<std::shared_ptr<const Grammar>> Write(
      const SchemaFrame& frame) {
    for (const GrammarMark& mark : frame.marks) builder_.AddMark(mark);
    int32_t root = 0;
    if (frame.trigger.empty()) {
      root = RuleOf(0);
    } else {
      ASSIGN_OR_RETURN(const Expr value, FramedValue(frame));
      const Expr framed = Framed(value, frame);
      root = builder_.NewRule("#");
      builder_.Define(root, framed);
    }
    while (!left_.empty() && builder_.ok()) {
      const PlanNumber number = left_.back();
      left_.pop_back();
      ASSIGN_OR_RETURN(const Expr value, Value(number));
      builder_.Define(*rules_[static_cast<size_t>(number)], value);
    }
    return builder_.Build(root);
  }

 private:
  Expr FrameSpace() {
    return builder_.Repeat(builder_.Chars({{' ', ' '}, {'\n', '\n'}}), 0,
                           kMaxFrameSpace);
  }

  // The schema's text, or one of them in what stands around it.
  absl::StatusOr<Expr> FramedValue(const SchemaFrame& frame) {
    if (frame.choices.empty()) return builder_.Rule(RuleOf(0));
    const std::vector<ArrayPlan>& arrays = plan_.values[0].arrays;
    if (arrays.size() != 1 || arrays[0].prefix.size() != frame.choices.size()) {
      return absl::InvalidArgumentError(
          "the schemas of several texts exclude one another");
    }
    std::vector<Expr> texts;
    for (size_t i = 0; i < frame.choices.size(); ++i) {
      std::vector<Expr> parts;
      for (const std::vector<std::string>& part : frame.choices[i].before) {
        parts.push_back(FramePart(part));
      }
      parts.push_back(Later(arrays[0].prefix[i]));
      parts.push_back(builder_.Marked(frame.choices[i].after));
      texts.push_back(builder_.Sequence(std::move(parts)));
    }
    return AsRule(builder_.Choice(std::move(texts)));
  }
  Expr FramePart(const std::vector<std::string>& texts) {
    if (texts.empty()) {
      return builder_.Repeat(
          builder_.Chars({{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}), 1, kMaxFrameId);
    }
    std::vector<Expr> choices;
    for (const std::string& text : texts) {
      choices.push_back(builder_.Marked(text));
    }
    return builder_.Choice(std::move(choices));
  }

  // What may follow a trigger: one text or several.
  Expr AfterOpen(Expr value, const SchemaFrame& frame) {
    const Expr space = FrameSpace();
    const Expr inside = frame.has_space ? space : builder_.Literal("");
    if (frame.has_space || !frame.close.empty()) {
      value = AsRule(builder_.Sequence(
          {inside, value, inside, builder_.Marked(frame.close)}));
    }
    if (frame.repeats) {
      const Expr more =
          builder_.Sequence({space, builder_.Marked(frame.trigger), value});
      value = AsRule(builder_.Sequence(
          {value, builder_.Repeat(more, 0, GrammarBuilder::kUnlimited)}));
    }
    if (frame.outer_close.empty()) return value;
    return AsRule(builder_.Sequence(
        {value, builder_.Optional(builder_.Sequence(
                    {space, builder_.Marked(frame.outer_close)}))}));
  }

  Expr Framed(Expr value, const SchemaFrame& frame) {
    value = AfterOpen(value, frame);
    if (!frame.is_first) return builder_.AfterTrigger(frame.trigger, value);
    const Expr first = AsRule(
        builder_.Sequence({FrameSpace(), builder_.Marked(frame.outer_open),
                           builder_.Marked(frame.trigger), value}));
    if (frame.passage_close.empty()) return first;
    const Expr passage = builder_.AfterTrigger(frame.passage_close, first,
                                               /*is_needed=*/true);
    if (frame.begins_passage) return passage;
    return builder_.Choice(
        {first,
         builder_.Sequence(
             {FrameSpace(), builder_.Marked(frame.passage_open), passage})});
  }

  int32_t RuleOf(PlanNumber number) {
    std::optional<int32_t>& rule = rules_[static_cast<size_t>(number)];
    if (!rule) {
      rule = builder_.NewRule(PathOf(number));
      left_.push_back(number);
    }
    return *rule;
  }
  std::string PathOf(PlanNumber number) const {
    return planner_.PathOf(plan_.values[static_cast<size_t>(number)].term);
  }
  // Values are written later, so that a deep schema does not make this
  // recursion deep.
  Expr Later(PlanNumber number) {
    if (plan_.values[static_cast<size_t>(number)].is_any) return json_.Any();
    return builder_.Rule(RuleOf(number));
  }
  Expr AsRule(Expr definition) {
    const int32_t rule = builder_.NewRule("part");
    builder_.Define(rule, definition);
    return builder_.Rule(rule);
  }

  absl::StatusOr<Expr> Value(PlanNumber number) {
    const ValuePlan& plan = plan_.values[static_cast<size_t>(number)];
    if (plan.is_any) return json_.Any();
    std::vector<Expr> choices;
    if (plan.may_be_null) choices.push_back(json_.Null());
    if (plan.may_be_true) choices.push_back(builder_.Literal("true"));
    if (plan.may_be_false) choices.push_back(builder_.Literal("false"));
    for (const StringShape& one : plan.strings) {
      RETURN_IF_ERROR(AddString(one, choices));
    }
    for (const NumberShape& one : plan.numbers) {
      RETURN_IF_ERROR(AddNumber(one, choices));
    }
    for (const ArrayPlan& one : plan.arrays) {
      choices.push_back(one.states.empty() ? Array(one) : ItemMachine(one));
    }
    for (const ObjectPlan& one : plan.objects) {
      ASSIGN_OR_RETURN(const Expr object, Object(one, PathOf(number)));
      choices.push_back(object);
    }
    return builder_.Choice(std::move(choices));
  }

  absl::Status AddNumber(const NumberShape& shape, std::vector<Expr>& choices) {
    if (shape.values) {
      for (const Decimal& value : *shape.values) {
        choices.push_back(builder_.Literal(NumberText(value)));
      }
      return absl::OkStatus();
    }
    if (TextSets::IsPlain(shape)) {
      choices.push_back(shape.is_integer ? json_.Integer() : json_.Number());
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const TextSet* set, planner_.sets().Of(shape));
    choices.push_back(WriteAutomaton(
        set->automaton, *set->classes,
        [this](const CodePoints& one) { return builder_.Chars(one); },
        builder_));
    return absl::OkStatus();
  }

  absl::Status AddString(const StringShape& shape, std::vector<Expr>& choices) {
    if (shape.values) {
      for (const std::string& value : *shape.values) {
        choices.push_back(json_.Text(value));
      }
      return absl::OkStatus();
    }
    const bool has_length =
        shape.min > 0 || shape.max != GrammarBuilder::kUnlimited;
    if (!planner_.sets().IsPlain(shape)) {
      ASSIGN_OR_RETURN(const TextSet* set, planner_.sets().Of(shape));
      choices.push_back(Quoted(WriteAutomaton(
          set->automaton, *set->classes,
          [this](const CodePoints& one) { return json_.StringChar(one); },
          builder_)));
    } else if (!shape.patterns.empty()) {
      const SchemaPattern& pattern =
          planner_.patterns().At(shape.patterns[0].pattern);
      choices.push_back(Quoted(AddRegex(
          pattern.tree,
          {.is_search = pattern.is_search,
           .chars =
               [this](const CodePoints& s) { return json_.StringChar(s); }},
          builder_)));
    } else if (has_length) {
      choices.push_back(json_.String(shape.min, shape.max));
    } else {
      choices.push_back(json_.StringExcept(shape.excluded));
    }
    return absl::OkStatus();
  }

  Expr Quoted(Expr inner) {
    const Expr quote = builder_.Literal("\"");
    return builder_.Sequence({quote, inner, quote});
  }

  Expr Array(const ArrayPlan& plan) {
    const auto n_prefix = static_cast<int64_t>(plan.prefix.size());
    const auto item = [&](int64_t i) {
      return Later(i < n_prefix ? plan.prefix[static_cast<size_t>(i)]
                                : plan.rest);
    };
    // This goes from the last item with a plan of its own to the first.
    const int64_t n_own = std::min(n_prefix, plan.max);
    const int64_t n_before = std::max<int64_t>(n_own, 1);
    Expr rest = builder_.Literal("");
    if (plan.max > n_before) {
      const int64_t most = plan.max == GrammarBuilder::kUnlimited
                               ? GrammarBuilder::kUnlimited
                               : plan.max - n_before;
      rest =
          builder_.Repeat(builder_.Sequence({json_.Comma(), Later(plan.rest)}),
                          std::max<int64_t>(plan.min - n_before, 0), most);
    }
    for (int64_t i = n_own - 1; i >= 1; --i) {
      Expr more = builder_.Sequence({json_.Comma(), item(i), rest});
      if (i >= plan.min) more = builder_.Optional(more);
      rest = AsRule(more);
    }
    std::optional<Expr> values;
    if (plan.max > 0) values = builder_.Sequence({item(0), rest});
    return json_.Array(values, plan.min == 0);
  }

  // Items by a machine; what follows a state is a rule.
  Expr ItemMachine(const ArrayPlan& plan) {
    std::vector<int32_t> rests;
    for (size_t i = 0; i < plan.states.size(); ++i) {
      rests.push_back(builder_.NewRule("items"));
    }
    const auto go_on = [&](const ArrayPlan::Edge& edge) {
      return builder_.Sequence(
          {Later(edge.item),
           builder_.Rule(rests[static_cast<size_t>(edge.next)])});
    };
    for (size_t i = 0; i < plan.states.size(); ++i) {
      std::vector<Expr> choices;
      if (plan.states[i].accepts) choices.push_back(builder_.Literal(""));
      for (const ArrayPlan::Edge& edge : plan.states[i].edges) {
        choices.push_back(builder_.Sequence({json_.Comma(), go_on(edge)}));
      }
      builder_.Define(rests[i], builder_.Choice(std::move(choices)));
    }
    std::optional<Expr> items;
    if (!plan.states[0].edges.empty()) {
      std::vector<Expr> first;
      for (const ArrayPlan::Edge& edge : plan.states[0].edges) {
        first.push_back(go_on(edge));
      }
      items = builder_.Choice(std::move(first));
    }
    return json_.Array(items, plan.states[0].accepts);
  }

  absl::StatusOr<Expr> Object(const ObjectPlan& plan, const std::string& path) {
    ObjectParts parts = {.min = plan.min, .max = plan.max};
    for (const ObjectPlan::Named& one : plan.named) {
      parts.named.push_back(
          {AsRule(json_.Member(json_.Text(one.name), Later(one.value))),
           one.is_required});
    }
    for (const bool is_last : {false, true}) {
      std::vector<Expr> members;
      for (const ObjectPlan::Others& one : is_last ? plan.last : plan.others) {
        std::vector<Expr> names;
        for (const StringShape& shape : one.names) {
          RETURN_IF_ERROR(AddString(shape, names));
        }
        members.push_back(
            json_.Member(builder_.Choice(std::move(names)), Later(one.value)));
      }
      if (members.empty()) continue;
      (is_last ? parts.last : parts.other) =
          AsRule(builder_.Choice(std::move(members)));
    }
    return WriteObject(parts, options_.any_order, path, json_, builder_);
  }

  const SchemaPlan& plan_;
  SchemaPlanner& planner_;
  const SchemaOptions& options_;
  GrammarBuilder builder_;
  JsonGrammar json_;
  std::vector<std::optional<int32_t>> rules_;
  std::vector<PlanNumber> left_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Grammar>> WriteSchema(
    const SchemaPlan& plan, SchemaPlanner& planner,
    const SchemaOptions& options, StopCheck stop, const SchemaFrame& frame) {
  return SchemaWriter(plan, planner, options, stop).Write(frame);
}

std::string NumberText(const Decimal& number) {
  const auto plain =
      PlainText(number, JsonGrammar::kMaxDigits, JsonGrammar::kMaxDigits);
  if (plain) return *plain;
  const std::string rest = number.digits.substr(1);
  return absl::StrCat(number.is_negative ? "-" : "", number.digits.substr(0, 1),
                      rest.empty() ? "" : ".", rest, "e",
                      number.whole_digits() - 1);
}

}  // namespace plimsoll::worker
