// The position of one stream in its grammar, which decides the bytes that may
// follow.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_STATE_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_STATE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/hash_map.h"
#include "base/stop_check.h"
#include "worker/text/grammar/grammar.h"
#include "worker/text/grammar/plain_room.h"
#include "worker/text/plain_text.h"

namespace plimsoll::worker {

// The stacks of a pushdown automaton. A state is the set of all stacks that the
// text so far can have led to. States and the steps between them are computed
// when they are first needed, and kept within a limit. Every stack leads to the
// grammar's end. If there are more stacks than a limit allows, some are
// dropped: the stream then allows fewer texts than the grammar, but always at
// least one, and none that the grammar forbids. Only the text decides which
// stacks are dropped. Not thread-safe.
class GrammarState {
 public:
  // Names a state; valid until the next BeginStep.
  using State = uint32_t;
  static constexpr State kDead = 0;  // nothing leads to the grammar's end

  // Limits; each has a test at it and one past it.
  static constexpr uint32_t kMaxDepth = Grammar::kMaxDepth;
  // A state has at most this many stacks. Beyond that, those with the fewest
  // open rules are kept.
  static constexpr size_t kMaxReadings = 2'048;
  // At most this many stacks are followed from one byte to the next.
  static constexpr int64_t kMaxFollowed = 16'384;
  // At most this many open rules are compared, in pairs of stacks, to find a
  // stack of a state that allows everything that another stack allows. Beyond
  // that, both stacks are kept.
  static constexpr int64_t kMaxPruneSteps = 1 << 16;
  // Work between two calls of BeginStep, in followed stacks: about 3 ms. Beyond
  // that, unknown states are not computed.
  static constexpr int64_t kMaxStepWork = 1 << 15;
  // Beyond this work of a step, PlainRoom looks at no state.
  static constexpr int64_t kMaxPlainWork = kMaxStepWork / 2;
  // Memory for known states, allocated at the start. A step takes more only if
  // the states that it finds, or the current state alone, need more than half
  // of this.
  static constexpr size_t kMemoBytes = 256 << 10;

  explicit GrammarState(std::shared_ptr<const Grammar> grammar);

  // The largest number of stacks of any state, for a grammar without recursion.
  // Returns nothing if the search takes more than `max_work` or exceeds a
  // limit. All states are kept. Errors: those of `stop`.
  absl::StatusOr<std::optional<size_t>> MostStacks(int64_t max_work,
                                                   StopCheck stop);

  // Begins to count work anew, and forgets states if there are many. Returns
  // true if it forgot them; then only current() is a state.
  bool BeginStep();

  State current() const { return current_; }
  // True if `byte` may follow. Costs nothing.
  bool MayFollow(State state, uint8_t byte) const {
    return next_[state * n_classes_ + grammar_->class_of[byte]] != kDead;
  }
  // True if the token with this number in the grammar's tokens may follow.
  bool MayFollowToken(State state, size_t number) const {
    return next_[state * n_classes_ + ClassOfToken(number)] != kDead;
  }
  // The state after `byte`. Returns kDead if `byte` may not follow, or if the
  // step's work is used up and the state is not known; see is_exhausted().
  State Next(State state, uint8_t byte) {
    return NextByClass(state, grammar_->class_of[byte]);
  }
  // MayFollow and Next, of the bytes or the token of a class.
  bool MayFollowClass(State state, size_t by_class) const {
    return KnownByClass(state, by_class) != kDead;
  }
  State NextByClass(State state, size_t by_class) {
    const State known = KnownByClass(state, by_class);
    return known != kUnknown || is_exhausted() ? KnownOrDead(known)
                                               : Compute(state, by_class);
  }
  // Returns how many characters of a kind may follow, up to `max`: any text of
  // that many characters may follow, but no longer text. If `at` is within a
  // character, any rest of that character may follow, and the count begins
  // after it. Returns nothing if the answer depends on the characters, or if
  // finding it takes too much of the step's work.
  std::optional<uint32_t> PlainRoom(State state, PlainText::Kind kind,
                                    PlainText::Position at, uint32_t max) {
    return plain_.Room(*this, {state, at}, kind, max);
  }
  // True if the step's work for PlainRoom is used up. PlainRoom then returns
  // only results that it has found before.
  bool is_plain_exhausted() const { return work_ > kMaxPlainWork; }
  // True if the text so far is a whole text of the grammar.
  bool Accepts(State state) const { return states_[state].accepts; }

  // Makes the state after `bytes` the current one, without a limit of work.
  // Returns false, and changes nothing, if they may not follow.
  bool Advance(absl::string_view bytes);
  // Advance() by one token of the grammar's tokens.
  bool AdvanceToken(size_t number);

  // The step's work so far, in followed stacks.
  int64_t work() const { return work_; }
  // True if the step's work is used up, so that Next finds known states only.
  bool is_exhausted() const { return work_ > max_work_; }
  // Begins to count work anew, and keeps all states.
  void GrantWork() {
    work_ = 0;
    plain_.GrantWork();
  }
  // True if a limit made a state drop stacks.
  bool was_thinned() const { return was_thinned_; }
  int64_t MemoryBytes() const;
  const Grammar& grammar() const { return *grammar_; }

