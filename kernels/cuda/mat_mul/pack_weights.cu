// Each thread makes one 32-bit word of a plane from the file's bytes.
#include <algorithm>

#include "base/status_macros.h"
#include "kernels/cuda/mat_mul/weights.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/quant/scale_offset.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 256;

// Some rows of a matrix as the file has them.
struct FileRows {
  const uint8_t* bytes;
  int64_t n_rows;
  int64_t row_bytes;
};

// A block of columns of one tile of rows in the file. Rows that are missing
// read as zeros.
template <DType kType>
struct FileBlock {
  const uint8_t* bytes;  // the block in the tile's first row
  int64_t row_bytes;
  int64_t n_rows;

  __device__ uint32_t Byte(int row, int i) const {
    return row < n_rows ? bytes[row * row_bytes + i] : 0u;
  }
  __device__ uint32_t Half(int row, int i) const {
    return Byte(row, i) | (Byte(row, i + 1) << 8);
  }
  __device__ uint32_t Word(int row, int i) const {
    return Half(row, i) | (Half(row, i + 2) << 16);
  }
};

// The offset of the nibbles in a block of the file, which lie 16 bytes for 32
// columns.
constexpr int NibblesOffset(DType type) {
  switch (type) {
    case DType::kQ4_1:
      return 4;
    case DType::kQ5_0:
      return 6;
    case DType::kQ5_1:
    case DType::kIq4Xs:
      return 8;
    case DType::kMxfp4:
      return 1;
    default:
      return 2;
  }
}

// The offset of the bit pairs in a block of the file.
constexpr int BitPairsOffset(DType type) {
  switch (type) {
    case DType::kQ2_K:
      return 16;
    case DType::kQ3_K:
      return 32;
    case DType::kTq2_0:
      return 0;
    default:  // Q6_K
      return 128;
  }
}

// The four low bits of column `col` of tile `sub` of the block, in row `row`.
template <DType kType>
__device__ uint32_t FileNibble(const FileBlock<kType>& file, int row, int sub,
                               int col) {
  if constexpr (kType == DType::kQ4_K || kType == DType::kQ5_K) {
    const int begin = kType == DType::kQ5_K ? 48 : 16;
    const uint32_t byte = file.Byte(row, begin + 32 * (sub / 2) + col);
    return (byte >> (4 * (sub % 2))) & 15u;
  } else if constexpr (kType == DType::kQ6_K) {
    const int group = sub % 4;
    const uint32_t byte =
        file.Byte(row, 64 * (sub / 4) + 32 * (group % 2) + col);
    return (byte >> (group < 2 ? 0 : 4)) & 15u;
  } else if constexpr (kType == DType::kNvfp4) {
    const uint32_t byte = file.Byte(row, 4 + 16 * sub + col / 16 * 8 + col % 8);
    return (byte >> (col % 16 < 8 ? 0 : 4)) & 15u;
  } else {
    const uint32_t byte =
        file.Byte(row, NibblesOffset(kType) + 16 * sub + col % 16);
    return (byte >> (col < 16 ? 0 : 4)) & 15u;
  }
}

// Returns word `word` of a tile's bit pairs.
template <DType kType>
__device__ uint32_t BitPairsWord(const FileBlock<kType>& file, int sub,
                                 int word) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    for (int part = 0; part < 4; ++part) {
      const int row = word / 4 + part % 2 * 8;
      const int col = word % 4 * 4 + i + part / 2 * 16;
      const uint32_t byte =
          file.Byte(row, BitPairsOffset(kType) + 32 * (sub / 4) + col);
      value |= ((byte >> (2 * (sub % 4))) & 3u)
               << (8 * i + HighShift(row, col));
    }
  }
  return value;
}

// Word `k` of tile `sub` of a grid type, of the row at `slot`.
template <DType kType>
__device__ uint32_t FileGridWord(const FileBlock<kType>& file, int sub, int k,
                                 int slot) {
  constexpr GridForm kForm = GridFormOf(kType);
  const GridWords words = kForm.words[k];
  return file.Word(SlotRow(slot), words.offset + sub * words.stride);
}

// Returns word `word` of a tile's quants.
template <DType kType>
__device__ uint32_t QuantWord(const FileBlock<kType>& file, int sub, int word) {
  uint32_t value = 0;
  if constexpr (IsGridType(kType)) {
    value = FileGridWord(file, sub, word / 16, word % 16);
  } else if constexpr (kType == DType::kTq1_0) {
    // Word `word` of the tile's share of the block's words.
    const int in_block =
        sub * (static_cast<int>(PlanesOf(kType).quants) / 4) + word;
    value = file.Word(SlotRow(in_block % 16), in_block / 16 * 4);
  } else if constexpr (kType == DType::kQ8_0) {
    const int lane = word / 4;
    const int part = word % 4;
    const int row = lane / 4 + part % 2 * 8;
    const int col = lane % 4 * 4 + part / 2 * 16;
    value = file.Word(row, 2 + col);
  } else if constexpr (HasBitPairs(kType)) {
    value = BitPairsWord(file, sub, word);
  } else {
    const int lane = word / 2;
    const int row = lane / 4 + word % 2 * 8;
    for (int i = 0; i < 4; ++i) {
      const int col = lane % 4 * 4 + i;
      const uint32_t byte = FileNibble<kType>(file, row, sub, col) |
                            (FileNibble<kType>(file, row, sub, col + 16) << 4);
      value |= byte << (8 * i);
    }
  }
  return value;
}

