// How much plain text may follow the states of a grammar.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_PLAIN_ROOM_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_PLAIN_ROOM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "worker/text/plain_text.h"

namespace plimsoll::worker {

class GrammarState;

// Finds the room for plain text behind states, and keeps what it has found of
// each state. A GrammarState owns it and tells it of each state. Not
// thread-safe.
class PlainRoomSearch {
 public:
  using State = uint32_t;  // GrammarState::State

  // The results for one state.
  struct Known {
    PlainText::Position at = PlainText::kOutside;
    uint16_t open = 0;  // number among the open places, from 1
    State after = kUnknown;
  };
  using OfState = std::array<Known, PlainText::kKinds>;
  // A state, and its position within a character.
  struct Place {
    State state;
    PlainText::Position at;
    friend bool operator==(const Place&, const Place&) = default;
  };

  // Limits; each has a test at it and one past it.
  // The most states that a step looks at, which takes some 0.5 ms.
  static constexpr int64_t kMaxPlaces = 256;
  // Any text may follow a group of states if these states lead only to one
  // another and to states for which this is known already. The group may have
  // at most this many states.
  static constexpr size_t kMaxFreeStates = 128;

  // Begins to count work anew.
  void GrantWork() { n_places_ = 0; }
  // Forgets all states but kDead, and makes room for `n_states`.
  void Clear(size_t n_states);
  // Adds the state with the next number.
  void AddState() { known_.emplace_back(); }

  // See GrammarState::PlainRoom. `grammar` is the owner.
  std::optional<uint32_t> Room(GrammarState& grammar, Place place,
                               PlainText::Kind kind, uint32_t max) {
    const Known& known = known_[place.state][kind];
    if (known.at == place.at && known.after == kMixed) return std::nullopt;
    return FindRoom(grammar, place, kind, max);
  }

  int64_t MemoryBytes() const;

 private:
  static constexpr State kUnknown = ~State{0};
  // Several states at once.
  static constexpr State kMixed = kUnknown - 1;
  // Any text of the kind may follow.
  static constexpr State kFree = kUnknown - 2;
  // Several states; it was not checked what may follow them.
  static constexpr State kSeveral = kUnknown - 3;

  struct FreeSearch {
    enum End : uint8_t {
      kAllFree,  // if the open places that are reached are free, too
      kNotFree,
      kGaveUp,  // the step's work is used up
    };
    End end;
    size_t lowest;  // number of an open place that is reached
  };

  std::optional<uint32_t> FindRoom(GrammarState& grammar, Place place,
                                   PlainText::Kind kind, uint32_t max);
  // True if the step may still search.
  bool MayLook(const GrammarState& grammar) const;
  // The state that every rest of a character of a kind leads to: kDead if none
  // may follow, kFree or kMixed if they lead to several states; kMixed also if
  // the answer is unknown.
  State After(GrammarState& grammar, State state, PlainText::Kind kind,
              PlainText::Position at);
  // Like After, but returns kSeveral where After searches further.
  State OneAfter(GrammarState& grammar, State state, PlainText::Kind kind,
                 PlainText::Position at);
  State FindOneAfter(GrammarState& grammar, State state, PlainText::Kind kind,
                     PlainText::Position at);
  // kFree if any text of a kind may follow a place, in all states that the
  // place leads to; otherwise kMixed.
  State FindFree(GrammarState& grammar, Place place, PlainText::Kind kind);
  // Searches from a place, through all unknown places that it leads to.
  FreeSearch SearchFree(GrammarState& grammar, Place place,
                        PlainText::Kind kind);
  // Records that any text may follow the places of `free_` from number `first`
  // on, and removes them.
  void RememberFree(PlainText::Kind kind, size_t first);

  std::vector<OfState> known_;  // by state
  // The open places of SearchFree.
  std::array<Place, kMaxFreeStates> free_ = {};
  size_t n_free_ = 0;
  int64_t n_places_ = 0;  // places that were looked at in this step
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_PLAIN_ROOM_H_
