// Fibers have a switch of our own: swapcontext would enter the kernel twice at
// every barrier of every thread.
#include "kernels/cuda/emulation/simt.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"

#ifdef PLIMSOLL_SIMT_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#ifndef __x86_64__
#error "the emulator switches fibers on x86-64 only"
#endif

// Saves the registers that a call preserves and the stack pointer in *from,
// and continues at the stack pointer `to`.
extern "C" void PlimsollSwitchFiber(void** from, void* to);
asm(R"(
.text
.globl PlimsollSwitchFiber
.type PlimsollSwitchFiber, @function
PlimsollSwitchFiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size PlimsollSwitchFiber, .-PlimsollSwitchFiber
)");

namespace plimsoll::kernels::cuda_emulated {

Dim3 threadIdx;
Dim3 blockIdx;
Dim3 blockDim;
Dim3 gridDim;

namespace {

// The size is an odd number of cache lines. With a power of two the tops of all
// stacks, which fibers switch among, would share a few sets of every cache.
constexpr size_t kStackBytes = (size_t{128} << 10) + size_t{17 * 64};
constexpr int kMaxThreads = 1024;  // in a block, as on the device

struct Warp {
  int arrived = 0;
  int n_lanes = 0;
  uint64_t generation = 0;
  // There are two sets, because a lane may be one exchange ahead of another.
  alignas(16) std::byte values[2][kWarpThreads * kExchangeBytes];
};

struct Copy {
  std::byte* to;
  const std::byte* from;
  size_t bytes;
};

struct BlockCopy {
  Copy copy;
  EmulatedBarrier* barrier;
};

struct Fiber {
  void* stack_pointer = nullptr;
  bool is_done = false;
  bool has_waited = false;  // for kernels before
  // Groups of copies that have not arrived, and copies that are in no group
  // yet. Not a deque, because a deque allocates when it is made.
  std::vector<std::vector<Copy>> copies = {};
  std::vector<Copy> started = {};
};

// The block that is running.
struct Block {
  std::byte* stacks = nullptr;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::vector<std::byte> shared;
  std::vector<BlockCopy> copies;  // copies that have not arrived
  const absl::FunctionRef<void()>* thread = nullptr;
  Fiber host;
  int n_threads = 0;
  int n_alive = 0;
  int current = 0;
  int step = 1;  // 1 or -1: the order in which threads run
  int arrived = 0;
  uint64_t generation = 0;
  int64_t idle_switches = 0;
  bool is_early = false;  // kernels before it have not run yet
  int n_waiting = 0;      // threads that wait for them
};

// While RunAfter runs a grid in one block, what runs before it uses the other.
struct State {
  Block blocks[2];
  bool is_nested = false;
  const absl::FunctionRef<void()>* earlier = nullptr;  // runs before the grid
};

State& TheState() {
  static auto* state = new State;
  return *state;
}
// The block whose threads run.
Block* running_block = nullptr;
Block& TheBlock() { return *running_block; }

Fiber& RunningFiber(Block& block) {
  return block.fibers[static_cast<size_t>(block.current)];
}
Warp& RunningWarp(Block& block) {
  return block.warps[static_cast<size_t>(block.current / kWarpThreads)];
}

std::byte* StackOf(Block& block, int thread) {
  return block.stacks + static_cast<size_t>(thread) * kStackBytes;
}

// Continues in the fibers until one of them switches to the host.
// AddressSanitizer takes them for one stack: telling it of every switch would
// take longer than the switch.
void RunFibers(Block& block) {
  const Fiber& first = RunningFiber(block);
#ifdef PLIMSOLL_SIMT_ASAN
  void* host_fake_stack;
  const void* host_stack;
  size_t host_stack_bytes;
  __sanitizer_start_switch_fiber(&host_fake_stack, block.stacks,
                                 kStackBytes * kMaxThreads);
  __sanitizer_finish_switch_fiber(nullptr, &host_stack, &host_stack_bytes);
#endif
  PlimsollSwitchFiber(&block.host.stack_pointer, first.stack_pointer);
#ifdef PLIMSOLL_SIMT_ASAN
  __sanitizer_start_switch_fiber(nullptr, host_stack, host_stack_bytes);
  __sanitizer_finish_switch_fiber(host_fake_stack, nullptr, nullptr);
#endif
}

void SwitchToHost(Block& block, Fiber& from) {
  PlimsollSwitchFiber(&from.stack_pointer, block.host.stack_pointer);
}

// Continues with the next thread of the block that has not ended.
void Yield(Block& block) {
  const int from = block.current;
  int next = from;
  do {
    next += block.step;
    if (next == block.n_threads) next = 0;
    if (next < 0) next = block.n_threads - 1;
  } while (block.fibers[static_cast<size_t>(next)].is_done);
  PLIMSOLL_CHECK(++block.idle_switches < 8 * kMaxThreads,
                 "a barrier that not every thread reaches");
  block.current = next;
  threadIdx.x = static_cast<unsigned>(next);
  PlimsollSwitchFiber(&block.fibers[static_cast<size_t>(from)].stack_pointer,
                      block.fibers[static_cast<size_t>(next)].stack_pointer);
}

// The first thing that a fiber runs, on its own stack.
void RunThread() {
  Block& block = TheBlock();
  (*block.thread)();
  PLIMSOLL_CHECK(block.arrived == 0, "a thread ended before a barrier");
  Fiber& fiber = RunningFiber(block);
  PLIMSOLL_CHECK(fiber.copies.empty() && fiber.started.empty(),
                 "a thread ended before its copies");
  PLIMSOLL_CHECK(block.n_alive > 1 || block.copies.empty(),
                 "a block ended before its copies");
  Warp& warp = RunningWarp(block);
  PLIMSOLL_CHECK(warp.arrived == 0, "a lane ended before a warp operation");
  --warp.n_lanes;
  block.idle_switches = 0;
  fiber.is_done = true;
  if (--block.n_alive == 0) {
    SwitchToHost(block, fiber);
  } else {
    Yield(block);
  }
}

void StartFiber(Block& block, int thread) {
  Fiber& fiber = block.fibers[static_cast<size_t>(thread)];
  // Builds the top of the stack as the switch leaves it: six registers, then
  // the return address. RunThread finds the alignment that a call would give
  // it.
  auto** top =
      reinterpret_cast<void**>(StackOf(block, thread) + kStackBytes) - 8;
  std::fill(top, top + 8, nullptr);
  top[6] = reinterpret_cast<void*>(&RunThread);
  fiber = {.stack_pointer = top};
}

// Runs a block. With `is_early`, runs it until all threads wait for the kernels
// before.
void RunBlock(Block& block, bool is_early) {
  for (int t = 0; t < block.n_threads; ++t) StartFiber(block, t);
  for (Warp& warp : block.warps) {
    warp.n_lanes = kWarpThreads;
    warp.arrived = 0;
  }
  std::fill(block.shared.begin(), block.shared.end(), std::byte{0xFF});
  block.n_alive = block.n_threads;
  block.arrived = 0;
  block.n_waiting = 0;
  block.is_early = is_early;
  block.idle_switches = 0;
  block.current = block.step > 0 ? 0 : block.n_threads - 1;
  threadIdx = {static_cast<unsigned>(block.current), 0, 0};
  RunFibers(block);
}

// Runs the first block of a grid and, while it waits, what comes before the
// grid.
void RunFirstBlock(Block& block, const absl::FunctionRef<void()>& earlier) {
  RunBlock(block, /*is_early=*/true);
  PLIMSOLL_CHECK(block.n_waiting == block.n_threads,
                 "a thread that did not wait for the kernels before");
  State& state = TheState();
  PLIMSOLL_CHECK(!state.is_nested, "three grids at a time");
  const Dim3 at[] = {threadIdx, blockIdx, blockDim, gridDim};
  state.is_nested = true;
  earlier();
  state.is_nested = false;
  running_block = &block;
  threadIdx = at[0];
  blockIdx = at[1];
  blockDim = at[2];
  gridDim = at[3];
  block.is_early = false;
  RunFibers(block);
}

}  // namespace

void RunGrid(Dim3 grid, int n_threads, int64_t shared_bytes,
             absl::FunctionRef<void()> thread) {
  PLIMSOLL_CHECK(n_threads > 0 && n_threads <= kMaxThreads &&
                     n_threads % kWarpThreads == 0,
                 "a block is of whole warps, 1024 threads at most");
  PLIMSOLL_CHECK(shared_bytes >= 0 && shared_bytes <= kMostDynamicBytes,
                 "a block has at most 227 KiB of shared memory");
  PLIMSOLL_CHECK(grid.x > 0 && grid.x <= 0x7FFFFFFF && grid.y > 0 &&
                     grid.y <= 0xFFFF && grid.z > 0 && grid.z <= 0xFFFF,
                 "a grid outside of the device's limits");
  State& state = TheState();
  running_block = &state.blocks[state.is_nested ? 1 : 0];
  Block& block = *running_block;
  if (block.stacks == nullptr) {
    void* stacks =
        mmap(nullptr, kStackBytes * kMaxThreads, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    PLIMSOLL_CHECK(stacks != MAP_FAILED, "no memory for the fibers' stacks");
    block.stacks = static_cast<std::byte*>(stacks);
  }
  block.n_threads = n_threads;
  block.fibers.resize(static_cast<size_t>(n_threads));
  block.warps.resize(static_cast<size_t>(n_threads / kWarpThreads));
  block.shared = std::vector<std::byte>(static_cast<size_t>(shared_bytes));
  block.thread = &thread;
  gridDim = grid;
  blockDim = {static_cast<unsigned>(n_threads), 1, 1};
  const auto* earlier = std::exchange(state.earlier, nullptr);
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        if (earlier != nullptr) {
          RunFirstBlock(block, *std::exchange(earlier, nullptr));
        } else {
          RunBlock(block, /*is_early=*/false);
        }
        block.step = -block.step;
      }
    }
  }
}