template <DType kType>
__device__ uint32_t HighWord(const FileBlock<kType>& file, int sub, int word) {
  uint32_t value = 0;
  if constexpr (IsGridType(kType)) {
    value = FileGridWord(file, sub, 2, word);
  } else if constexpr (kType == DType::kQ6_K) {
    value = BitPairsWord(file, sub, word);
  } else if constexpr (kType == DType::kQ5_K || kType == DType::kQ3_K) {
    const int begin = kType == DType::kQ5_K ? 16 : 0;
    for (int col = 0; col < 32; ++col) {
      value |= ((file.Byte(SlotRow(word), begin + col) >> sub) & 1u) << col;
    }
  } else {  // Q5_0, Q5_1
    value = file.Word(SlotRow(word), NibblesOffset(kType) - 4);
  }
  return value;
}

// The six-bit scale (or minimum) of tile `tile` as Q4_K and Q5_K store it in
// the file, and the scale of the tile's first (or second) half as Q3_K does.
// Source: the GGUF specification's block layouts.
template <DType kType>
__device__ uint32_t FileScale6(const FileBlock<kType>& file, int row, int tile,
                               bool is_second) {
  if constexpr (kType == DType::kQ3_K) {
    const int s = 96;
    const int k = 2 * tile + (is_second ? 1 : 0);
    const uint32_t low = file.Byte(row, s + k % 8) >> (k < 8 ? 0 : 4);
    const uint32_t high = file.Byte(row, s + 8 + k % 4) >> (2 * (k / 4));
    return (low & 15u) | ((high & 3u) << 4);
  } else {
    const int s = 4;
    if (tile < 4) return file.Byte(row, s + tile + (is_second ? 4 : 0)) & 63u;
    const uint32_t low = file.Byte(row, s + tile + 4);
    const uint32_t high = file.Byte(row, s + tile - (is_second ? 0 : 4)) >> 6;
    return ((is_second ? low >> 4 : low) & 15u) | (high << 4);
  }
}

template <DType kType>
__device__ uint32_t SubscaleWord(const FileBlock<kType>& file, int word) {
  uint32_t value = 0;
  if constexpr (IsGridType(kType)) {
    constexpr GridForm kForm = GridFormOf(kType);
    for (int i = 0; i < 4; ++i) {
      const int at = kForm.ByteAt(word / 16 * 4 + i);
      value |= file.Byte(SlotRow(word % 16), at) << (8 * i);
    }
  } else if constexpr (HasByteScales(kType)) {
    const int begin = kType == DType::kQ6_K ? 192 : 0;
    for (int i = 0; i < 4; ++i) {
      const int byte = word * 4 + i;
      const int row = SlotRow(byte / 2 % 16);
      const int tile = byte / 32;
      value |= file.Byte(row, begin + tile * 2 + byte % 2) << (8 * i);
    }
  } else if constexpr (kType == DType::kIq4Xs) {
    value = file.Word(SlotRow(word), 4);
  } else {
    const int row = SlotRow(word % 16);
    for (int tile = 0; tile < 8; ++tile) {
      const uint32_t first = FileScale6(file, row, tile, /*is_second=*/false);
      const uint32_t second = FileScale6(file, row, tile, /*is_second=*/true);
      const uint32_t bits = word / 16 == 0 ? first & 15u
                            : word / 16 == 1
                                ? second & 15u
                                : (first >> 4) | ((second >> 4) << 2);
      value |= bits << (4 * tile);
    }
  }
  return value;
}

template <DType kType>
__device__ uint32_t ScaleWord(const FileBlock<kType>& file, int word) {
  constexpr int kAt = ScaleOffset(kType);
  if constexpr (HasPairScales(kType)) {
    return file.Word(SlotRow(word), kAt);
  } else if constexpr (kType == DType::kMxfp4) {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      value |= file.Byte(SlotRow(4 * word + i), kAt) << (8 * i);
    }
    return value;
  } else {
    return file.Half(SlotRow(2 * word), kAt) |
           (file.Half(SlotRow(2 * word + 1), kAt) << 16);
  }
}

