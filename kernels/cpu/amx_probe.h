// Whether this process can use tiles of bytes (AMX).
#ifndef PLIMSOLL_KERNELS_CPU_AMX_PROBE_H_
#define PLIMSOLL_KERNELS_CPU_AMX_PROBE_H_

namespace plimsoll::kernels {

enum class AmxState {
  kAbsent,      // the CPU does not announce it
  kNotSaved,    // the system does not save the tiles' state
  kNotAllowed,  // the system does not permit this process to use it
  kTraps,       // all of them say yes, and its instructions trap all the same
  kRuns,
};

// Asks the CPU, then the system, and then runs a product of tiles.
// Thread-safe.
AmxState ProbeAmx();

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CPU_AMX_PROBE_H_
