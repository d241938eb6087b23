// Finds the plain text that may follow a state of a grammar.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "worker/text/grammar/grammar_state.h"

namespace plimsoll::worker {

std::optional<uint32_t> GrammarState::FindPlainRoom(State state,
                                                    PlainText::Kind kind,
                                                    PlainText::Position at,
                                                    uint32_t max) {
  if (at != PlainText::kStart) {
    state = AfterPlain(state, kind, at);
    if (state == kFree) return max;
    if (state == kDead || state == kMixed) return std::nullopt;
  }
  for (uint32_t n = 0; n < max; ++n) {
    const State after = AfterPlain(state, kind, PlainText::kStart);
    if (after == kMixed) return std::nullopt;
    if (after == kDead) return n;
    if (after == state || after == kFree) return max;
    state = after;
  }
  return max;
}

GrammarState::State GrammarState::AfterPlain(State state, PlainText::Kind kind,
                                             PlainText::Position at) {
  const State after = OneAfter(state, kind, at);
  return after == kSeveral ? FindFree({state, at}, kind) : after;
}

// The recursion is as deep as a character has bytes.
GrammarState::State GrammarState::OneAfter(State state, PlainText::Kind kind,
                                           PlainText::Position at) {
  const KnownPlain& known = states_[state].plain[kind];
  if (known.at == at) return known.after;
  ++n_places_;
  if (!MayLookAtPlain()) return kMixed;
  const State after = FindOneAfter(state, kind, at);
  if (MayLookAtPlain()) states_[state].plain[kind] = {at, 0, after};
  return after;
}

GrammarState::State GrammarState::FindOneAfter(State state,
                                               PlainText::Kind kind,
                                               PlainText::Position at) {
  const std::vector<PlainStep>& steps = grammar_->plain_steps[kind][at];
  if (steps.empty()) return kMixed;
  const auto is_dead = [&](const PlainStep& step) {
    return KnownByClass(state, step.by_class) == kDead;
  };
  // Mostly this is all there is to look at.
  const bool is_first_dead = is_dead(steps.front());
  for (const PlainStep& step : steps) {
    if (is_dead(step) != is_first_dead) return kMixed;
  }
  if (is_first_dead) return kDead;
  State all = kUnknown;
  for (const PlainStep& step : steps) {
    if (!MayLookAtPlain()) return kMixed;
    State after = NextByClass(state, step.by_class);
    if (after != kDead && step.after != PlainText::kStart) {
      after = OneAfter(after, kind, step.after);
    }
    if (after == kDead || after == kMixed) return kMixed;
    if (all == kUnknown) all = after;
    if (all != after || after == kSeveral) return kSeveral;
  }
  return all;
}

GrammarState::State GrammarState::FindFree(FreePlace place,
                                           PlainText::Kind kind) {
  n_free_ = 0;
  const FreeSearch found = SearchFree(place, kind);
  if (found.end == FreeSearch::kAllFree) return kFree;
  for (const FreePlace& open : std::span(free_).first(n_free_)) {
    KnownPlain& known = states_[open.state].plain[kind];
    known.open = 0;
    // What is open leads to the place that is not free. Where one state
    // follows, some characters may be possible.
    if (found.end == FreeSearch::kNotFree && known.at == open.at &&
        known.after == kSeveral) {
      known.after = kMixed;
    }
  }
  return kMixed;
}

// Tarjan's search for strongly connected components. Places are free together
// if none of their component leads out of it but to places that are free.
// Source: Tarjan, "Depth-first search and linear graph algorithms", 1972.
GrammarState::FreeSearch GrammarState::SearchFree(FreePlace place,
                                                  PlainText::Kind kind) {
  const State after = OneAfter(place.state, kind, place.at);
  if (after == kFree) return {FreeSearch::kAllFree, n_free_};
  if (!MayLookAtPlain()) return {FreeSearch::kGaveUp, 0};
  if (after == kDead || after == kMixed || n_free_ == kMaxFreeStates) {
    return {FreeSearch::kNotFree, 0};
  }
  const size_t number = n_free_;
  size_t lowest = number;  // open place that is reached
  free_[n_free_++] = place;
  states_[place.state].plain[kind].open = static_cast<uint16_t>(n_free_);
  const auto follow = [&](FreePlace next) {
    const KnownPlain& known = states_[next.state].plain[kind];
    if (known.at == next.at && known.open != 0) {
      lowest = std::min(lowest, size_t{known.open} - 1);
      return FreeSearch::kAllFree;
    }
    const FreeSearch search = SearchFree(next, kind);
    lowest = std::min(lowest, search.lowest);
    return search.end;
  };
  if (after != kSeveral) {
    const FreeSearch::End end = follow({after, PlainText::kStart});
    if (end != FreeSearch::kAllFree) return {end, 0};
  } else {
    for (const PlainStep& step : grammar_->plain_steps[kind][place.at]) {
      const State next = NextByClass(place.state, step.by_class);
      if (!MayLookAtPlain()) return {FreeSearch::kGaveUp, 0};
      if (next == kDead) return {FreeSearch::kNotFree, 0};
      const FreeSearch::End end = follow({next, step.after});
      if (end != FreeSearch::kAllFree) return {end, 0};
    }
  }
  if (lowest == number) RememberFree(kind, number);
  return {FreeSearch::kAllFree, lowest};
}

void GrammarState::RememberFree(PlainText::Kind kind, size_t first) {
  for (size_t i = first; i < n_free_; ++i) {
    states_[free_[i].state].plain[kind] = {free_[i].at, 0, kFree};
  }
  n_free_ = first;
}

}  // namespace plimsoll::worker
