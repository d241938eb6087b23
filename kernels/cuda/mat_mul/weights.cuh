// Reads one element of any weight type, for gathers and float products.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_WEIGHTS_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_WEIGHTS_CUH_

#include "kernels/cuda/mat_mul/grids.cuh"
#include "kernels/cuda/numeric.cuh"
#include "kernels/cuda/weight_layout.h"
#include "kernels/quant/tables.h"
#include "kernels/tensor_view.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// A weight matrix in the form for kernels.
struct DeviceMatrix {
  const uint8_t* data;
  TiledMatrix at;
  int64_t rows;
  int64_t cols;
  const float* scale;  // as in WeightMatrix

  __device__ float Scale() const { return scale == nullptr ? 1.0f : *scale; }
};

inline DeviceMatrix MatrixOf(const WeightMatrix& w) {
  return {reinterpret_cast<const uint8_t*>(w.data),
          LayOut(w.dtype, w.rows, w.cols), w.rows, w.cols, w.scale};
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
    case DType::kMxfp4:
      return function(TypeConstant<DType::kMxfp4>{});
    case DType::kIq4Nl:
      return function(TypeConstant<DType::kIq4Nl>{});
    case DType::kIq4Xs:
      return function(TypeConstant<DType::kIq4Xs>{});
    case DType::kQ3_K:
      return function(TypeConstant<DType::kQ3_K>{});
    case DType::kQ2_K:
      return function(TypeConstant<DType::kQ2_K>{});
    case DType::kNvfp4:
      return function(TypeConstant<DType::kNvfp4>{});
    case DType::kTq1_0:
      return function(TypeConstant<DType::kTq1_0>{});
    case DType::kTq2_0:
      return function(TypeConstant<DType::kTq2_0>{});
    case DType::kIq2Xxs:
      return function(TypeConstant<DType::kIq2Xxs>{});
    case DType::kIq2Xs:
      return function(TypeConstant<DType::kIq2Xs>{});
    case DType::kIq2S:
      return function(TypeConstant<DType::kIq2S>{});
    case DType::kIq3Xxs:
      return function(TypeConstant<DType::kIq3Xxs>{});
    case DType::kIq3S:
      return function(TypeConstant<DType::kIq3S>{});
    case DType::kIq1S:
      return function(TypeConstant<DType::kIq1S>{});
    case DType::kIq1M:
      return function(TypeConstant<DType::kIq1M>{});
    default:
      return;  // UploadRows has refused other types
  }
}

template <class T>
__device__ T LoadAt(const uint8_t* base, int64_t byte) {
  return __ldg(reinterpret_cast<const T*>(base + byte));
}

// The contents of a type's planes. HasFifths: one more bit per quant, the fifth
// or Q3_K's third. HasBitPairs: quants of two bits. HasByteScales and
// HasSixBits: a byte, or six bits, for each half of a tile's columns (for Q4_K
// and Q5_K, a scale and a minimum).
constexpr bool HasFifths(DType type) {
  return PlanesOf(type).highs == 64 && !IsGridType(type);
}
constexpr bool HasBitPairs(DType type) {
  return PlanesOf(type).quants == 128 && !IsGridType(type);
}
constexpr bool HasSixBits(DType type) {
  return PlanesOf(type).subscales == 192 && !IsGridType(type);
}
constexpr bool HasByteScales(DType type) {
  return PlanesOf(type).subscales == 256 && !IsGridType(type);
}
constexpr bool HasPairScales(DType type) { return PlanesOf(type).scales == 64; }

// The values of four-bit codes, or null if the type's nibbles are numbers.
constexpr const int8_t* TableOf(DType type) {
  if (type == DType::kMxfp4 || type == DType::kNvfp4) return kDoubledE2M1;
  const bool is_iq4 = type == DType::kIq4Nl || type == DType::kIq4Xs;
  return is_iq4 ? kIq4Values : nullptr;
}
constexpr bool HasTable(DType type) { return TableOf(type) != nullptr; }

// Values [4 i, 4 i + 4) of a table in one word.
template <DType kType, int i>
inline constexpr uint32_t kTableWord = [] {
  uint32_t word = 0;
  for (int b = 0; b < 4; ++b) {
    const auto byte = static_cast<uint8_t>(TableOf(kType)[4 * i + b]);
    word |= uint32_t{byte} << (8 * b);
  }
  return word;
}();

// The table's values of the four nibbles of `nibbles`' lower half.
template <DType kType>
__device__ uint32_t LookUp(uint32_t nibbles) {
  const uint32_t index = nibbles & 0x7777u;
  const uint32_t first =
      PickBytes(kTableWord<kType, 0>, kTableWord<kType, 1>, index);
  const uint32_t second =
      PickBytes(kTableWord<kType, 2>, kTableWord<kType, 3>, index);
  return PickBytes(first, second, 0x3210u | ((nibbles & 0x8888u) >> 1));
}

