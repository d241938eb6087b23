// What plain text may follow a state, and what finding out may take.
#include "worker/text/grammar/plain_room.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "worker/text/grammar/grammar_state.h"
#include "worker/text/grammar/regex_grammar.h"
#include "worker/text/schema/schema_grammar.h"

namespace plimsoll::worker {
namespace {

using State = GrammarState::State;

constexpr uint32_t kMaxRoom = 16;
constexpr char kLetterOrDigit[] = "[0-9A-Za-z]";

GrammarState StateOf(const std::string& regex) {
  const auto grammar = CompileRegex(regex);
  EXPECT_TRUE(grammar.ok()) << regex << ": " << grammar.status();
  return GrammarState(*grammar);
}

State Behind(GrammarState& grammar, absl::string_view text) {
  State state = grammar.current();
  for (const char one : text) {
    state = grammar.Next(state, static_cast<uint8_t>(one));
  }
  return state;
}

std::optional<uint32_t> RoomUpTo(uint32_t max, GrammarState& grammar,
                                 State state, PlainText::Kind kind) {
  return grammar.PlainRoom(state, kind, PlainText::kStart, max);
}

std::optional<uint32_t> Room(GrammarState& grammar, State state,
                             PlainText::Kind kind) {
  return RoomUpTo(kMaxRoom, grammar, state, kind);
}

TEST(PlainRoomTest, TellsHowMuchTextMayFollow) {
  GrammarState any = StateOf("[^\"]*");
  EXPECT_EQ(Room(any, any.current(), PlainText::kPlain), kMaxRoom);
  GrammarState five = StateOf("[^\"]{0,5}");
  EXPECT_EQ(Room(five, five.current(), PlainText::kPlain), 5u);
  EXPECT_EQ(Room(five, Behind(five, "ab"), PlainText::kWord), 3u);
  GrammarState some = StateOf("[a-z]*");
  EXPECT_EQ(Room(some, some.current(), PlainText::kPlain), std::nullopt);
  EXPECT_EQ(Room(some, some.current(), PlainText::kWord), std::nullopt);
}

// Text that is not free does not hide text that is, however much comes first.
TEST(PlainRoomTest, FindsFreeTextBesideManyNames) {
  nlohmann::ordered_json schema;
  for (const char* first : {"b", "c", "d", "e", "f", "g", "h", "i", "j", "k"}) {
    schema["properties"][absl::StrCat(first, "_has_a_long_name")] =
        nlohmann::ordered_json::object();
  }
  schema["type"] = "object";
  const auto grammar = CompileJsonSchema(schema.dump());
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  GrammarState state(*grammar);
  ASSERT_TRUE(state.Advance("{\""));
  Room(state, state.current(), PlainText::kPlain);
  EXPECT_EQ(Room(state, Behind(state, "x"), PlainText::kPlain), kMaxRoom);
  EXPECT_EQ(Room(state, Behind(state, "b_has_x"), PlainText::kPlain), kMaxRoom);
  // Step by step, what is free is found for the names as well.
  for (int step = 0; step < 3; ++step) {
    state.BeginStep();
    Room(state, state.current(), PlainText::kPlain);
  }
  EXPECT_EQ(Room(state, state.current(), PlainText::kPlain), kMaxRoom);
  EXPECT_EQ(Room(state, Behind(state, "k_has"), PlainText::kPlain), kMaxRoom);
}

TEST(PlainRoomTest, FindsFreeTextWhereSearchesGoInCircles) {
  // Text may always go on, whether or not it has what is searched for.
  GrammarState search = StateOf("([^\"]*/api/v1/users/[^\"]*)?");
  EXPECT_EQ(Room(search, search.current(), PlainText::kPlain), kMaxRoom);
  EXPECT_EQ(Room(search, Behind(search, "/api/v1/"), PlainText::kPlain),
            kMaxRoom);
  // Behind "ab", nothing follows.
  GrammarState end = StateOf("([^a\"]|a[^b\"])*(ab)?");
  EXPECT_EQ(Room(end, end.current(), PlainText::kPlain), std::nullopt);
  EXPECT_EQ(Room(end, Behind(end, "a"), PlainText::kPlain), std::nullopt);
}

// A circle of `n` states, of which the first leads to two others.
GrammarState CircleOf(size_t n) {
  const size_t n_letters = (n - 1) / 2;
  const size_t n_digits = n - 1 - n_letters;
  return StateOf(absl::StrCat("([A-Za-z]", kLetterOrDigit, "{", n_letters,
                              "}|[0-9]", kLetterOrDigit, "{", n_digits, "})*"));
}

TEST(PlainRoomTest, LooksForFreeTextInCirclesWithinALimit) {
  GrammarState fits = CircleOf(PlainRoomSearch::kMaxFreeStates);
  EXPECT_EQ(Room(fits, fits.current(), PlainText::kWord), kMaxRoom);
  GrammarState larger = CircleOf(PlainRoomSearch::kMaxFreeStates + 1);
  EXPECT_EQ(Room(larger, larger.current(), PlainText::kWord), std::nullopt);
  // It is not looked for again.
  larger.BeginStep();
  EXPECT_EQ(Room(larger, larger.current(), PlainText::kWord), std::nullopt);
}

TEST(PlainRoomTest, LooksAtSoManyStatesInAStep) {
  constexpr auto kPlaces = static_cast<uint32_t>(PlainRoomSearch::kMaxPlaces);
  const std::string regex = absl::StrCat(kLetterOrDigit, "{5000}");
  GrammarState fits = StateOf(regex);
  EXPECT_EQ(RoomUpTo(kPlaces, fits, fits.current(), PlainText::kWord), kPlaces);
  GrammarState more = StateOf(regex);
  EXPECT_EQ(RoomUpTo(kPlaces + 1, more, more.current(), PlainText::kWord),
            std::nullopt);
  // What was found stays, and the next step finds the rest.
  EXPECT_EQ(RoomUpTo(kPlaces, more, more.current(), PlainText::kWord), kPlaces);
  more.BeginStep();
  EXPECT_EQ(RoomUpTo(kPlaces + 1, more, more.current(), PlainText::kWord),
            kPlaces + 1);
}

// A state that text may follow, in a step whose work so far is `wanted`. What
// it leads to is known. Pieces in front of it take different work. Nothing if
// `n_pieces` do not fit.
std::optional<State> StateAtWork(GrammarState& grammar, int n_pieces,
                                 int64_t wanted) {
  std::string text;
  for (int i = 0; i < n_pieces; ++i) text += "ab";
  State state = Behind(grammar, text);
  State before = state;
  while (grammar.work() < wanted) {
    before = state;
    for (const char one : {'a', 'b', 'c', '0'}) {
      state = grammar.Next(before, static_cast<uint8_t>(one));
    }
  }
  if (grammar.work() != wanted) return std::nullopt;
  return before;
}

// What PlainRoom says of a state that it has not looked at when the step's work
// is `work`, and what it says in the next step.
struct RoomsAtWork {
  std::optional<uint32_t> now;
  std::optional<uint32_t> of_known;
  std::optional<uint32_t> later;
};
std::optional<RoomsAtWork> RoomAtWork(int64_t work) {
  for (int n_pieces = 0; n_pieces < 12; ++n_pieces) {
    GrammarState grammar = StateOf(
        absl::StrCat("(ab|ac){", n_pieces, "}", kLetterOrDigit, "{12000}"));
    grammar.BeginStep();
    RoomUpTo(1, grammar, grammar.current(), PlainText::kWord);
    const std::optional<uint32_t> known =
        RoomUpTo(1, grammar, grammar.current(), PlainText::kWord);
    const std::optional<State> state = StateAtWork(grammar, n_pieces, work);
    if (!state) continue;
    RoomsAtWork rooms;
    rooms.now = RoomUpTo(1, grammar, *state, PlainText::kWord);
    rooms.of_known = RoomUpTo(1, grammar, grammar.current(), PlainText::kWord);
    EXPECT_EQ(rooms.of_known, known);
    grammar.GrantWork();
    rooms.later = RoomUpTo(1, grammar, *state, PlainText::kWord);
    return rooms;
  }
  return std::nullopt;
}

TEST(PlainRoomTest, LooksAtNothingBeyondAStepsWork) {
  const auto at = RoomAtWork(GrammarState::kMaxPlainWork);
  ASSERT_TRUE(at);
  EXPECT_EQ(at->now, 1u);
  const auto past = RoomAtWork(GrammarState::kMaxPlainWork + 1);
  ASSERT_TRUE(past);
  EXPECT_EQ(past->now, std::nullopt);
  EXPECT_EQ(past->later, 1u);
}

}  // namespace
}  // namespace plimsoll::worker
