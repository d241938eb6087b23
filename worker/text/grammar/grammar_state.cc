#include "worker/text/grammar/grammar_state.h"

#include <algorithm>
#include <bitset>
#include <utility>

#include "absl/hash/hash.h"
#include "base/status_macros.h"
#include "worker/text/grammar/fit_vector.h"

namespace plimsoll::worker {
namespace {

using Op = GrammarInstruction::Op;

constexpr uint32_t kBottom = 0;  // the frame below the first rule

// A rule that goes on at `return_pc`, above the frame `below`.
uint64_t FrameKey(uint32_t return_pc, uint32_t below) {
  return uint64_t{return_pc} << 32 | below;
}

// Bytes of a hash table's entries, their control bytes included.
template <typename Map>
size_t TableBytes(const Map& map) {
  return map.capacity() * (sizeof(typename Map::value_type) + 1);
}

// Bytes an entry of a hash table with room for it may take: full to between
// 7/16 and 7/8.
template <typename Map>
constexpr size_t kEntryBytes = (sizeof(typename Map::value_type) + 1) * 16 / 7;

// Empties a table and gives it room for `wanted` elements.
template <typename Table>
void FitEmpty(Table& table, size_t wanted) {
  if (table.capacity() >= wanted && table.capacity() <= 4 * wanted) {
    // clear() would give the memory back.
    table.erase(table.begin(), table.end());
  } else {
    table = Table();
    table.reserve(wanted);
  }
}

// A state has room for this many stacks on average. A state can have a few, or
// some dozens.
constexpr size_t kStacksAState = 8;
// There is always room for this many stacks that are followed on the way to one
// state. clear() is quick on a table of this size, and keeps its memory.
constexpr size_t kSeenStacks = 100;
// The room is this many times what cannot be forgotten.
constexpr size_t kTimesKept = 4;

}  // namespace

GrammarState::GrammarState(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)),
      n_classes_(grammar_->class_bytes.size() + grammar_->tokens.size()),
      room_(RoomAtStart()),
      frames_(1, Frame{Grammar::kReturnPc, kBottom, 0, 0, 0}) {
  ForgetFrames();
  Clear();
  open_.push_back({grammar_->start, kBottom});
  current_ = Close();
}

absl::StatusOr<std::optional<size_t>> GrammarState::MostStacks(int64_t max_work,
                                                               StopCheck stop) {
  max_work_ = max_work;
  size_t most = StacksOf(current_).size();
  for (size_t i = 1; i < states_.size(); ++i) {
    RETURN_IF_ERROR(stop());
    const size_t n_before = states_.size();
    for (size_t by_class = 0; by_class < n_classes_; ++by_class) {
      const State after = NextByClass(static_cast<State>(i), by_class);
      SpendWork(1);
      if (is_exhausted() || was_thinned_) return std::nullopt;
      most = std::max(most, StacksOf(after).size());
    }
    // A state's row takes memory before anything is in it.
    SpendWork((states_.size() - n_before) * n_classes_ / 4);
  }
  return most;
}

GrammarState::Room GrammarState::RoomAtStart() const {
  constexpr size_t kCloseBytes =
      kSeenStacks *
      (3 * sizeof(Stack) + sizeof(Sorted) + kEntryBytes<decltype(seen_)>);
  constexpr size_t kFrameBytes = sizeof(Frame) +
                                 kEntryBytes<decltype(frame_numbers_)> +
                                 sizeof(renumbered_[0]);
  const size_t state_bytes =
      sizeof(StateInfo) + sizeof(PlainRoomSearch::OfState) +
      n_classes_ * sizeof(State) + kEntryBytes<decltype(state_numbers_)> +
      kStacksAState * sizeof(Stack) + kFrameBytes;
  const size_t n = (kMemoBytes - kCloseBytes) / state_bytes;
  return {.states = n, .stacks = n * kStacksAState, .frames = n};
}

uint32_t GrammarState::FrameOn(uint32_t return_pc, uint32_t below) {
  const auto [found, is_new] = frame_numbers_.try_emplace(
      FrameKey(return_pc, below), static_cast<uint32_t>(frames_.size()));
  if (is_new) {
    const Frame& under = frames_[below];
    const uint32_t chain = grammar_->copies[return_pc].chain;
    frames_.push_back({return_pc, below, under.depth + 1,
                       under.shape * 0x9E3779B1u + chain + 1,
                       (under.key ^ return_pc) * 0x9E3779B97F4A7C15u + 1});
  }
  return found->second;
}