// Weights are scale * (quant - ZeroOf) or scale * quant + offset.
constexpr int ZeroOf(DType type) {
  switch (type) {
    case DType::kQ4_0:
      return 8;
    case DType::kQ5_0:
      return 16;
    case DType::kQ6_K:
      return 32;
    case DType::kQ3_K:
      return 4;
    case DType::kTq1_0:
    case DType::kTq2_0:
      return 1;
    default:
      return 0;
  }
}

// The digits of index `digit` of four bytes of TQ1_0.
__device__ inline uint32_t TernaryDigits(uint32_t bytes, int digit) {
  constexpr uint32_t kEven = 0x00FF00FFu;
  const auto power = static_cast<uint32_t>(PowerOf3(digit));
  const uint32_t even = ((bytes & kEven) * power) & kEven;
  const uint32_t odd = (((bytes >> 8) & kEven) * power) & kEven;
  return (((even * 3) >> 8) & kEven) | ((odd * 3) & ~kEven);
}

// The place of a row's word with the digit `at` in a block of TQ1_0.
__device__ inline int64_t TernaryWordAt(const TernaryDigit& at, int slot) {
  return (at.byte / 4 * 16 + slot) * 4;
}

// The quant of an element of a tile, in the file's numbering, or the value of
// its code.
template <DType kType>
__device__ int QuantOf(const DeviceMatrix& w, int64_t tile, int row, int col) {
  constexpr TilePlanes kPlanes = PlanesOf(kType);
  const uint8_t* quants = w.data + tile * kPlanes.quants;
  [[maybe_unused]] const uint8_t* highs =
      w.data + w.at.highs + tile * kPlanes.highs;
  int q = 0;
  if constexpr (kType == DType::kQ8_0) {
    return static_cast<int8_t>(quants[QuantByte(row, col)]);
  } else if constexpr (kType == DType::kTq1_0) {
    const auto sub = static_cast<int>(tile % kPlanes.block_tiles);
    const TernaryDigit at =
        TernaryDigitOf(sub * static_cast<int>(kTileCols) + col);
    const auto word = LoadAt<uint32_t>(quants - sub * kPlanes.quants,
                                       TernaryWordAt(at, RowSlot(row)));
    const uint32_t digits = TernaryDigits(word, at.digit);
    return static_cast<int>((digits >> (8 * (at.byte % 4))) & 0xFFu);
  } else if constexpr (HasBitPairs(kType)) {
    q = (quants[HighByte(row, col)] >> HighShift(row, col)) & 3;
  } else {
    q = (quants[NibbleByte(row, col)] >> NibbleShift(col)) & 15;
  }
  if constexpr (HasTable(kType)) {
    const uint32_t value = LookUp<kType>(static_cast<uint32_t>(q));
    return static_cast<int8_t>(value & 0xFFu);
  } else if constexpr (HasFifths(kType)) {
    const auto bits = LoadAt<uint32_t>(highs, RowSlot(row) * 4);
    q |= static_cast<int>((bits >> col) & 1u) << (HasBitPairs(kType) ? 2 : 4);
  } else if constexpr (kType == DType::kQ6_K) {
    q |= ((highs[HighByte(row, col)] >> HighShift(row, col)) & 3) << 4;
  }
  return q;
}

// A tile row's part of the planes of scales.
struct StoredScales {
  // The row's words, or the bytes of the tile's halves.
  uint32_t subscales[3];
  uint32_t scales;  // d, or d and its second value, or e, or four scales
  GridRow grid;     // instead, for grid types
};

// The value of a quant is scale * quant + offset.
struct ScaleAndOffset {
  float scale;
  float offset;
};

// The scale and the offset of half of the columns of tile `sub` of a block.
template <DType kType>
__device__ ScaleAndOffset Unpacked(const StoredScales& stored, int sub,
                                   int half) {
  if constexpr (IsGridType(kType)) {
    return {GridScale<kType>(stored.grid, sub, half), 0};
  } else if constexpr (kType == DType::kMxfp4) {
    return {FloatOfBits(BitsOfHalfE8M0(stored.scales)), 0};
  } else if constexpr (kType == DType::kNvfp4) {
    const uint32_t scale = stored.scales >> (8 * (2 * sub + half));
    return {HalfOfUE4M3(scale & 0xFFu), 0};
  } else {
    const float d = FloatOfHalf(LowHalf(stored.scales));
    [[maybe_unused]] const float m = FloatOfHalf(HighHalf(stored.scales));
    if constexpr (HasSixBits(kType)) {
      const uint32_t highs = stored.subscales[2];
      const int first = ScaleOf(stored.subscales[0], highs, sub);
      const int second = MinimumOf(stored.subscales[1], highs, sub);
      if constexpr (kType == DType::kQ3_K) {
        return {d * static_cast<float>((half == 0 ? first : second) - 32), 0};
      } else {
        return {d * static_cast<float>(first),
                -(m * static_cast<float>(second))};
      }
    } else if constexpr (kType == DType::kIq4Xs) {
      const int scale =
          ScaleOfIq4Xs(stored.subscales[0], HighHalf(stored.scales), sub);
      return {d * static_cast<float>(scale), 0};
    } else if constexpr (HasByteScales(kType)) {
      const uint32_t byte = (stored.subscales[0] >> (8 * half)) & 0xFFu;
      if constexpr (kType == DType::kQ6_K) {
        return {d * static_cast<float>(static_cast<int8_t>(byte)), 0};
      } else {
        return {d * static_cast<float>(byte & 15u),
                -(m * static_cast<float>(byte >> 4))};
      }
    } else {
      return {d, HasPairScales(kType) ? m : 0.0f};
    }
  }
}