 private:
  static constexpr State kUnknown = ~State{0};
  // A step's stacks are compared with those of the step computed before it if
  // there are at most this many.
  static constexpr size_t kMaxRepeated = 8;
  // An instruction and the frame below it.
  struct Stack {
    uint32_t pc;
    uint32_t frame;
    friend auto operator<=>(const Stack&, const Stack&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Stack& s) {
      return H::combine(std::move(h), s.pc, s.frame);
    }
  };
  // An open rule: the instruction after its call, and the open rule below it.
  struct Frame {
    uint32_t return_pc;
    uint32_t parent;
    uint32_t depth;
    uint32_t shape;  // hash of the chains of the open rules
    uint64_t key;    // hash of the open rules
  };
  struct StateInfo {
    size_t begin;  // its stacks, all at bytes or at the end
    size_t end;
    bool accepts;
  };
  // A stack with the keys by which it is sorted. They never depend on frame
  // numbers, because these depend on earlier searches.
  struct Sorted {
    uint32_t chain;
    uint32_t shape;
    uint64_t key;
    Stack stack;
  };
  // How many elements of each kind fit.
  struct Room {
    size_t states;
    size_t stacks;
    size_t frames;
  };

  std::span<const Stack> StacksOf(State state) const {
    const StateInfo& info = states_[state];
    return {stacks_.data() + info.begin, info.end - info.begin};
  }
  // Tokens are classes of their own, behind those of bytes.
  size_t ClassOfToken(size_t number) const {
    return grammar_->class_bytes.size() + number;
  }
  State KnownByClass(State state, size_t by_class) const {
    return next_[state * n_classes_ + by_class];
  }
  // The state after a byte or token of a class, without a limit of work.
  State After(State state, size_t by_class) {
    const State known = KnownByClass(state, by_class);
    return known != kUnknown ? known : Compute(state, by_class);
  }
  static State KnownOrDead(State known) {
    return known == kUnknown ? kDead : known;
  }
  State Compute(State state, size_t by_class);
  // True if the instruction takes the bytes or the token of a class.
  bool Takes(const GrammarInstruction& one, size_t by_class) const;
  // Follows everything but bytes from `open_`, and makes a state of the stacks
  // that it reaches.
  State Close();
  // Follows into closed_ only, within kMaxFollowed.
  void Follow();
  // Opens a stack, unless an open stack allows everything that it allows.
  void Open(uint32_t pc, uint32_t frame);
  void OpenCall(const GrammarInstruction& call, uint32_t frame);
  // One stack that `stack` reaches before any byte.
  Stack Nearest(Stack stack);
  // Drops all but kMaxReadings stacks of closed_.
  void Thin();
  State Intern();
  // Removes each stack from closed_ if another stack allows everything that it
  // allows.
  void Prune();
  void Sort();
  // True if `a` allows everything that `b` allows, by the copies (GrammarCopy)
  // in which they are. Adds the comparisons made to `n_looks`.
  bool Covers(const Stack& a, const Stack& b, int64_t& n_looks) const;
  // The frame of a rule that is called from `below` and continues at
  // `return_pc`.
  uint32_t FrameOn(uint32_t return_pc, uint32_t below);
  void SpendWork(size_t work) { work_ += static_cast<int64_t>(work); }
  // The room within kMemoBytes.
  Room RoomAtStart() const;
  bool IsHalfFull() const;
  // Forgets all states and makes room_ for others.
  void Clear();
  // Forgets all but the current state and its frames.
  void Forget();
  // Forgets all frames but those of the stacks in closed_, and renumbers them.
  void ForgetFrames();

  std::shared_ptr<const Grammar> grammar_;
  size_t n_classes_;
  Room room_;
  std::vector<Frame> frames_;
  HashMap<uint64_t, uint32_t> frame_numbers_;
  std::vector<Stack> stacks_;  // stacks of all states
  std::vector<StateInfo> states_;
  std::vector<State> next_;               // [states, classes]
  HashMap<size_t, State> state_numbers_;  // by hash
  State current_ = kDead;
  PlainRoomSearch plain_;
  // The frames that the last computed step opened, and the state after it.
  std::array<Stack, kMaxRepeated> last_open_ = {};
  size_t n_last_open_ = 0;
  State last_after_ = kDead;
  int64_t work_ = 0;
  int64_t max_work_ = kMaxStepWork;
  bool was_thinned_ = false;
  // Scratch of Close.
  std::vector<Stack> open_;
  std::vector<Stack> closed_;
  std::vector<Stack> kept_;
  std::vector<Sorted> sorted_;
  // The highest rank that was opened, by chain and frame.
  HashMap<Stack, uint32_t> seen_;
  // Scratch of ForgetFrames, by frame.
  std::vector<uint32_t> renumbered_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_STATE_H_
