// Where one stream stands in its grammar: what may follow, byte by byte.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_STATE_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_STATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stop_check.h"
#include "worker/text/grammar/grammar.h"

namespace plimsoll::worker {

// The stacks of a pushdown automaton, all at once: a state is the set of every
// stack that what was said so far can have led to. States and the steps between
// them are computed when they are first asked for, and remembered within a
// limit. Every stack leads to the grammar's end, so where there are more of
// them than a limit allows some are left out: what follows then is less than
// the grammar allows, but always something, and never anything else. Which ones
// are left out depends on the text only. Not thread-safe.
class GrammarState {
 public:
  // A state; good until the next BeginStep.
  using State = uint32_t;
  static constexpr State kDead = 0;  // nothing leads to the grammar's end

  // Limits; each has a test at it and one past it.
  static constexpr uint32_t kMaxDepth = Grammar::kMaxDepth;
  // Stacks of one state. Beyond, those with the fewest rules open are kept.
  static constexpr size_t kMaxReadings = 2'048;
  // Stacks followed from one byte to the next.
  static constexpr int64_t kMaxFollowed = 16'384;
  // Looks at open rules, of two stacks each, to see whether one stack of a
  // state allows all that another one does. Beyond, both are kept.
  static constexpr int64_t kMaxPruneSteps = 1 << 16;
  // Work between two calls of BeginStep, in stacks followed: some 3 ms. Beyond,
  // states that are not known yet are not computed.
  static constexpr int64_t kMaxStepWork = 1 << 15;
  // Room for what is remembered, made at the start. A step takes more only
  // where more comes in it than half of this holds, or where the state itself
  // does.
  static constexpr size_t kMemoBytes = 256 << 10;

  explicit GrammarState(std::shared_ptr<const Grammar> grammar);

  // The most stacks that any state has, for a grammar without recursion;
  // nothing if finding out takes more than `max_work`, or if a limit was
  // passed. All states are kept. Errors: what `stop` says.
  absl::StatusOr<std::optional<size_t>> MostStacks(int64_t max_work,
                                                   StopCheck stop);

  // Begins to count work anew, and forgets states if they have become many.
  // True if it forgot them: then only current() is a state.
  bool BeginStep();

  State current() const { return current_; }
  // Whether `byte` may follow; costs nothing.
  bool MayFollow(State state, uint8_t byte) const {
    return next_[state * n_classes_ + grammar_->class_of[byte]] != kDead;
  }
  // The state after `byte`. kDead if it may not follow, or if the step's work
  // is done and the state is not known: see is_exhausted().
  State Next(State state, uint8_t byte) {
    const State known = Known(state, byte);
    return known != kUnknown || is_exhausted() ? KnownOrDead(known)
                                               : Compute(state, byte);
  }
  // Whether what was said is a whole text of the grammar.
  bool Accepts(State state) const { return states_[state].accepts; }

  // Makes the state after `bytes` the current one, whatever that takes. False,
  // and nothing is changed, if they may not follow.
  bool Advance(absl::string_view bytes);

  // Whether the step's work is done, so that Next finds known states only.
  bool is_exhausted() const { return work_ > max_work_; }
  // Begins to count work anew, and keeps all states.
  void GrantWork() { work_ = 0; }
  // Whether a state has fewer stacks than the text leads to, by a limit.
  bool was_thinned() const { return was_thinned_; }
  int64_t MemoryBytes() const;

 private:
  static constexpr State kUnknown = ~State{0};
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
  // An open rule: where it goes on after it, and the open rule below.
  struct Frame {
    uint32_t return_pc;
    uint32_t parent;
    uint32_t depth;
    uint32_t shape;  // a hash of the chains of what is open
    uint64_t key;    // a hash of what is open
  };
  struct StateInfo {
    size_t begin;  // of its stacks: all at bytes, or at the end
    size_t end;
    bool accepts;
  };
  // A stack, and what its place among others depends on: never on the numbers
  // of frames, which depend on what was looked at before.
  struct Sorted {
    uint32_t chain;
    uint32_t shape;
    uint64_t key;
    Stack stack;
  };
  // How many of each there is room for.
  struct Room {
    size_t states;
    size_t stacks;
    size_t frames;
  };

  std::span<const Stack> StacksOf(State state) const {
    const StateInfo& info = states_[state];
    return {stacks_.data() + info.begin, info.end - info.begin};
  }
  State Known(State state, uint8_t byte) const {
    return next_[state * n_classes_ + grammar_->class_of[byte]];
  }
  static State KnownOrDead(State known) {
    return known == kUnknown ? kDead : known;
  }
  State Compute(State state, uint8_t byte);
  // Follows everything but bytes from `open_`, and turns what it comes to into
  // a state.
  State Close();
  // The same into closed_ only, within kMaxFollowed.
  void Follow();
  // Opens a stack unless one that was opened allows all that it does.
  void Open(uint32_t pc, uint32_t frame);
  void OpenCall(const GrammarInstruction& call, uint32_t frame);
  // One stack that `stack` comes to before any byte.
  Stack Nearest(Stack stack);
  // Leaves no more than kMaxReadings in closed_.
  void Thin();
  State Intern();
  // Takes those stacks away from closed_ that allow nothing that another one
  // does not allow, too.
  void Prune();
  void Sort();
  // Whether `a` allows all that `b` does, by the copies they stand in. Adds the
  // looks it takes to `n_looks`.
  bool Covers(const Stack& a, const Stack& b, int64_t& n_looks) const;
  // The frame of a rule called from `below` that goes on at `return_pc`.
  uint32_t FrameOn(uint32_t return_pc, uint32_t below);
  void SpendWork(size_t work) { work_ += static_cast<int64_t>(work); }
  // What kMemoBytes hold.
  Room RoomAtStart() const;
  bool IsHalfFull() const;
  // Forgets all states, and sees to it that there is room_ for others.
  void Clear();
  // Keeps the current state and its frames only.
  void Forget();
  // The same of frames: those of the stacks in closed_, which get their new
  // numbers.
  void ForgetFrames();

  std::shared_ptr<const Grammar> grammar_;
  size_t n_classes_;
  Room room_;
  std::vector<Frame> frames_;
  absl::flat_hash_map<uint64_t, uint32_t> frame_numbers_;
  std::vector<Stack> stacks_;  // of all states
  std::vector<StateInfo> states_;
  std::vector<State> next_;                           // [states, classes]
  absl::flat_hash_map<size_t, State> state_numbers_;  // by hash
  State current_ = kDead;
  int64_t work_ = 0;
  int64_t max_work_ = kMaxStepWork;
  bool was_thinned_ = false;
  // Scratch: of Close,
  std::vector<Stack> open_;
  std::vector<Stack> closed_;
  std::vector<Stack> kept_;
  std::vector<Sorted> sorted_;
  // The highest rank that was opened, by chain and frame.
  absl::flat_hash_map<Stack, uint32_t> seen_;
  // and of ForgetFrames, by frame.
  std::vector<uint32_t> renumbered_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_STATE_H_
