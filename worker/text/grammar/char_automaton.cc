#include "worker/text/grammar/char_automaton.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/stop_counter.h"

namespace plimsoll::worker {
namespace {

using Expr = GrammarBuilder::Expr;

// Beyond this many looks at states, equal ones are not looked for.
constexpr size_t kMaxReduceSteps = 1 << 20;
// States are written into one another up to this depth.
constexpr int kMaxInlineDepth = 32;

absl::Status TooLarge() {
  return absl::InvalidArgumentError(
      absl::StrCat("it is too large: its automaton has more than ",
                   CharAutomaton::kMaxStates, " states"));
}

// Marks the states that lead to an accepting one.
std::vector<bool> Alive(const CharAutomaton& automaton) {
  const size_t n = automaton.size();
  std::vector<std::vector<int32_t>> before(n);
  std::vector<int32_t> left;
  std::vector<bool> alive(automaton.accepts);
  for (size_t i = 0; i < n; ++i) {
    const auto state = static_cast<int32_t>(i);
    if (alive[i]) left.push_back(state);
    for (size_t c = 0; c < automaton.n_classes; ++c) {
      const int32_t to = automaton.Next(state, c);
      if (to >= 0) before[static_cast<size_t>(to)].push_back(state);
    }
  }
  while (!left.empty()) {
    const auto at = static_cast<size_t>(left.back());
    left.pop_back();
    for (const int32_t from : before[at]) {
      if (alive[static_cast<size_t>(from)]) continue;
      alive[static_cast<size_t>(from)] = true;
      left.push_back(from);
    }
  }
  return alive;
}

// Numbers the groups of states that allow the same texts; dead states have
// group -1. Source: Moore's algorithm.
std::vector<int32_t> Groups(const CharAutomaton& automaton,
                            const std::vector<bool>& alive) {
  const size_t n = automaton.size();
  std::vector<int32_t> group(n, -1);
  for (size_t i = 0; i < n; ++i) {
    if (alive[i]) group[i] = automaton.accepts[i] ? 1 : 0;
  }
  size_t n_groups = 0;
  for (size_t n_steps = 0; n_steps < kMaxReduceSteps; n_steps += n) {
    std::map<std::vector<int32_t>, int32_t> numbers;
    std::vector<int32_t> refined(n, -1);
    for (size_t i = 0; i < n; ++i) {
      if (!alive[i]) continue;
      std::vector<int32_t> key = {group[i]};
      for (size_t c = 0; c < automaton.n_classes; ++c) {
        const int32_t to = automaton.Next(static_cast<int32_t>(i), c);
        key.push_back(to < 0 ? -1 : group[static_cast<size_t>(to)]);
      }
      refined[i] =
          numbers.try_emplace(std::move(key), numbers.size()).first->second;
    }
    group = std::move(refined);
    if (numbers.size() == n_groups) return group;
    n_groups = numbers.size();
  }
  int32_t number = 0;
  for (size_t i = 0; i < n; ++i) {
    if (alive[i]) group[i] = number++;
  }
  return group;
}

class AutomatonWriter {
 public:
  AutomatonWriter(const CharAutomaton& automaton, const CharKinds& classes,
                  const std::function<Expr(const CodePoints&)>& chars,
                  GrammarBuilder& builder)
      : automaton_(automaton),
        classes_(classes),
        chars_(chars),
        builder_(builder),
        rules_(automaton.size()),
        n_uses_(automaton.size(), 0) {
    for (size_t i = 0; i < automaton.size(); ++i) {
      for (const auto& [to, set] : Moves(static_cast<int32_t>(i))) {
        ++n_uses_[static_cast<size_t>(to)];
      }
    }
  }

  Expr Write() {
    const Expr all = State(0, kMaxInlineDepth);
    while (!left_.empty() && builder_.ok()) {
      const int32_t state = left_.back();
      left_.pop_back();
      builder_.Define(*rules_[static_cast<size_t>(state)], Body(state, 0));
    }
    return all;
  }

 private:
  // Where a state goes, and with which code points.
  std::map<int32_t, CodePoints> Moves(int32_t state) const {
    std::map<int32_t, CodePoints> moves;
    for (size_t c = 0; c < automaton_.n_classes; ++c) {
      const int32_t to = automaton_.Next(state, c);
      if (to < 0) continue;
      const CodePoints& members = classes_.Members(c);
      CodePoints& set = moves[to];
      set.insert(set.end(), members.begin(), members.end());
    }
    return moves;
  }

  Expr State(int32_t state, int depth) {
    const auto at = static_cast<size_t>(state);
    if (n_uses_[at] == 1 && depth < kMaxInlineDepth) return Body(state, depth);
    if (!rules_[at]) {
      rules_[at] = builder_.NewRule("text");
      left_.push_back(state);
    }
    return builder_.Rule(*rules_[at]);
  }

