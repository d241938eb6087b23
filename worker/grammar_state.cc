#include "worker/grammar_state.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"

namespace plimsoll::worker {
namespace {

using Op = GrammarInstruction::Op;

constexpr uint32_t kBottom = 0;  // the frame below the first rule

// Bytes of a hash table's entry, its control byte included.
template <typename Map>
size_t TableBytes(const Map& map) {
  return map.capacity() * (sizeof(typename Map::value_type) + 1);
}

template <typename T>
size_t VectorBytes(const std::vector<T>& vector) {
  return vector.capacity() * sizeof(T);
}

}  // namespace

GrammarState::GrammarState(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)),
      n_classes_(grammar_->class_bytes.size()),
      frames_(1, Frame{Grammar::kReturnPc, kBottom, 0}),
      states_(1, StateInfo{0, 0, false}),
      next_(n_classes_, kDead) {
  open_ = {{grammar_->start, kBottom}};
  current_ = Close();
}

bool GrammarState::SpendWork(size_t work) {
  work_ += static_cast<int64_t>(work);
  if (work_ <= kMaxStepWork) return true;
  if (status_.ok()) {
    status_ = absl::ResourceExhaustedError(
        absl::StrCat("the constraint is too ambiguous: finding what may follow "
                     "takes more than ",
                     kMaxStepWork, " steps"));
  }
  return false;
}

uint32_t GrammarState::FrameOn(uint32_t return_pc, uint32_t below) {
  const uint64_t key = uint64_t{return_pc} << 32 | below;
  const auto [found, is_new] =
      frame_numbers_.try_emplace(key, static_cast<uint32_t>(frames_.size()));
  if (is_new) {
    frames_.push_back({return_pc, below, frames_[below].depth + 1});
  }
  return found->second;
}

GrammarState::State GrammarState::Compute(State state, uint8_t byte) {
  const size_t at = state * n_classes_ + grammar_->class_of[byte];
  open_.clear();
  // Looking at a stack costs little beside following it.
  if (!SpendWork(StacksOf(state).size() / 16)) return kDead;
  for (const Stack& stack : StacksOf(state)) {
    const GrammarInstruction& one = grammar_->program[stack.pc];
    // The byte stands for all of its class.
    const bool fits =
        (one.op == Op::kByte && one.arg == byte) ||
        (one.op == Op::kSet && grammar_->sets[one.arg].test(byte));
    if (fits) open_.push_back({one.next, stack.frame});
  }
  const State after = Close();
  if (status_.ok()) next_[at] = after;
  return after;
}

GrammarState::State GrammarState::Close() {
  closed_.clear();
  seen_.clear();
  const auto add = [this](uint32_t pc, uint32_t frame) {
    if (seen_.insert({pc, frame}).second) open_.push_back({pc, frame});
  };
  for (const Stack& stack : open_) seen_.insert(stack);
  while (!open_.empty()) {
    if (!SpendWork(1)) return kDead;
    const Stack stack = open_.back();
    open_.pop_back();
    const GrammarInstruction& one = grammar_->program[stack.pc];
    switch (one.op) {
      case Op::kFail:
        break;
      case Op::kByte:
      case Op::kSet:
        closed_.push_back(stack);
        break;
      case Op::kSplit:
        add(one.next, stack.frame);
        add(one.arg, stack.frame);
        break;
      case Op::kReturn:
        if (stack.frame == kBottom) {
          closed_.push_back(stack);
        } else {
          const Frame& frame = frames_[stack.frame];
          add(frame.return_pc, frame.parent);
        }
        break;
      case Op::kCall:
        // A rule whose last part is another needs no frame: so repetitions do
        // not nest.
        if (one.next == Grammar::kReturnPc) {
          add(one.arg, stack.frame);
        } else if (frames_[stack.frame].depth >= kMaxDepth) {
          was_cut_ = true;
        } else {
          add(one.arg, FrameOn(one.next, stack.frame));
        }
        break;
    }
  }
  std::sort(closed_.begin(), closed_.end());
  closed_.erase(std::unique(closed_.begin(), closed_.end()), closed_.end());
  return Intern();
}

GrammarState::State GrammarState::Intern() {
  if (closed_.empty()) return kDead;
  const size_t hash = absl::Hash<std::vector<Stack>>{}(closed_);
  const auto number = static_cast<State>(states_.size());
  const auto [found, is_new] = state_numbers_.try_emplace(hash, number);
  if (!is_new) {
    const std::span<const Stack> same = StacksOf(found->second);
    if (std::equal(same.begin(), same.end(), closed_.begin(), closed_.end())) {
      return found->second;
    }
    // Another state of the same hash: this one is not found again.
  }
  if (!SpendWork(1 + n_classes_ / 16)) return kDead;
  const size_t begin = stacks_.size();
  stacks_.insert(stacks_.end(), closed_.begin(), closed_.end());
  // Of all instructions kReturnPc sorts first.
  const bool accepts = closed_.front() == Stack{Grammar::kReturnPc, kBottom};
  states_.push_back({begin, stacks_.size(), accepts});
  next_.resize(next_.size() + n_classes_, kUnknown);
  return number;
}

bool GrammarState::Advance(absl::string_view bytes) {
  State state = current_;
  for (const char byte : bytes) {
    state = Next(state, static_cast<uint8_t>(byte));
    if (state == kDead) return false;
  }
  current_ = state;
  return true;
}

bool GrammarState::BeginStep() {
  work_ = 0;
  if (static_cast<size_t>(MemoryBytes()) <= memo_limit_) return false;
  Forget();
  // Not again at once where that much is needed.
  memo_limit_ = std::max(kMaxMemoBytes, static_cast<size_t>(MemoryBytes()) * 2);
  return true;
}

void GrammarState::Forget() {
  const std::span<const Stack> kept = StacksOf(current_);
  closed_.assign(kept.begin(), kept.end());
  const std::vector<Frame> old = std::exchange(frames_, {{0, kBottom, 0}});
  frame_numbers_ = absl::flat_hash_map<uint64_t, uint32_t>();
  absl::flat_hash_map<uint32_t, uint32_t> renumbered = {{kBottom, kBottom}};
  std::vector<uint32_t> chain;
  for (Stack& stack : closed_) {
    uint32_t frame = stack.frame;
    for (; !renumbered.contains(frame); frame = old[frame].parent) {
      chain.push_back(frame);
    }
    uint32_t now = renumbered[frame];
    for (; !chain.empty(); chain.pop_back()) {
      now = FrameOn(old[chain.back()].return_pc, now);
      renumbered[chain.back()] = now;
    }
    stack.frame = now;
  }
  std::sort(closed_.begin(), closed_.end());
  // `= {}` would keep the memory.
  stacks_ = std::vector<Stack>();
  states_ = std::vector<StateInfo>(1, StateInfo{0, 0, false});
  next_ = std::vector<State>(n_classes_, kDead);
  state_numbers_ = absl::flat_hash_map<size_t, State>();
  open_ = std::vector<Stack>();
  seen_ = absl::flat_hash_set<Stack>();
  current_ = Intern();
}

int64_t GrammarState::MemoryBytes() const {
  return static_cast<int64_t>(VectorBytes(frames_) + VectorBytes(stacks_) +
                              VectorBytes(states_) + VectorBytes(next_) +
                              VectorBytes(open_) + VectorBytes(closed_) +
                              TableBytes(frame_numbers_) +
                              TableBytes(state_numbers_) + TableBytes(seen_));
}

}  // namespace plimsoll::worker