// Thread i makes word i of the tiles of the given rows, plane after plane:
// first all quants, then all highs, and so on.
template <DType kType>
__global__ void PackWords(FileRows file, DeviceMatrix to, uint8_t* data,
                          int64_t first_row_tile, int64_t n_row_tiles) {
  constexpr TilePlanes kPlanes = PlanesOf(kType);
  constexpr int64_t kBlockBytes = InfoOf(kType).block_bytes;
  const int64_t n_tiles = n_row_tiles * to.at.col_tiles;
  const int64_t n_blocks = n_tiles / kPlanes.block_tiles;
  const int64_t row_blocks = to.at.col_tiles / kPlanes.block_tiles;
  const int64_t first_tile = to.at.Tile(first_row_tile, 0);
  const int64_t first_block = first_tile / kPlanes.block_tiles;
  const auto block_at = [&](int64_t block) {
    const int64_t row = block / row_blocks * kTileRows;
    return FileBlock<kType>{
        file.bytes + row * file.row_bytes + block % row_blocks * kBlockBytes,
        file.row_bytes, file.n_rows - row};
  };
  int64_t i = GlobalIndex();
  int64_t words = kPlanes.quants / 4;
  if (i < n_tiles * words) {
    const int64_t tile = i / words;
    reinterpret_cast<uint32_t*>(data)[first_tile * words + i] =
        QuantWord(block_at(tile / kPlanes.block_tiles),
                  static_cast<int>(tile % kPlanes.block_tiles),
                  static_cast<int>(i % words));
    return;
  }
  i -= n_tiles * words;
  words = kPlanes.highs / 4;
  if constexpr (kPlanes.highs != 0) {
    if (i < n_tiles * words) {
      const int64_t tile = i / words;
      reinterpret_cast<uint32_t*>(data + to.at.highs)[first_tile * words + i] =
          HighWord(block_at(tile / kPlanes.block_tiles),
                   static_cast<int>(tile % kPlanes.block_tiles),
                   static_cast<int>(i % words));
      return;
    }
  }
  i -= n_tiles * words;
  words = kPlanes.subscales / 4;
  if constexpr (kPlanes.subscales != 0) {
    if (i < n_blocks * words) {
      reinterpret_cast<uint32_t*>(data +
                                  to.at.subscales)[first_block * words + i] =
          SubscaleWord(block_at(i / words), static_cast<int>(i % words));
      return;
    }
  }
  i -= n_blocks * words;
  words = kPlanes.scales / 4;
  if (i < n_blocks * words) {
    reinterpret_cast<uint32_t*>(data + to.at.scales)[first_block * words + i] =
        ScaleWord(block_at(i / words), static_cast<int>(i % words));
  }
}

template <DType kType>
void PackTiles(const Context& context, const FileRows& file,
               const WeightMatrix& matrix, int64_t first_row) {
  constexpr TilePlanes kPlanes = PlanesOf(kType);
  const DeviceMatrix to = MatrixOf(matrix);
  const int64_t n_row_tiles = (file.n_rows + kTileRows - 1) / kTileRows;
  const int64_t n_tiles = n_row_tiles * to.at.col_tiles;
  const int64_t n_words =
      n_tiles * (kPlanes.quants + kPlanes.highs) / 4 +
      n_tiles / kPlanes.block_tiles * (kPlanes.subscales + kPlanes.scales) / 4;
  // The view of a matrix is for readers; this is its only writer.
  auto* data = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(matrix.data));
  Launch(PackWords<kType>, {(n_words + kThreads - 1) / kThreads}, kThreads, 0,
         context.stream, file, to, data, first_row / kTileRows, n_row_tiles);
}

}  // namespace

absl::Status PackRows(const Context& context, const WeightMatrix& matrix,
                      int64_t first_row, std::span<const std::byte> file_rows) {
  ASSIGN_OR_RETURN(const int64_t row_bytes,
                   RowBytes(matrix.dtype, matrix.cols));
  const auto size = static_cast<int64_t>(file_rows.size());
  const int64_t tile_bytes = row_bytes * kTileRows;
  const int64_t piece_bytes =
      std::max(Staging::kBufferBytes / tile_bytes, int64_t{1}) * tile_bytes;
  for (int64_t at = 0; at < size; at += piece_bytes) {
    const int64_t bytes = std::min(piece_bytes, size - at);
    ASSIGN_OR_RETURN(const std::byte* staged,
                     context.staging->Put(file_rows.subspan(
                         static_cast<size_t>(at), static_cast<size_t>(bytes))));
    const FileRows file = {reinterpret_cast<const uint8_t*>(staged),
                           bytes / row_bytes, row_bytes};
    WithType(matrix.dtype, [&](auto type) {
      constexpr DType kType = decltype(type)::value;
      if constexpr (IsTiled(kType)) {
        PackTiles<kType>(context, file, matrix, first_row + at / row_bytes);
      }
    });
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