// Loads the part of a tile's row `row` in the planes of scales.
template <DType kType>
__device__ StoredScales LoadScales(const DeviceMatrix& w, int64_t tile,
                                   int row) {
  constexpr TilePlanes kPlanes = PlanesOf(kType);
  const int64_t block = tile / kPlanes.block_tiles;
  const uint8_t* scales = w.data + w.at.scales + block * kPlanes.scales;
  [[maybe_unused]] const uint8_t* subscales =
      w.data + w.at.subscales + block * kPlanes.subscales;
  const int slot = RowSlot(row);
  StoredScales stored = {};
  if constexpr (HasByteScales(kType)) {
    const auto sub = static_cast<int>(tile % kPlanes.block_tiles);
    stored.subscales[0] = LoadAt<uint16_t>(subscales, Scale8Byte(sub, row, 0));
  } else {
    for (int i = 0; i < kPlanes.subscales / 64; ++i) {
      stored.subscales[i] = LoadAt<uint32_t>(subscales, (16 * i + slot) * 4);
    }
  }
  if constexpr (HasPairScales(kType)) {
    stored.scales = LoadAt<uint32_t>(scales, slot * 4);
  } else if constexpr (kType == DType::kMxfp4) {
    stored.scales = scales[slot];
  } else {
    stored.scales = LoadAt<uint16_t>(scales, slot * 2);
  }
  return stored;
}

// Loads row `row` of a tile of a grid type.
template <DType kType>
__device__ GridRow LoadGridRow(const DeviceMatrix& w, int64_t tile, int row) {
  constexpr TilePlanes kPlanes = PlanesOf(kType);
  constexpr int kWords = GridFormOf(kType).n_words;
  const int64_t block = tile / kPlanes.block_tiles;
  const int slot = RowSlot(row);
  const auto word_at = [&](int64_t plane, int k) {
    return LoadAt<uint32_t>(w.data + plane, (16 * k + slot) * 4);
  };
  GridRow loaded = {};
  for (int k = 0; k < kWords && k < 2; ++k) {
    loaded.words[k] = word_at(tile * kPlanes.quants, k);
  }
  if constexpr (kWords == 3) {
    loaded.words[2] = word_at(w.at.highs + tile * kPlanes.highs, 0);
  }
  for (int k = 0; k < kPlanes.subscales / 64; ++k) {
    loaded.bytes[k] = word_at(w.at.subscales + block * kPlanes.subscales, k);
  }
  if constexpr (kPlanes.scales != 0) {
    loaded.d = LoadAt<uint16_t>(w.data + w.at.scales + block * kPlanes.scales,
                                slot * 2);
  }
  return loaded;
}

// The value of an element of a tiled matrix, rounded like the reference.
template <DType kType>
__device__ float TiledElement(const DeviceMatrix& w, int64_t row, int64_t col) {
  const auto in_row = static_cast<int>(row % kTileRows);
  const auto in_col = static_cast<int>(col % kTileCols);
  const int64_t tile = w.at.Tile(row / kTileRows, col / kTileCols);
  const auto sub = static_cast<int>(tile % PlanesOf(kType).block_tiles);
  if constexpr (IsGridType(kType)) {
    const GridRow grid = LoadGridRow<kType>(w, tile, in_row);
    const uint32_t four =
        GridQuants<kType>(grid, sub, in_col / 16, in_col % 16 / 4);
    const auto q = static_cast<int8_t>((four >> (8 * (in_col % 4))) & 0xFFu);
    return GridScale<kType>(grid, sub, in_col / 16) * static_cast<float>(q);
  } else {
    const int q = QuantOf<kType>(w, tile, in_row, in_col) - ZeroOf(kType);
    const ScaleAndOffset by =
        Unpacked<kType>(LoadScales<kType>(w, tile, in_row), sub, in_col / 16);
    return by.scale * static_cast<float>(q) + by.offset;
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