void RunAfter(absl::FunctionRef<void()> earlier,
              absl::FunctionRef<void()> grid) {
  TheState().earlier = &earlier;
  grid();
}

void LetNextKernelBegin() {}

void WaitForKernelsBefore() {
  Block& block = TheBlock();
  Fiber& fiber = RunningFiber(block);
  fiber.has_waited = true;
  if (!block.is_early) return;
  block.idle_switches = 0;
  if (++block.n_waiting == block.n_alive) {
    SwitchToHost(block, fiber);
  }
  while (block.is_early) Yield(block);
}

void CheckWaited() {
  PLIMSOLL_CHECK(RunningFiber(TheBlock()).has_waited,
                 "a thread that did not wait for the kernels before");
}

void SyncThreads() {
  Block& block = TheBlock();
  PLIMSOLL_CHECK(block.n_alive == block.n_threads,
                 "a barrier that a thread has left");
  const uint64_t generation = block.generation;
  if (++block.arrived == block.n_threads) {
    block.arrived = 0;
    ++block.generation;
    block.idle_switches = 0;
  }
  while (block.generation == generation) Yield(block);
}

std::byte* ExchangeSlot() {
  Warp& warp = RunningWarp(TheBlock());
  return warp.values[warp.generation % 2] +
         static_cast<size_t>(CurrentLane()) * kExchangeBytes;
}

