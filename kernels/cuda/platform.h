// Names the namespace of this build of the CUDA code: `cuda` for a device,
// `cuda_emulated` for the tests' emulator. One program may contain both.
#ifndef PLIMSOLL_KERNELS_CUDA_PLATFORM_H_
#define PLIMSOLL_KERNELS_CUDA_PLATFORM_H_

#ifdef PLIMSOLL_CUDA_EMULATED
#include "kernels/cuda/emulation/simt.h"
#define PLIMSOLL_CUDA cuda_emulated
#else
#include <cuda_runtime.h>
#define PLIMSOLL_CUDA cuda
#endif

#endif  // PLIMSOLL_KERNELS_CUDA_PLATFORM_H_