bool GrammarState::Takes(const GrammarInstruction& one, size_t by_class) const {
  const size_t n_byte_classes = grammar_->class_bytes.size();
  if (by_class >= n_byte_classes) {
    return one.op == Op::kToken && one.arg == by_class - n_byte_classes;
  }
  // The byte stands for all of its class.
  const uint8_t byte = grammar_->class_bytes[by_class];
  return (one.op == Op::kByte && one.arg == byte) ||
         (one.op == Op::kSet && grammar_->sets[one.arg].test(byte));
}

GrammarState::State GrammarState::Compute(State state, size_t by_class) {
  const size_t at = state * n_classes_ + by_class;
  open_.clear();
  // Looking at a stack costs little beside following it.
  SpendWork(StacksOf(state).size() / 8);
  for (const Stack& stack : StacksOf(state)) {
    const GrammarInstruction& one = grammar_->program[stack.pc];
    if (Takes(one, by_class)) open_.push_back({one.next, stack.frame});
  }
  // Many bytes of a state lead to the same one.
  const std::span<const Stack> last(last_open_.data(), n_last_open_);
  if (!last.empty() && std::ranges::equal(open_, last)) {
    open_.clear();
    return next_[at] = last_after_;
  }
  n_last_open_ = open_.size() <= kMaxRepeated ? open_.size() : 0;
  std::copy_n(open_.begin(), n_last_open_, last_open_.begin());
  last_after_ = Close();
  return next_[at] = last_after_;
}

void GrammarState::Open(uint32_t pc, uint32_t frame) {
  if (grammar_->program[pc].op == Op::kFail) return;
  if (frames_[frame].depth + grammar_->exits[pc].depth > kMaxDepth) return;
  const GrammarCopy& copy = grammar_->copies[pc];
  const auto [found, is_new] =
      seen_.try_emplace({copy.chain, frame}, copy.rank);
  if (!is_new && found->second >= copy.rank) return;
  found->second = copy.rank;
  open_.push_back({pc, frame});
}

void GrammarState::OpenCall(const GrammarInstruction& call, uint32_t frame) {
  const GrammarExit& rule = grammar_->exits[call.arg];
  // A rule whose last part is another needs no frame: so repetitions do not
  // nest.
  const bool is_last = call.next == Grammar::kReturnPc;
  const uint32_t depth = frames_[frame].depth + (is_last ? 0 : 1);
  if (depth + rule.depth <= kMaxDepth) {
    Open(call.arg, is_last ? frame : FrameOn(call.next, frame));
    return;
  }
  if (rule.is_empty) Open(call.next, frame);
}

void GrammarState::Follow() {
  closed_.clear();
  seen_.clear();
  seen_.reserve(kSeenStacks);
  kept_.assign(open_.begin(), open_.end());
  open_.clear();
  // Stacks that others cover come later.
  for (const Stack& stack : kept_) Open(stack.pc, stack.frame);
  std::reverse(open_.begin(), open_.end());
  int64_t n_followed = 0;
  while (!open_.empty()) {
    if (++n_followed > kMaxFollowed) {
      was_thinned_ = true;
      break;
    }
    const Stack stack = open_.back();
    open_.pop_back();
    const GrammarInstruction& one = grammar_->program[stack.pc];
    switch (one.op) {
      case Op::kFail:
        break;
      case Op::kByte:
      case Op::kSet:
      case Op::kToken:
        closed_.push_back(stack);
        break;
      case Op::kSplit:
        Open(one.next, stack.frame);
        Open(one.arg, stack.frame);
        break;
      case Op::kReturn:
        if (stack.frame == kBottom) {
          closed_.push_back(stack);
        } else {
          const Frame frame = frames_[stack.frame];
          Open(frame.return_pc, frame.parent);
        }
        break;
      case Op::kCall:
        OpenCall(one, stack.frame);
        break;
    }
  }
  SpendWork(static_cast<size_t>(n_followed));
  // All stacks that were followed led to others.
  if (closed_.empty() && !kept_.empty()) {
    closed_.push_back(Nearest(kept_.front()));
  }
}

GrammarState::Stack GrammarState::Nearest(Stack stack) {
  size_t n_steps = 0;
  while (true) {
    ++n_steps;
    stack.pc = grammar_->exits[stack.pc].nearest;
    const GrammarInstruction& one = grammar_->program[stack.pc];
    if (one.op == Op::kCall) {
      stack = {one.arg, FrameOn(one.next, stack.frame)};
    } else if (one.op == Op::kReturn && stack.frame != kBottom) {
      stack = {frames_[stack.frame].return_pc, frames_[stack.frame].parent};
    } else {
      SpendWork(n_steps);
      return stack;
    }
  }
}