const std::byte* Exchange(absl::FunctionRef<void(std::byte*)> change) {
  Block& block = TheBlock();
  Warp& warp = RunningWarp(block);
  PLIMSOLL_CHECK(warp.n_lanes == kWarpThreads,
                 "a warp operation that a lane has left");
  const uint64_t generation = warp.generation;
  if (++warp.arrived == kWarpThreads) {
    change(warp.values[generation % 2]);
    warp.arrived = 0;
    ++warp.generation;
    block.idle_switches = 0;
  }
  while (warp.generation == generation) Yield(block);
  return warp.values[generation % 2];
}

void CopyLater(std::byte* to, const std::byte* from, size_t bytes) {
  Block& block = TheBlock();
  RunningFiber(block).started.push_back({to, from, bytes});
}

void CommitCopies() {
  Block& block = TheBlock();
  Fiber& fiber = RunningFiber(block);
  fiber.copies.push_back(std::exchange(fiber.started, {}));
}

void FinishCopies(int n_left) {
  Block& block = TheBlock();
  Fiber& fiber = RunningFiber(block);
  while (std::ssize(fiber.copies) > n_left) {
    for (const Copy& copy : fiber.copies.front()) {
      std::memcpy(copy.to, copy.from, copy.bytes);
    }
    fiber.copies.erase(fiber.copies.begin());
  }
}

namespace {

void EndPhaseIfComplete(Block& block, EmulatedBarrier* barrier) {
  if (barrier->n_left > 0 || barrier->bytes_left > 0) return;
  barrier->n_left = barrier->n_threads;
  barrier->phase ^= 1;
  block.idle_switches = 0;
}

// Brings the bytes of all copies for a barrier.
void FinishCopiesFor(Block& block, EmulatedBarrier* barrier) {
  const auto is_for = [&](const BlockCopy& one) {
    return one.barrier == barrier;
  };
  for (const BlockCopy& one : block.copies) {
    if (!is_for(one)) continue;
    std::memcpy(one.copy.to, one.copy.from, one.copy.bytes);
    barrier->bytes_left = static_cast<int16_t>(
        barrier->bytes_left - static_cast<int>(one.copy.bytes / 16));
  }
  if (std::erase_if(block.copies, is_for) > 0) {
    EndPhaseIfComplete(block, barrier);
  }
}

}  // namespace

void ArriveAt(EmulatedBarrier* barrier, int bytes) {
  PLIMSOLL_CHECK(barrier->n_left > 0, "too many threads at a barrier");
  --barrier->n_left;
  barrier->bytes_left = static_cast<int16_t>(barrier->bytes_left + bytes / 16);
  EndPhaseIfComplete(TheBlock(), barrier);
}

void AwaitBarrier(EmulatedBarrier* barrier, int parity) {
  Block& block = TheBlock();
  FinishCopiesFor(block, barrier);
  while (barrier->phase == parity) {
    Yield(block);
    FinishCopiesFor(block, barrier);
  }
}

void CopyToBarrier(std::byte* to, const std::byte* from, size_t bytes,
                   EmulatedBarrier* barrier) {
  Block& block = TheBlock();
  std::memset(to, 0xFF, bytes);
  block.copies.push_back({{to, from, bytes}, barrier});
}

std::byte* DynamicShared() { return TheBlock().shared.data(); }

}  // namespace plimsoll::kernels::cuda_emulated
