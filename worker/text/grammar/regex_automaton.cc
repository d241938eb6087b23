#include "worker/text/grammar/regex_automaton.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/stop_counter.h"

namespace plimsoll::worker {
namespace {

using NodeKind = RegexNode::Kind;

constexpr size_t kMaxRegexPlaces = 1 << 15;

absl::Status TooManyPlaces(absl::string_view what, size_t most) {
  return absl::InvalidArgumentError(absl::StrCat(
      "it is too large: its automaton has more than ", most, " ", what));
}

// The places of a pattern and the ways between them. Source: Thompson, "Regular
// expression search algorithm", 1968.
class Places {
 public:
  explicit Places(const CharKinds& classes) : classes_(classes) {}

  enum class Op : uint8_t { kChar, kSplit, kBegin, kEnd, kMatch };
  struct Place {
    Op op;
    uint32_t next = 0;
    uint32_t other = 0;  // kSplit: the other way; kChar: the set
  };

  size_t n_classes() const { return classes_.size(); }
  bool is_full() const { return places_.size() > kMaxRegexPlaces; }
  const Place& At(uint32_t place) const { return places_[place]; }
  bool Fits(const Place& place, size_t one) const {
    return sets_[place.other][one];
  }

  uint32_t Add(Place place) {
    if (is_full()) return 0;
    places_.push_back(place);
    return static_cast<uint32_t>(places_.size()) - 1;
  }
  uint32_t AddChars(const CodePoints& set, uint32_t next) {
    sets_.push_back(classes_.Within(set));
    return Add({Op::kChar, next, static_cast<uint32_t>(sets_.size()) - 1});
  }
  // Any text, then `next`.
  uint32_t AddAnything(uint32_t next) {
    const uint32_t loop = Add({Op::kSplit, next, next});
    const uint32_t any = AddChars(Complement({}), loop);
    if (!is_full()) places_[loop].other = any;
    return loop;
  }

  // Adds a tree that goes on at `next`. The recursion is as deep as the tree.
  uint32_t AddTree(const RegexNode& node, uint32_t next) {
    if (is_full()) return 0;
    switch (node.kind) {
      case NodeKind::kChars:
        return AddChars(node.set, next);
      case NodeKind::kSequence:
        for (size_t i = node.parts.size(); i-- > 0;) {
          next = AddTree(node.parts[i], next);
        }
        return next;
      case NodeKind::kChoice: {
        uint32_t entry = AddTree(node.parts.back(), next);
        for (size_t i = node.parts.size() - 1; i-- > 0;) {
          const uint32_t one = AddTree(node.parts[i], next);
          entry = Add({Op::kSplit, one, entry});
        }
        return entry;
      }
      case NodeKind::kRepeat:
        return AddRepeat(node, next);
      case NodeKind::kBegin:
        return Add({Op::kBegin, next});
      case NodeKind::kEnd:
        return Add({Op::kEnd, next});
    }
    return next;
  }

 private:
  uint32_t AddRepeat(const RegexNode& node, uint32_t next) {
    const RegexNode& part = node.parts[0];
    uint32_t entry = next;
    if (node.max == GrammarBuilder::kUnlimited) {
      entry = Add({Op::kSplit, next, next});
      const uint32_t body = AddTree(part, entry);
      if (!is_full()) places_[entry].other = body;
    } else {
      for (int64_t i = node.min; i < node.max && !is_full(); ++i) {
        const uint32_t one = AddTree(part, entry);
        entry = Add({Op::kSplit, one, next});
      }
    }
    for (int64_t i = 0; i < node.min && !is_full(); ++i) {
      entry = AddTree(part, entry);
    }
    return entry;
  }

  const CharKinds& classes_;
  std::vector<Place> places_;
  std::vector<std::vector<bool>> sets_;
};

// Makes a deterministic automaton, whose states are sets of places.
class SubsetBuilder {
 public:
  using Set = std::vector<uint32_t>;
  using Op = Places::Op;

  // Where in the text a place is.
  struct Ends {
    bool is_begin = false;
    bool is_end = false;
  };

  SubsetBuilder(const Places& places, uint32_t entry, uint32_t absorbing,
                StopCheck stop)
      : places_(places),
        entry_(entry),
        absorbing_(absorbing),
        stop_(stop),
        out_{.n_classes = places.n_classes()} {}