  Expr Body(int32_t state, int depth) {
    std::vector<Expr> choices;
    if (automaton_.accepts[static_cast<size_t>(state)]) {
      choices.push_back(builder_.Literal(""));
    }
    for (const auto& [to, set] : Moves(state)) {
      choices.push_back(
          builder_.Sequence({chars_(Normalized(set)), State(to, depth + 1)}));
    }
    return builder_.Choice(std::move(choices));
  }

  const CharAutomaton& automaton_;
  const CharKinds& classes_;
  const std::function<Expr(const CodePoints&)>& chars_;
  GrammarBuilder& builder_;
  std::vector<std::optional<int32_t>> rules_;
  std::vector<int> n_uses_;
  std::vector<int32_t> left_;
};

}  // namespace

CharKinds::CharKinds(const std::vector<CodePoints>& sets) {
  std::vector<CodePoints> all;
  all.reserve(sets.size());
  for (const CodePoints& set : sets) all.push_back(Normalized(set));
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::lexicographical_compare(
        a.begin(), a.end(), b.begin(), b.end(), [](auto x, auto y) {
          return std::pair(x.first, x.last) < std::pair(y.first, y.last);
        });
  });
  firsts_ = {0, 0xD800, 0xE000};
  for (const CodePoints& set : all) {
    for (const CodePointRange& range : set) {
      firsts_.push_back(range.first);
      if (range.last < kMaxCodePoint) firsts_.push_back(range.last + 1);
    }
  }
  std::sort(firsts_.begin(), firsts_.end());
  firsts_.erase(std::unique(firsts_.begin(), firsts_.end()), firsts_.end());
  // For each interval, the sets that it lies in.
  std::vector<std::vector<uint32_t>> within(firsts_.size());
  for (uint32_t i = 0; i < all.size(); ++i) {
    if (i > 0 && std::equal(all[i].begin(), all[i].end(), all[i - 1].begin(),
                            all[i - 1].end(), [](auto x, auto y) {
                              return x.first == y.first && x.last == y.last;
                            })) {
      continue;
    }
    for (const CodePointRange& range : all[i]) {
      auto at = std::lower_bound(firsts_.begin(), firsts_.end(), range.first);
      for (; at != firsts_.end() && *at <= range.last; ++at) {
        within[static_cast<size_t>(at - firsts_.begin())].push_back(i);
      }
    }
  }
  std::map<std::vector<uint32_t>, size_t> numbers;
  for (size_t i = 0; i < firsts_.size(); ++i) {
    const uint32_t first = firsts_[i];
    const uint32_t last =
        i + 1 < firsts_.size() ? firsts_[i + 1] - 1 : kMaxCodePoint;
    const auto [found, is_new] =
        numbers.try_emplace(within[i], members_.size());
    if (is_new) members_.emplace_back();
    numbers_.push_back(found->second);
    if (first != 0xD800) members_[found->second].push_back({first, last});
  }
}

size_t CharKinds::Of(uint32_t code_point) const {
  const auto after =
      std::upper_bound(firsts_.begin(), firsts_.end(), code_point);
  return numbers_[static_cast<size_t>(after - firsts_.begin()) - 1];
}

std::vector<bool> CharKinds::Within(const CodePoints& set) const {
  std::vector<bool> within(size(), false);
  for (const CodePointRange& range : Normalized(set)) {
    auto at = std::lower_bound(firsts_.begin(), firsts_.end(), range.first);
    for (; at != firsts_.end() && *at <= range.last; ++at) {
      within[numbers_[static_cast<size_t>(at - firsts_.begin())]] = true;
    }
  }
  return within;
}

int32_t CharAutomaton::AddState(bool is_accepting) {
  accepts.push_back(is_accepting);
  next.resize(next.size() + n_classes, kDead);
  return static_cast<int32_t>(accepts.size()) - 1;
}

bool IsIn(absl::string_view text, const CharAutomaton& automaton,
          const CharKinds& classes) {
  if (automaton.is_empty()) return false;
  int32_t state = 0;
  while (!text.empty() && state >= 0) {
    const auto c = TakeCodePoint(text);
    if (!c) return false;
    state = automaton.Next(state, classes.Of(*c));
  }
  return state >= 0 && automaton.accepts[static_cast<size_t>(state)];
}

CharAutomaton WordsAutomaton(const std::vector<std::string>& words,
                             const CharKinds& classes) {
  CharAutomaton trie = {.n_classes = classes.size()};
  trie.AddState(/*is_accepting=*/false);
  for (absl::string_view word : words) {
    int32_t state = 0;
    while (!word.empty()) {
      const auto c = TakeCodePoint(word);
      if (!c) break;
      const size_t one = classes.Of(*c);
      if (trie.Next(state, one) == CharAutomaton::kDead) {
        const int32_t added = trie.AddState(/*is_accepting=*/false);
        trie.Next(state, one) = added;
      }
      state = trie.Next(state, one);
    }
    trie.accepts[static_cast<size_t>(state)] = true;
  }
  return trie;
}