GrammarState::State GrammarState::Close() {
  Follow();
  if (closed_.size() > 1) {
    Prune();
    if (closed_.size() > kMaxReadings) Thin();
  }
  return Intern();
}

// Thins in place; the order of stacks stays.
void GrammarState::Thin() {
  was_thinned_ = true;
  const auto is_better = [this](const Stack& a, const Stack& b) {
    const Frame& x = frames_[a.frame];
    const Frame& y = frames_[b.frame];
    if (x.depth != y.depth) return x.depth < y.depth;
    return x.key != y.key ? x.key < y.key : a.pc < b.pc;
  };
  kept_ = closed_;
  const auto last = kept_.begin() + std::ptrdiff_t{kMaxReadings} - 1;
  std::nth_element(kept_.begin(), last, kept_.end(), is_better);
  std::erase_if(closed_,
                [&](const Stack& one) { return is_better(*last, one); });
}

bool GrammarState::Covers(const Stack& a, const Stack& b,
                          int64_t& n_looks) const {
  const auto covers = [this](uint32_t above, uint32_t below) {
    const GrammarCopy& x = grammar_->copies[above];
    const GrammarCopy& y = grammar_->copies[below];
    return x.chain == y.chain && x.rank >= y.rank;
  };
  ++n_looks;
  if (!covers(a.pc, b.pc)) return false;
  uint32_t x = a.frame;
  uint32_t y = b.frame;
  for (; x != y; ++n_looks) {
    if (x == kBottom || y == kBottom) return false;
    if (!covers(frames_[x].return_pc, frames_[y].return_pc)) return false;
    x = frames_[x].parent;
    y = frames_[y].parent;
  }
  return true;
}

void GrammarState::Sort() {
  sorted_.clear();
  for (const Stack& stack : closed_) {
    const Frame& frame = frames_[stack.frame];
    sorted_.push_back(
        {grammar_->copies[stack.pc].chain, frame.shape, frame.key, stack});
  }
  // The order puts kReturnPc before all other instructions.
  std::sort(sorted_.begin(), sorted_.end(),
            [](const Sorted& a, const Sorted& b) {
              if (a.chain != b.chain) return a.chain < b.chain;
              if (a.shape != b.shape) return a.shape < b.shape;
              if (a.stack.pc != b.stack.pc) return a.stack.pc > b.stack.pc;
              return a.key < b.key;
            });
  closed_.clear();
  for (const Sorted& one : sorted_) closed_.push_back(one.stack);
}

void GrammarState::Prune() {
  // Only stacks of one shape can cover one another. Among these, stacks that
  // cover others mostly come first.
  Sort();
  const auto chain_of = [this](const Stack& stack) {
    return grammar_->copies[stack.pc].chain;
  };
  kept_.clear();
  size_t group = 0;  // its beginning in kept_
  int64_t n_looks = 0;
  for (const Stack& stack : closed_) {
    if (group < kept_.size() &&
        (chain_of(kept_[group]) != chain_of(stack) ||
         frames_[kept_[group].frame].shape != frames_[stack.frame].shape)) {
      group = kept_.size();
    }
    bool is_covered = false;
    for (size_t i = group;
         i < kept_.size() && !is_covered && n_looks < kMaxPruneSteps; ++i) {
      is_covered = Covers(kept_[i], stack, n_looks);
    }
    if (is_covered) continue;
    if (n_looks < kMaxPruneSteps) {
      const auto begin = kept_.begin() + static_cast<std::ptrdiff_t>(group);
      kept_.erase(std::remove_if(begin, kept_.end(),
                                 [&](const Stack& one) {
                                   return Covers(stack, one, n_looks);
                                 }),
                  kept_.end());
    }
    kept_.push_back(stack);
  }
  closed_.assign(kept_.begin(), kept_.end());
  SpendWork(static_cast<size_t>(n_looks) / 16);
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
    // Another state has the same hash; this one will not be found again.
  }
  SpendWork(1 + n_classes_ / 16 + closed_.size());
  const size_t begin = stacks_.size();
  stacks_.insert(stacks_.end(), closed_.begin(), closed_.end());
  const bool accepts = closed_.front() == Stack{Grammar::kReturnPc, kBottom};
  states_.push_back({begin, stacks_.size(), accepts});
  plain_.AddState();
  ByteSet may_follow;
  std::bitset<Grammar::kMaxTokens> tokens;
  for (const Stack& stack : closed_) {
    const GrammarInstruction& one = grammar_->program[stack.pc];
    if (one.op == Op::kByte) may_follow.set(one.arg);
    if (one.op == Op::kSet) may_follow |= grammar_->sets[one.arg];
    if (one.op == Op::kToken) tokens.set(one.arg);
  }
  for (const uint8_t byte : grammar_->class_bytes) {
    next_.push_back(may_follow.test(byte) ? kUnknown : kDead);
  }
  for (size_t i = 0; i < grammar_->tokens.size(); ++i) {
    next_.push_back(tokens.test(i) ? kUnknown : kDead);
  }
  return number;
}

