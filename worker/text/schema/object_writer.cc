#include "worker/text/schema/object_writer.h"

#include <algorithm>
#include <compare>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/text/schema/plan.h"
#include "worker/text/schema/shapes/schema_index.h"

namespace plimsoll::worker {
namespace {

using Expr = GrammarBuilder::Expr;

// The schema's order and no counts: each rule is used by few others.
class InOrder {
 public:
  InOrder(const ObjectMembers& members, JsonGrammar& json,
          GrammarBuilder& builder)
      : members_(members), json_(json), builder_(builder) {}

  Expr Write() {
    // `members` are the members from one property on. `rest` is what may follow
    // the property before, with the comma.
    std::optional<Expr> members;
    Expr rest = builder_.Literal("");
    if (members_.other) {
      rest = AsRule(
          builder_.Repeat(builder_.Sequence({json_.Comma(), *members_.other}),
                          0, GrammarBuilder::kUnlimited));
      members = AsRule(builder_.Sequence({*members_.other, rest}));
    }
    bool may_be_empty = true;
    for (size_t i = members_.named.size(); i-- > 0 && builder_.ok();) {
      const ObjectMembers::Named& one = members_.named[i];
      std::vector<Expr> choices = {builder_.Sequence({one.member, rest})};
      if (one.is_required) {
        may_be_empty = false;
      } else if (members) {
        choices.push_back(*members);
      }
      members = AsRule(builder_.Choice(std::move(choices)));
      const Expr more = builder_.Sequence({json_.Comma(), *members});
      rest = AsRule(may_be_empty ? builder_.Optional(more) : more);
    }
    return json_.Object(members, may_be_empty);
  }

 private:
  // Makes a rule of an expression, so that it is stored once if it is used
  // twice.
  Expr AsRule(Expr definition) {
    const int32_t rule = builder_.NewRule("members");
    builder_.Define(rule, definition);
    return builder_.Rule(rule);
  }

  const ObjectMembers& members_;
  JsonGrammar& json_;
  GrammarBuilder& builder_;
};

// A machine that knows which members were there, and how many.
class ByStates {
 public:
  ByStates(const ObjectMembers& members, bool any_order, JsonGrammar& json,
           GrammarBuilder& builder)
      : members_(members),
        any_order_(any_order),
        most_(members.max != GrammarBuilder::kUnlimited ? members.max
                                                        : members.min),
        json_(json),
        builder_(builder) {
    for (size_t i = 0; i < members.named.size(); ++i) {
      if (any_order && members.named[i].is_required) needed_ |= Bit(i);
    }
  }

  absl::StatusOr<Expr> Write(const std::string& path) {
    if (any_order_ && members_.named.size() > kMaxAnyOrder) {
      return SchemaError(path,
                         absl::StrCat("an object has ", members_.named.size(),
                                      " properties; at most ", kMaxAnyOrder,
                                      " may come in any order"));
    }
    const State first = {};
    std::vector<Expr> begins;
    AddMembers(first, begins);
    while (!left_.empty() && builder_.ok()) {
      if (numbers_.size() > kMaxPlanStates) {
        return SchemaError(path,
                           absl::StrCat("its members together need more than ",
                                        kMaxPlanStates, " states"));
      }
      const auto [state, rule] = left_.back();
      left_.pop_back();
      std::vector<Expr> choices;
      if (MayEnd(state)) choices.push_back(builder_.Literal(""));
      std::vector<Expr> members;
      AddMembers(state, members);
      if (!members.empty()) {
        choices.push_back(builder_.Sequence(
            {json_.Comma(), builder_.Choice(std::move(members))}));
      }
      builder_.Define(rule, builder_.Choice(std::move(choices)));
    }
    std::optional<Expr> members;
    if (!begins.empty()) members = builder_.Choice(std::move(begins));
    return json_.Object(members, MayEnd(first));
  }

 private:
  // With any order 2^11 sets of members.
  static constexpr size_t kMaxAnyOrder = 11;