absl::StatusOr<CharAutomaton> LengthAutomaton(int64_t min, int64_t max,
                                              const CharKinds& classes) {
  const bool is_limited = max != GrammarBuilder::kUnlimited;
  const int64_t n = is_limited ? max : min;
  if (n >= static_cast<int64_t>(CharAutomaton::kMaxStates)) return TooLarge();
  CharAutomaton chain = {.n_classes = classes.size()};
  for (int64_t i = 0; i <= n; ++i) chain.AddState(i >= min);
  for (int64_t i = 0; i <= n; ++i) {
    const int64_t at_end = is_limited ? CharAutomaton::kDead : i;
    const int64_t to = i < n ? i + 1 : at_end;
    for (size_t c = 0; c < classes.size(); ++c) {
      chain.Next(static_cast<int32_t>(i), c) = static_cast<int32_t>(to);
    }
  }
  return chain;
}

absl::StatusOr<CharAutomaton> Intersect(
    const std::vector<AutomatonOperand>& operands, size_t n_classes,
    StopCheck stop) {
  CharAutomaton all = {.n_classes = n_classes};
  std::map<std::vector<int32_t>, int32_t> numbers;
  std::vector<std::vector<int32_t>> states;
  const auto number_of = [&](std::vector<int32_t> state) {
    const auto [found, is_new] =
        numbers.try_emplace(state, static_cast<int32_t>(states.size()));
    if (is_new) {
      bool accepts = true;
      for (size_t i = 0; i < operands.size(); ++i) {
        const bool is_in =
            state[i] >= 0 &&
            operands[i].automaton.accepts[static_cast<size_t>(state[i])];
        accepts = accepts && is_in != operands[i].is_negated;
      }
      all.AddState(accepts);
      states.push_back(std::move(state));
    }
    return found->second;
  };
  std::vector<int32_t> first;
  for (const AutomatonOperand& operand : operands) {
    if (operand.automaton.is_empty() && !operand.is_negated) {
      return CharAutomaton{.n_classes = n_classes};
    }
    first.push_back(operand.automaton.is_empty() ? CharAutomaton::kDead : 0);
  }
  number_of(std::move(first));
  StopCounter counter(stop);
  for (size_t i = 0; i < states.size(); ++i) {
    if (states.size() > CharAutomaton::kMaxStates) return TooLarge();
    RETURN_IF_ERROR(
        counter.Spend(static_cast<int64_t>(n_classes * operands.size())));
    for (size_t c = 0; c < n_classes; ++c) {
      std::vector<int32_t> after = states[i];
      bool is_dead = false;
      for (size_t k = 0; k < operands.size() && !is_dead; ++k) {
        if (after[k] >= 0) after[k] = operands[k].automaton.Next(after[k], c);
        is_dead = after[k] < 0 && !operands[k].is_negated;
      }
      if (is_dead) continue;
      const int32_t to = number_of(std::move(after));
      all.Next(static_cast<int32_t>(i), c) = to;
    }
  }
  return Reduced(all);
}

CharAutomaton Reduced(const CharAutomaton& automaton) {
  CharAutomaton out = {.n_classes = automaton.n_classes};
  if (automaton.is_empty()) return out;
  const std::vector<bool> alive = Alive(automaton);
  if (!alive[0]) return out;
  const std::vector<int32_t> group = Groups(automaton, alive);
  // The first state's group comes first.
  std::vector<int32_t> number(automaton.size(), -1);
  std::vector<int32_t> of_group(automaton.size(), -1);
  std::vector<int32_t> examples;
  const auto number_of = [&](int32_t state) {
    int32_t& known =
        of_group[static_cast<size_t>(group[static_cast<size_t>(state)])];
    if (known < 0) {
      known = out.AddState(automaton.accepts[static_cast<size_t>(state)]);
      examples.push_back(state);
    }
    return known;
  };
  number_of(0);
  for (size_t i = 0; i < examples.size(); ++i) {
    for (size_t c = 0; c < automaton.n_classes; ++c) {
      const int32_t to = automaton.Next(examples[i], c);
      if (to < 0 || !alive[static_cast<size_t>(to)]) continue;
      const int32_t target = number_of(to);
      out.Next(static_cast<int32_t>(i), c) = target;
    }
  }
  return out;
}

Expr WriteAutomaton(const CharAutomaton& automaton, const CharKinds& classes,
                    const std::function<Expr(const CodePoints&)>& chars,
                    GrammarBuilder& builder) {
  return AutomatonWriter(automaton, classes, chars, builder).Write();
}

}  // namespace plimsoll::worker
