#include "worker/text/grammar/plain_room.h"

#include <algorithm>
#include <span>

#include "worker/text/grammar/fit_vector.h"
#include "worker/text/grammar/grammar.h"
#include "worker/text/grammar/grammar_state.h"

namespace plimsoll::worker {
namespace {

static_assert(std::is_same_v<PlainRoomSearch::State, GrammarState::State>);

constexpr uint32_t kDead = GrammarState::kDead;

}  // namespace

void PlainRoomSearch::Clear(size_t n_states) {
  known_.assign(1, OfState());
  Fit(known_, n_states);
}

int64_t PlainRoomSearch::MemoryBytes() const {
  return static_cast<int64_t>(VectorBytes(known_));
}

bool PlainRoomSearch::MayLook(const GrammarState& grammar) const {
  return !grammar.is_plain_exhausted() && n_places_ <= kMaxPlaces;
}

std::optional<uint32_t> PlainRoomSearch::FindRoom(GrammarState& grammar,
                                                  Place place,
                                                  PlainText::Kind kind,
                                                  uint32_t max) {
  State state = place.state;
  if (place.at != PlainText::kStart) {
    state = After(grammar, state, kind, place.at);
    if (state == kFree) return max;
    if (state == kDead || state == kMixed) return std::nullopt;
  }
  for (uint32_t n = 0; n < max; ++n) {
    const State after = After(grammar, state, kind, PlainText::kStart);
    if (after == kMixed) return std::nullopt;
    if (after == kDead) return n;
    if (after == state || after == kFree) return max;
    state = after;
  }
  return max;
}

PlainRoomSearch::State PlainRoomSearch::After(GrammarState& grammar,
                                              State state, PlainText::Kind kind,
                                              PlainText::Position at) {
  const State after = OneAfter(grammar, state, kind, at);
  return after == kSeveral ? FindFree(grammar, {state, at}, kind) : after;
}

// The recursion is as deep as a character has bytes.
PlainRoomSearch::State PlainRoomSearch::OneAfter(GrammarState& grammar,
                                                 State state,
                                                 PlainText::Kind kind,
                                                 PlainText::Position at) {
  const Known& known = known_[state][kind];
  if (known.at == at) return known.after;
  ++n_places_;
  if (!MayLook(grammar)) return kMixed;
  const State after = FindOneAfter(grammar, state, kind, at);
  if (MayLook(grammar)) known_[state][kind] = {at, 0, after};
  return after;
}

PlainRoomSearch::State PlainRoomSearch::FindOneAfter(GrammarState& grammar,
                                                     State state,
                                                     PlainText::Kind kind,
                                                     PlainText::Position at) {
  const std::vector<PlainStep>& steps = grammar.grammar().plain_steps[kind][at];
  if (steps.empty()) return kMixed;
  const auto is_dead = [&](const PlainStep& step) {
    return !grammar.MayFollowClass(state, step.by_class);
  };
  // Mostly this is all there is to look at.
  const bool is_first_dead = is_dead(steps.front());
  for (const PlainStep& step : steps) {
    if (is_dead(step) != is_first_dead) return kMixed;
  }
  if (is_first_dead) return kDead;
  State all = kUnknown;
  for (const PlainStep& step : steps) {
    if (!MayLook(grammar)) return kMixed;
    State after = grammar.NextByClass(state, step.by_class);
    if (after != kDead && step.after != PlainText::kStart) {
      after = OneAfter(grammar, after, kind, step.after);
    }
    if (after == kDead || after == kMixed) return kMixed;
    if (all == kUnknown) all = after;
    if (all != after || after == kSeveral) return kSeveral;
  }
  return all;
}

PlainRoomSearch::State PlainRoomSearch::FindFree(GrammarState& grammar,
                                                 Place place,
                                                 PlainText::Kind kind) {
  n_free_ = 0;
  const FreeSearch found = SearchFree(grammar, place, kind);
  if (found.end == FreeSearch::kAllFree) return kFree;
  for (const Place& open : std::span(free_).first(n_free_)) {
    Known& known = known_[open.state][kind];
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
PlainRoomSearch::FreeSearch PlainRoomSearch::SearchFree(GrammarState& grammar,
                                                        Place place,
                                                        PlainText::Kind kind) {
  const State after = OneAfter(grammar, place.state, kind, place.at);
  if (after == kFree) return {FreeSearch::kAllFree, n_free_};
  if (!MayLook(grammar)) return {FreeSearch::kGaveUp, 0};
  if (after == kDead || after == kMixed || n_free_ == kMaxFreeStates) {
    return {FreeSearch::kNotFree, 0};
  }
  const size_t number = n_free_;
  size_t lowest = number;  // open place that is reached
  free_[n_free_++] = place;
  known_[place.state][kind].open = static_cast<uint16_t>(n_free_);
  const auto follow = [&](Place next) {
    const Known& known = known_[next.state][kind];
    if (known.at == next.at && known.open != 0) {
      lowest = std::min(lowest, size_t{known.open} - 1);
      return FreeSearch::kAllFree;
    }
    const FreeSearch search = SearchFree(grammar, next, kind);
    lowest = std::min(lowest, search.lowest);
    return search.end;
  };
  if (after != kSeveral) {
    const FreeSearch::End end = follow({after, PlainText::kStart});
    if (end != FreeSearch::kAllFree) return {end, 0};
  } else {
    for (const PlainStep& step :
         grammar.grammar().plain_steps[kind][place.at]) {
      const State next = grammar.NextByClass(place.state, step.by_class);
      if (!MayLook(grammar)) return {FreeSearch::kGaveUp, 0};
      if (next == kDead) return {FreeSearch::kNotFree, 0};
      const FreeSearch::End end = follow({next, step.after});
      if (end != FreeSearch::kAllFree) return {end, 0};
    }
  }
  if (lowest == number) RememberFree(kind, number);
  return {FreeSearch::kAllFree, lowest};
}

void PlainRoomSearch::RememberFree(PlainText::Kind kind, size_t first) {
  for (size_t i = first; i < n_free_; ++i) {
    known_[free_[i].state][kind] = {free_[i].at, 0, kFree};
  }
  n_free_ = first;
}

}  // namespace plimsoll::worker
