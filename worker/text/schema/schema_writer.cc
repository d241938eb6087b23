#include "worker/text/schema/schema_writer.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/grammar/frame_writer.h"
#include "worker/text/grammar/json_grammar.h"
#include "worker/text/grammar/regex_grammar.h"
#include "worker/text/schema/object_writer.h"
#include "worker/text/schema/shapes/schema_options.h"

namespace plimsoll::worker {
namespace {

using Expr = GrammarBuilder::Expr;

// A name with one of these could be taken for a part of a call.
constexpr char kNoName[] = "<>=,:(){}[]'\"\\ \t\r\n";

class SchemaWriter {
 public:
  SchemaWriter(const SchemaPlan& plan, SchemaPlanner& planner,
               const SchemaFrame& frame, StopCheck stop)
      : plan_(plan),
        planner_(planner),
        options_(planner.options()),
        frame_(frame),
        builder_(stop),
        json_(builder_, SpellingOf(options_, planner.index(), frame)),
        rules_(plan.values.size()) {}

  absl::StatusOr<std::shared_ptr<const Grammar>> Write() {
    for (const GrammarMark& mark : frame_.marks) builder_.AddMark(mark);
    if (const auto& members = frame_.spelling.members; members) {
      members_.emplace(builder_, members->list);
      if (members->strings) {
        strings_.emplace(builder_, JsonSpelling{.raw = members->strings});
      }
    }
    int32_t root = 0;
    if (frame_.IsEmpty()) {
      root = RuleOf(0);
    } else {
      ASSIGN_OR_RETURN(const Expr framed, Framed());
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
  // The values of a call's arguments have a spelling of their own.
  static JsonSpelling SpellingOf(const SchemaOptions& options,
                                 const SchemaIndex& index,
                                 const SchemaFrame& frame) {
    JsonSpelling spelling = frame.spelling.values;
    spelling.is_any = options.any_spelling;
    spelling.plain_integers = index.IntegersArePlain();
    return spelling;
  }

  // The schema's text, or several, in the frame.
  absl::StatusOr<Expr> Framed() {
    FrameWriter writer(frame_, builder_);
    if (frame_.choices.empty()) return writer.Write(builder_.Rule(RuleOf(0)));
    const std::vector<ArrayPlan>& arrays = plan_.values[0].arrays;
    if (arrays.size() != 1 ||
        arrays[0].prefix.size() != frame_.choices.size()) {
      return absl::InvalidArgumentError(
          "the schemas of several texts exclude one another");
    }
    std::vector<Expr> texts;
    for (size_t i = 0; i < frame_.choices.size(); ++i) {
      ASSIGN_OR_RETURN(const Expr text, Arguments(arrays[0].prefix[i],
                                                  frame_.choices[i].strings));
      texts.push_back(text);
    }
    return writer.Write(texts);
  }

  // A call's arguments, some of which are `strings`.
  absl::StatusOr<Expr> Arguments(PlanNumber number,
                                 const std::vector<std::string>& strings) {
    if (!frame_.spelling.members) return Later(number);
    const ValuePlan& plan = plan_.values[static_cast<size_t>(number)];
    const std::string path = PathOf(number);
    std::vector<Expr> choices;
    for (const ObjectPlan& object : plan.objects) {
      if (!object.last.empty()) {
        return SchemaError(path, "a member whose name is not listed is needed");
      }
      ObjectMembers given = {.min = object.min,
                             .max = object.max,
                             .any_order = options_.any_order};
      for (const ObjectPlan::Named& one : object.named) {
        const bool is_string = std::ranges::count(strings, one.name) > 0;
        ASSIGN_OR_RETURN(const Expr member, Argument(one, is_string, path));
        given.named.push_back({AsRule(member), one.is_required});
      }
      ASSIGN_OR_RETURN(const Expr text,
                       WriteObject(given, path, *members_, builder_));
      choices.push_back(text);
    }
    return builder_.Choice(std::move(choices));
  }

  absl::StatusOr<Expr> Argument(const ObjectPlan::Named& member, bool is_string,
                                const std::string& path) {
    const MemberSpelling& spelling = *frame_.spelling.members;
    if (member.name.empty() ||
        member.name.find_first_of(kNoName) != std::string::npos) {
      return SchemaError(path, absl::StrCat("a member's name cannot be '",
                                            absl::CEscape(member.name),
                                            "' in this model's calls"));
    }
    std::vector<Expr> parts = {LooseText(spelling.before_name, builder_),
                               builder_.Literal(member.name),
                               LooseText(spelling.after_name, builder_)};
    const ValuePlan& plan = plan_.values[static_cast<size_t>(member.value)];
    if (is_string && strings_) {
      std::vector<Expr> texts;
      for (const StringShape& one : plan.strings) {
        RETURN_IF_ERROR(AddString(one, *strings_, texts));
      }
      parts.push_back(builder_.Choice(std::move(texts)));
    } else {
      parts.push_back(Later(member.value));
      parts.push_back(LooseText(spelling.after_value, builder_));
    }
    parts.push_back(LooseText(spelling.after_member, builder_));
    return builder_.Sequence(std::move(parts));
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
    return planner_.index().PathOf(
        plan_.values[static_cast<size_t>(number)].term);
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
    if (plan.may_be_true) choices.push_back(json_.True());
    if (plan.may_be_false) choices.push_back(json_.False());
    for (const StringShape& one : plan.strings) {
      RETURN_IF_ERROR(AddString(one, json_, choices));
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

  // Adds the strings of a shape as `json` writes them.
  absl::Status AddString(const StringShape& shape, JsonGrammar& json,
                         std::vector<Expr>& choices) {
    if (shape.values) {
      for (const std::string& value : *shape.values) {
        choices.push_back(json.Text(value));
      }
      return absl::OkStatus();
    }
    const auto write_char = [&json](const CodePoints& set) {
      return json.StringChar(set);
    };
    const bool has_length =
        shape.min > 0 || shape.max != GrammarBuilder::kUnlimited;
    if (!planner_.sets().IsPlain(shape)) {
      ASSIGN_OR_RETURN(const TextSet* set, planner_.sets().Of(shape));
      choices.push_back(json.Quoted(
          WriteAutomaton(set->automaton, *set->classes, write_char, builder_)));
    } else if (!shape.patterns.empty()) {
      const SchemaPattern& pattern =
          planner_.patterns().At(shape.patterns[0].pattern);
      choices.push_back(json.Quoted(
          AddRegex(pattern.tree, {.match = pattern.match, .chars = write_char},
                   builder_)));
    } else if (has_length) {
      choices.push_back(json.String(shape.min, shape.max));
    } else if (shape.excluded.empty() || !json.spelling().raw) {
      choices.push_back(json.StringExcept(shape.excluded));
    } else {
      return absl::InvalidArgumentError(
          "strings that exclude texts cannot stand without quotes");
    }
    return absl::OkStatus();
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
    ObjectMembers given = {
        .min = plan.min, .max = plan.max, .any_order = options_.any_order};
    for (const ObjectPlan::Named& one : plan.named) {
      given.named.push_back(
          {AsRule(json_.Member(json_.Key(one.name), Later(one.value))),
           one.is_required});
    }
    for (const bool is_last : {false, true}) {
      std::vector<Expr> members;
      for (const ObjectPlan::Others& one : is_last ? plan.last : plan.others) {
        std::vector<Expr> names;
        for (const StringShape& shape : one.names) {
          // Raw strings cannot leave out the names that are listed.
          if (json_.spelling().raw && !shape.excluded.empty()) continue;
          RETURN_IF_ERROR(AddString(shape, json_, names));
        }
        if (names.empty()) continue;
        members.push_back(
            json_.Member(builder_.Choice(std::move(names)), Later(one.value)));
      }
      if (members.empty() && is_last && !plan.last.empty()) {
        return SchemaError(path, "a member whose name is not listed is needed");
      }
      if (members.empty()) continue;
      (is_last ? given.last : given.other) =
          AsRule(builder_.Choice(std::move(members)));
    }
    return WriteObject(given, path, json_, builder_);
  }

  const SchemaPlan& plan_;
  SchemaPlanner& planner_;
  const SchemaOptions& options_;
  const SchemaFrame& frame_;
  GrammarBuilder builder_;
  JsonGrammar json_;
  std::optional<JsonGrammar> members_;  // a call's arguments
  std::optional<JsonGrammar> strings_;  // those of them that are strings
  std::vector<std::optional<int32_t>> rules_;
  std::vector<PlanNumber> left_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Grammar>> WriteSchema(
    const SchemaPlan& plan, SchemaPlanner& planner, StopCheck stop,
    const SchemaFrame& frame) {
  return SchemaWriter(plan, planner, frame, stop).Write();
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
