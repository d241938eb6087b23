// Reads one element of any weight type, for gathers and float products.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_WEIGHTS_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_WEIGHTS_CUH_

#include "kernels/cuda/mat_mul/weight_layout.h"
#include "kernels/cuda/numeric.cuh"
#include "kernels/tensor_view.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// A weight matrix as kernels get it.
struct DeviceMatrix {
  const uint8_t* data;
  TiledMatrix at;
  int64_t rows;
  int64_t cols;
};

inline DeviceMatrix MatrixOf(const WeightMatrix& w) {
  return {reinterpret_cast<const uint8_t*>(w.data),
          LayOut(w.dtype, w.rows, w.cols), w.rows, w.cols};
}

// Calls `function` with the type as a TypeConstant.
template <class Function>
void WithType(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::kF32:
      return function(TypeConstant<DType::kF32>{});
    case DType::kF16:
      return function(TypeConstant<DType::kF16>{});
    case DType::kBF16:
      return function(TypeConstant<DType::kBF16>{});
    case DType::kQ8_0:
      return function(TypeConstant<DType::kQ8_0>{});
    case DType::kQ4_0:
      return function(TypeConstant<DType::kQ4_0>{});
    case DType::kQ4_1:
      return function(TypeConstant<DType::kQ4_1>{});
    case DType::kQ5_0:
      return function(TypeConstant<DType::kQ5_0>{});
    case DType::kQ5_1:
      return function(TypeConstant<DType::kQ5_1>{});
    case DType::kQ4_K:
      return function(TypeConstant<DType::kQ4_K>{});
    case DType::kQ5_K:
      return function(TypeConstant<DType::kQ5_K>{});
    case DType::kQ6_K:
      return function(TypeConstant<DType::kQ6_K>{});
    default:
      return;  // UploadRows has refused it
  }
}

template <class T>
__device__ T LoadAt(const uint8_t* base, int64_t byte) {
  return __ldg(reinterpret_cast<const T*>(base + byte));
}

constexpr bool HasFifths(DType type) {
  return type == DType::kQ5_0 || type == DType::kQ5_1 || type == DType::kQ5_K;
}
constexpr bool HasPairScales(DType type) { return PlanesOf(type).scales == 64; }

// The quant of an element of a tile, as the file numbers it.
template <DType kType>
__device__ int QuantOf(const DeviceMatrix& w, int64_t tile, int row, int col) {
  constexpr TilePlanes kPlanes = PlanesOf(kType);
  const uint8_t* quants = w.data + tile * kPlanes.quants;
  if constexpr (kType == DType::kQ8_0) {
    return static_cast<int8_t>(quants[QuantByte(row, col)]);
  } else {
    int q = (quants[NibbleByte(row, col)] >> NibbleShift(col)) & 15;
    const uint8_t* highs = w.data + w.at.highs + tile * kPlanes.highs;
    if constexpr (HasFifths(kType)) {
      const auto bits = LoadAt<uint32_t>(highs, RowSlot(row) * 4);
      q |= static_cast<int>((bits >> col) & 1u) << 4;
    } else if constexpr (kType == DType::kQ6_K) {
      q |= ((highs[HighByte(row, col)] >> HighShift(row, col)) & 3) << 4;
    }
    return q;
  }
}

// The value of an element of a tiled matrix, rounded as the reference rounds
// it.
template <DType kType>
__device__ float TiledElement(const DeviceMatrix& w, int64_t row, int64_t col) {
  constexpr TilePlanes kPlanes = PlanesOf(kType);
  const auto in_row = static_cast<int>(row % kTileRows);
  const auto in_col = static_cast<int>(col % kTileCols);
  const int64_t tile = w.at.Tile(row / kTileRows, col / kTileCols);
  const int64_t block = tile / kPlanes.block_tiles;
  const auto sub = static_cast<int>(tile % kPlanes.block_tiles);
  const int q = QuantOf<kType>(w, tile, in_row, in_col);
  const int slot = RowSlot(in_row);
  const uint8_t* scales = w.data + w.at.scales + block * kPlanes.scales;
  const uint8_t* subscales =
      w.data + w.at.subscales + block * kPlanes.subscales;
  if constexpr (kPlanes.subscales == 192) {
    const auto d = FloatOfHalf(LoadAt<uint16_t>(scales, slot * 4));
    const auto m = FloatOfHalf(LoadAt<uint16_t>(scales, slot * 4 + 2));
    const auto highs = LoadAt<uint32_t>(subscales, (32 + slot) * 4);
    const int scale =
        ScaleOf(LoadAt<uint32_t>(subscales, slot * 4), highs, sub);
    const int minimum =
        MinimumOf(LoadAt<uint32_t>(subscales, (16 + slot) * 4), highs, sub);
    return d * static_cast<float>(scale) * static_cast<float>(q) -
           m * static_cast<float>(minimum);
  } else if constexpr (kType == DType::kQ6_K) {
    const auto d = FloatOfHalf(LoadAt<uint16_t>(scales, slot * 2));
    const auto scale =
        static_cast<int8_t>(subscales[Scale8Byte(sub, in_row, in_col / 16)]);
    return d * static_cast<float>(scale) * static_cast<float>(q - 32);
  } else if constexpr (HasPairScales(kType)) {
    const auto d = FloatOfHalf(LoadAt<uint16_t>(scales, slot * 4));
    const auto m = FloatOfHalf(LoadAt<uint16_t>(scales, slot * 4 + 2));
    return d * static_cast<float>(q) + m;
  } else {
    constexpr int kZero = kType == DType::kQ4_0   ? 8
                          : kType == DType::kQ5_0 ? 16
                                                  : 0;
    const auto d = FloatOfHalf(LoadAt<uint16_t>(scales, slot * 2));
    return d * static_cast<float>(q - kZero);
  }
}

template <DType kType>
__device__ float Element(const DeviceMatrix& w, int64_t row, int64_t col) {
  if constexpr (kType == DType::kF32) {
    return LoadAt<float>(w.data, (row * w.cols + col) * 4);
  } else if constexpr (kType == DType::kF16) {
    return FloatOfHalf(LoadAt<uint16_t>(w.data, (row * w.cols + col) * 2));
  } else if constexpr (kType == DType::kBF16) {
    return FloatOfBfloat(LoadAt<uint16_t>(w.data, (row * w.cols + col) * 2));
  } else {
    return TiledElement<kType>(w, row, col);
  }
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_WEIGHTS_CUH_
