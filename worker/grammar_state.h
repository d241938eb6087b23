// Where one stream stands in its grammar: what may follow, byte by byte.
#ifndef PLIMSOLL_WORKER_GRAMMAR_STATE_H_
#define PLIMSOLL_WORKER_GRAMMAR_STATE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/grammar.h"

namespace plimsoll::worker {

// The stacks of a pushdown automaton, all at once: a state is the set of every
// stack that what was said so far can have led to. States and the steps between
// them are computed when they are first asked for, and remembered within a
// limit. Not thread-safe.
class GrammarState {
 public:
  // A state; good until the next BeginStep.
  using State = uint32_t;
  static constexpr State kDead = 0;  // nothing leads to the grammar's end

  // Limits; each has a test at it and one past it.
  // Rules open at once. What would nest deeper may not follow.
  static constexpr uint32_t kMaxDepth = 4'096;
  // Stacks followed between two calls of BeginStep: some 10 ms and 12 MiB.
  static constexpr int64_t kMaxStepWork = 1 << 17;
  // Room for what is remembered, made at the start. A step takes more only
  // where more comes in it than half of this holds, or where the state itself
  // does.
  static constexpr size_t kMemoBytes = 256 << 10;

  explicit GrammarState(std::shared_ptr<const Grammar> grammar);

  // The most stacks that any state has, for a grammar without recursion;
  // nothing if finding out takes more than `max_work` steps. All states are
  // kept.
  std::optional<size_t> MostStacks(int64_t max_work);

  // Begins to count work anew, and forgets states if they have become many.
  // True if it forgot them: then only current() is a state.
  bool BeginStep();

  State current() const { return current_; }
  // The state after `byte`. kDead, too, once a limit is passed: see status().
  State Next(State state, uint8_t byte) {
    const size_t at = state * n_classes_ + grammar_->class_of[byte];
    const State known = next_[at];
    return known != kUnknown ? known : Compute(state, byte);
  }
  // Whether what was said is a whole text of the grammar.
  bool Accepts(State state) const { return states_[state].accepts; }

  // Makes the state after `bytes` the current one. False, and nothing is
  // changed, if they may not follow.
  bool Advance(absl::string_view bytes);

  // kResourceExhausted once the grammar is so ambiguous that a step takes more
  // than kMaxStepWork; from then on every new state is dead. Never of a grammar
  // that is_bounded.
  const absl::Status& status() const { return status_; }
  // Whether something was kept from following by kMaxDepth.
  bool was_cut() const { return was_cut_; }
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
  };
  struct StateInfo {
    size_t begin;  // of its stacks, sorted: all at bytes, or at the end
    size_t end;
    bool accepts;
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
  State Compute(State state, uint8_t byte);
  // Follows everything but bytes from `open_`, and turns what it comes to into
  // a state.
  State Close();
  State Intern();
  // Takes those stacks away from closed_ that allow nothing that another one
  // does not allow, too.
  void Prune();
  // Whether `a` allows all that `b` does, by the copies they stand in.
  bool Covers(const Stack& a, const Stack& b) const;
  // The frame of a rule called from `below` that goes on at `return_pc`; 0 if
  // that would be too deep.
  uint32_t FrameOn(uint32_t return_pc, uint32_t below);
  bool SpendWork(size_t work);
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
  bool was_cut_ = false;
  absl::Status status_;
  // Scratch: of Close,
  std::vector<Stack> open_;
  std::vector<Stack> closed_;
  std::vector<Stack> kept_;
  absl::flat_hash_set<Stack> seen_;
  // and of ForgetFrames, by frame.
  std::vector<uint32_t> renumbered_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAMMAR_STATE_H_
