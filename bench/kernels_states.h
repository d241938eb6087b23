// Benchmarks of layers that keep a state for each sequence.
#ifndef PLIMSOLL_BENCH_KERNELS_STATES_H_
#define PLIMSOLL_BENCH_KERNELS_STATES_H_

namespace plimsoll::kernels {

// Registers short convolutions and scans of states: for one row by the bytes
// that it moves, for 512 rows of a prompt also by the multiply-adds.
void RegisterStates();

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_BENCH_KERNELS_STATES_H_