  absl::StatusOr<CharAutomaton> Build() {
    // No later state is the first one: only there is the text's beginning.
    const Set first = Closure({entry_}, {.is_begin = true});
    out_.AddState(Accepts(first, {.is_begin = true}));
    sets_.push_back(first);
    for (size_t i = 0; i < sets_.size(); ++i) {
      if (sets_.size() > CharAutomaton::kMaxStates) {
        return TooManyPlaces("states", CharAutomaton::kMaxStates);
      }
      const bool is_absorbed =
          sets_[i].size() == 1 && sets_[i][0] == absorbing_;
      for (size_t c = 0; c < out_.n_classes; ++c) {
        if (is_absorbed) {
          // What matched goes on to match, whatever follows.
          const int32_t to = NumberOf({absorbing_});
          out_.Next(static_cast<int32_t>(i), c) = to;
          continue;
        }
        n_work_ += static_cast<int64_t>(sets_[i].size());
        RETURN_IF_ERROR(stop_.Spend(static_cast<int64_t>(sets_[i].size())));
        if (n_work_ > CharAutomaton::kMaxWork) {
          return TooManyPlaces("places at once", sets_[i].size());
        }
        Set moved;
        for (const uint32_t at : sets_[i]) {
          const Places::Place& place = places_.At(at);
          if (place.op == Op::kChar && places_.Fits(place, c)) {
            moved.push_back(place.next);
          }
        }
        if (moved.empty()) continue;
        const int32_t to = NumberOf(Closure(std::move(moved), {}));
        out_.Next(static_cast<int32_t>(i), c) = to;
      }
    }
    return Reduced(out_);
  }

 private:
  // The places that `left` leads to without a character. It keeps those where
  // the text may end.
  Set Closure(Set left, const Ends& at_ends) {
    std::vector<uint32_t> seen;
    const auto is_new = [&](uint32_t at) {
      if (at >= marks_.size()) marks_.resize(at + 1, 0);
      if (marks_[at] == mark_) return false;
      marks_[at] = mark_;
      return true;
    };
    ++mark_;
    Set kept;
    while (!left.empty()) {
      const uint32_t at = left.back();
      left.pop_back();
      if (!is_new(at)) continue;
      const Places::Place& place = places_.At(at);
      if (at == absorbing_) return {at};
      switch (place.op) {
        case Op::kChar:
        case Op::kMatch:
          kept.push_back(at);
          break;
        case Op::kSplit:
          left.push_back(place.next);
          left.push_back(place.other);
          break;
        case Op::kBegin:
          if (at_ends.is_begin) left.push_back(place.next);
          break;
        case Op::kEnd:
          kept.push_back(at);
          if (at_ends.is_end) left.push_back(place.next);
          break;
      }
    }
    std::sort(kept.begin(), kept.end());
    return kept;
  }

  // Whether the text may end here.
  bool Accepts(const Set& set, Ends at_ends) {
    at_ends.is_end = true;
    for (const uint32_t at : Closure(set, at_ends)) {
      if (at == absorbing_ || places_.At(at).op == Op::kMatch) return true;
    }
    return false;
  }

  int32_t NumberOf(Set set) {
    const auto [found, is_new] =
        numbers_.try_emplace(set, static_cast<int32_t>(sets_.size()));
    if (is_new) {
      out_.AddState(Accepts(set, {}));
      sets_.push_back(std::move(set));
    }
    return found->second;
  }

  const Places& places_;
  const uint32_t entry_;
  const uint32_t absorbing_;
  StopCounter stop_;
  int64_t n_work_ = 0;
  CharAutomaton out_;
  std::vector<Set> sets_;
  std::map<Set, int32_t> numbers_;
  std::vector<uint32_t> marks_;
  uint32_t mark_ = 0;
};

}  // namespace

void AppendSets(const RegexNode& tree, std::vector<CodePoints>& sets) {
  if (tree.kind == NodeKind::kChars) sets.push_back(tree.set);
  for (const RegexNode& part : tree.parts) AppendSets(part, sets);
}

absl::StatusOr<CharAutomaton> RegexAutomaton(const RegexNode& tree,
                                             RegexMatch match,
                                             const CharKinds& classes,
                                             StopCheck stop) {
  constexpr uint32_t kNone = ~uint32_t{0};
  Places places(classes);
  const bool is_search = match == RegexMatch::kAnywhere;
  const uint32_t end = places.Add({Places::Op::kMatch});
  const uint32_t after = is_search ? places.AddAnything(end) : end;
  uint32_t entry = places.AddTree(tree, after);
  if (is_search) entry = places.AddAnything(entry);
  if (places.is_full()) return TooManyPlaces("places", kMaxRegexPlaces);
  return SubsetBuilder(places, entry, is_search ? after : kNone, stop).Build();
}

}  // namespace plimsoll::worker
