// The 12B model whose shapes cuda_bench has.
#ifndef PLIMSOLL_BENCH_CUDA_MODEL_H_
#define PLIMSOLL_BENCH_CUDA_MODEL_H_

#include <cstdint>

namespace plimsoll::kernels {

inline constexpr int64_t kLayers = 48;
inline constexpr int64_t kHeads = 16;
inline constexpr int64_t kKvHeads = 8;
inline constexpr int64_t kHeadDim = 256;
inline constexpr int64_t kModelDim = 3840;
inline constexpr int64_t kFfnDim = 15'360;
inline constexpr int64_t kVocabulary = 262'144;

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_BENCH_CUDA_MODEL_H_
