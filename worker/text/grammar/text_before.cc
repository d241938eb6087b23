#include "worker/text/grammar/text_before.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace plimsoll::worker {
namespace {

using Expr = GrammarBuilder::Expr;
using Symbol = GrammarBuilder::Symbol;

std::vector<Symbol> BytesOf(absl::string_view text) {
  std::vector<Symbol> symbols;
  symbols.reserve(text.size());
  for (const char byte : text) symbols.push_back(static_cast<uint8_t>(byte));
  return symbols;
}

// Finds the first of several words in a text. Source: Aho and Corasick,
// "Efficient string matching", 1975.
class WordFinder {
 public:
  struct State {
    std::vector<size_t> next;  // [symbol]; a state
    bool is_end = false;       // the trigger ends here
    bool is_never = false;     // another word ends here
  };

  explicit WordFinder(size_t n_symbols)
      : n_symbols_(n_symbols), states_(1, NewState()) {}

  void Add(const std::vector<Symbol>& word, bool is_trigger) {
    size_t at = 0;
    for (const Symbol symbol : word) {
      size_t next = states_[at].next[symbol];
      if (next == kNone) {
        next = states_.size();
        states_[at].next[symbol] = next;
        states_.push_back(NewState());
      }
      at = next;
    }
    (is_trigger ? states_[at].is_end : states_[at].is_never) = true;
  }

  // Sets the states after symbols that no word goes on with. The first state
  // is 0.
  const std::vector<State>& Finish() {
    std::vector<size_t> borders(states_.size(), 0);
    std::vector<size_t> reached = {0};
    for (size_t i = 0; i < reached.size(); ++i) {
      const size_t at = reached[i];
      const size_t border = borders[at];
      states_[at].is_end |= states_[border].is_end;
      states_[at].is_never |= states_[border].is_never;
      for (Symbol symbol = 0; symbol < n_symbols_; ++symbol) {
        size_t& next = states_[at].next[symbol];
        const size_t shorter = at == 0 ? 0 : states_[border].next[symbol];
        if (next == kNone) {
          next = shorter;
        } else {
          borders[next] = shorter;
          reached.push_back(next);
        }
      }
    }
    return states_;
  }

 private:
  static constexpr size_t kNone = ~size_t{0};

  State NewState() const {
    return {.next = std::vector<size_t>(n_symbols_, kNone)};
  }

  const size_t n_symbols_;
  std::vector<State> states_;
};

}  // namespace

Expr TextBefore(const TextEnd& end, Expr after, GrammarBuilder& builder) {
  const std::vector<Symbol> trigger = builder.SymbolsOf(end.trigger);
  const std::vector<Symbol> spelled = BytesOf(end.trigger);
  WordFinder finder(builder.n_symbols());
  for (const std::string& word : end.never) {
    finder.Add(BytesOf(word), /*is_trigger=*/false);
  }
  if (trigger != spelled) finder.Add(spelled, /*is_trigger=*/false);
  finder.Add(trigger, /*is_trigger=*/true);
  const std::vector<WordFinder::State>& states = finder.Finish();
  const auto is_open = [](const WordFinder::State& state) {
    return !state.is_end && !state.is_never;
  };
  std::vector<int32_t> rules(states.size(), 0);
  for (size_t i = 0; i < states.size(); ++i) {
    if (is_open(states[i])) rules[i] = builder.NewRule("text");
  }
  for (size_t i = 0; i < states.size(); ++i) {
    if (!is_open(states[i])) continue;
    std::map<size_t, std::vector<Symbol>> ways;
    for (Symbol symbol = 0; symbol < builder.n_symbols(); ++symbol) {
      const size_t to = states[i].next[symbol];
      const bool is_mark = symbol >= GrammarBuilder::kFirstMark;
      const bool may_stand =
          !is_mark || (end.has_marks && builder.IsFree(symbol));
      const bool is_of_trigger = is_mark && to != 0;
      if (may_stand || is_of_trigger) ways[to].push_back(symbol);
    }
    std::vector<Expr> choices;
    if (!end.is_needed) choices.push_back(builder.Literal(""));
    for (const auto& [to, symbols] : ways) {
      if (states[to].is_never && !states[to].is_end) continue;
      choices.push_back(builder.Sequence(
          {builder.AnyOf(symbols),
           states[to].is_end ? after : builder.Rule(rules[to])}));
    }
    builder.Define(rules[i], builder.Choice(std::move(choices)));
  }
  return builder.Rule(rules[0]);
}

}  // namespace plimsoll::worker