bool GrammarState::Advance(absl::string_view bytes) {
  State state = current_;
  for (const char one : bytes) {
    state = After(state, grammar_->class_of[static_cast<uint8_t>(one)]);
    if (state == kDead) return false;
  }
  current_ = state;
  return true;
}

bool GrammarState::AdvanceToken(size_t number) {
  const State state = After(current_, ClassOfToken(number));
  if (state == kDead) return false;
  current_ = state;
  return true;
}

bool GrammarState::IsHalfFull() const {
  return states_.size() > room_.states / 2 ||
         stacks_.size() > room_.stacks / 2 ||
         frames_.size() > room_.frames / 2 ||
         std::max(open_.capacity(), closed_.capacity()) > room_.stacks;
}

bool GrammarState::BeginStep() {
  GrantWork();
  if (!IsHalfFull()) return false;
  Forget();
  return true;
}

void GrammarState::Forget() {
  const std::span<const Stack> kept = StacksOf(current_);
  closed_.assign(kept.begin(), kept.end());
  room_ = RoomAtStart();
  room_.stacks = std::max(room_.stacks, kTimesKept * closed_.size());
  ForgetFrames();
  Clear();
  current_ = Intern();
}

void GrammarState::ForgetFrames() {
  constexpr uint32_t kForgotten = ~uint32_t{0};
  constexpr uint32_t kKept = kForgotten - 1;
  renumbered_.assign(frames_.size(), kForgotten);
  renumbered_[kBottom] = kBottom;
  size_t n_kept = 1;
  for (const Stack& stack : closed_) {
    for (uint32_t frame = stack.frame; renumbered_[frame] == kForgotten;
         frame = frames_[frame].parent) {
      renumbered_[frame] = kKept;
      ++n_kept;
    }
  }
  room_.frames = std::max(room_.frames, kTimesKept * n_kept);
  FitEmpty(frame_numbers_, room_.frames);
  // A frame comes after the one below it.
  uint32_t n = 1;
  for (size_t i = 1; i < frames_.size(); ++i) {
    if (renumbered_[i] != kKept) continue;
    Frame frame = frames_[i];
    frame.parent = renumbered_[frame.parent];
    frame_numbers_[FrameKey(frame.return_pc, frame.parent)] = n;
    frames_[n] = frame;
    renumbered_[i] = n++;
  }
  frames_.resize(n);
  Fit(frames_, room_.frames);
  for (Stack& stack : closed_) stack.frame = renumbered_[stack.frame];
  Fit(renumbered_, room_.frames);
}

void GrammarState::Clear() {
  n_last_open_ = 0;
  stacks_.clear();
  states_.assign(1, StateInfo{.begin = 0, .end = 0, .accepts = false});
  next_.assign(n_classes_, kDead);
  open_.clear();
  Fit(stacks_, room_.stacks);
  Fit(states_, room_.states);
  plain_.Clear(room_.states);
  Fit(next_, room_.states * n_classes_);
  FitEmpty(state_numbers_, room_.states);
  Fit(open_, kSeenStacks);
  Fit(closed_, kSeenStacks);
  Fit(kept_, kSeenStacks);
  Fit(sorted_, kSeenStacks);
}

int64_t GrammarState::MemoryBytes() const {
  return plain_.MemoryBytes() +
         static_cast<int64_t>(
             VectorBytes(frames_) + VectorBytes(stacks_) +
             VectorBytes(states_) + VectorBytes(next_) + VectorBytes(open_) +
             VectorBytes(closed_) + VectorBytes(kept_) + VectorBytes(sorted_) +
             VectorBytes(renumbered_) + TableBytes(frame_numbers_) +
             TableBytes(state_numbers_) + TableBytes(seen_));
}

}  // namespace plimsoll::worker