  struct State {
    uint64_t used = 0;  // the members, or how many of them are past
    int64_t count = 0;  // up to most_
    bool is_over = false;
    friend auto operator<=>(const State&, const State&) = default;
  };
  static uint64_t Bit(size_t i) { return uint64_t{1} << i; }

  // Whether a text may end, but for its count.
  bool HasAll(const State& state) const {
    if (any_order_) return (state.used & needed_) == needed_;
    for (size_t i = state.used; i < members_.named.size(); ++i) {
      if (members_.named[i].is_required) return false;
    }
    return true;
  }
  bool MayEnd(const State& state) const {
    if (state.count < members_.min) return false;
    return members_.last ? state.is_over : HasAll(state);
  }
  // Whether an accepting state can be reached, as far as counts say.
  bool IsHopeful(const State& state) const {
    if (state.is_over) return MayEnd(state);
    int64_t n_needed = members_.last ? 1 : 0;
    int64_t n_possible = n_needed;
    for (size_t i = 0; i < members_.named.size(); ++i) {
      const bool is_past =
          any_order_ ? (state.used & Bit(i)) != 0 : i < state.used;
      if (is_past) continue;
      ++n_possible;
      n_needed += members_.named[i].is_required ? 1 : 0;
    }
    if (members_.max != GrammarBuilder::kUnlimited &&
        state.count + n_needed > members_.max) {
      return false;
    }
    return members_.other || state.count + n_possible >= members_.min;
  }

  // Adds the ways to go on with a member.
  void AddMembers(const State& state, std::vector<Expr>& ways) {
    if (state.is_over) return;
    const auto add = [&](Expr member, uint64_t used, bool is_over) {
      const bool is_full = members_.max != GrammarBuilder::kUnlimited &&
                           state.count >= members_.max;
      const State after = {used, std::min(state.count + 1, most_), is_over};
      if (is_full || !IsHopeful(after)) return;
      ways.push_back(builder_.Sequence({member, Rest(after)}));
    };
    const size_t first = any_order_ ? 0 : state.used;
    for (size_t i = first; i < members_.named.size(); ++i) {
      const ObjectMembers::Named& one = members_.named[i];
      if (!any_order_) {
        add(one.member, i + 1, /*is_over=*/false);
        // Members that are not required may be left out.
        if (one.is_required) break;
      } else if ((state.used & Bit(i)) == 0) {
        add(one.member, state.used | Bit(i), /*is_over=*/false);
      }
    }
    const bool is_past = any_order_ || HasAll(state);
    const uint64_t used = any_order_ ? state.used : members_.named.size();
    if (is_past && members_.other)
      add(*members_.other, used, /*is_over=*/false);
    if (HasAll(state) && members_.last)
      add(*members_.last, used, /*is_over=*/true);
  }

  Expr Rest(const State& state) {
    const auto [found, is_new] = numbers_.try_emplace(state, 0);
    if (is_new) {
      found->second = builder_.NewRule("members");
      left_.emplace_back(state, found->second);
    }
    return builder_.Rule(found->second);
  }

  const ObjectMembers& members_;
  const bool any_order_;
  const int64_t most_;
  JsonGrammar& json_;
  GrammarBuilder& builder_;
  uint64_t needed_ = 0;
  std::map<State, int32_t> numbers_;
  std::vector<std::pair<State, int32_t>> left_;
};

}  // namespace

absl::StatusOr<Expr> WriteObject(const ObjectMembers& members,
                                 const std::string& path, JsonGrammar& json,
                                 GrammarBuilder& builder) {
  const auto n_required = std::count_if(
      members.named.begin(), members.named.end(),
      [](const ObjectMembers::Named& one) { return one.is_required; });
  const bool is_counted = members.min > n_required ||
                          members.max != GrammarBuilder::kUnlimited ||
                          members.last;
  const bool is_free =
      members.any_order && members.named.size() + (members.other ? 1 : 0) > 1;
  if (!is_counted && !is_free) return InOrder(members, json, builder).Write();
  return ByStates(members, is_free, json, builder).Write(path);
}

}  // namespace plimsoll::worker
