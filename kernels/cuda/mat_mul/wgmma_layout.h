// The layout in shared memory of an operand of a warpgroup's matrix product
// (wgmma): pure index arithmetic. Source: the PTX manual, "Shared Memory Matrix
// Layout" and "Matrix Descriptor Format" of wgmma.
//
// The operand has rows of 64 columns of 16 bits, the columns of four products.
// Eight rows are a swizzled block of 1,024 bytes, which begins at a multiple of
// 1,024: row r has 128 bytes, in which the chunk c of 16 bytes is at place c
// xor r, so that eight rows of a chunk are in different banks.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_WGMMA_LAYOUT_H_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_WGMMA_LAYOUT_H_

#include <cstdint>

namespace plimsoll::kernels {

inline constexpr int kSwizzleRows = 8;
inline constexpr int kSwizzleRowBytes = 128;
inline constexpr int kSwizzleBytes = kSwizzleRows * kSwizzleRowBytes;
inline constexpr int kSwizzleChunkBytes = 16;
inline constexpr int kSwizzleColumns = kSwizzleRowBytes / 2;
inline constexpr int kWgmmaColumns = 16;  // the columns of one product

// The byte at which chunk `chunk` of row `row` of an operand begins.
constexpr int SwizzledByte(int row, int chunk) {
  const int in_block = row % kSwizzleRows;
  return row / kSwizzleRows * kSwizzleBytes + in_block * kSwizzleRowBytes +
         (chunk ^ in_block) * kSwizzleChunkBytes;
}

// The descriptor of columns [16 step, 16 step + 16) of an operand that begins
// at the byte `address` of shared memory.
constexpr uint64_t WgmmaDescriptor(uint32_t address, int step) {
  constexpr uint64_t kLeadingBytes = 16;  // not used with this swizzle
  constexpr uint64_t kSwizzle128 = 1;
  const uint64_t begin =
      address + static_cast<uint32_t>(step * kWgmmaColumns * 2);
  return (begin & 0x3FFFFu) >> 4 | (kLeadingBytes >> 4) << 16 |
         static_cast<uint64_t>(kSwizzleBytes >> 4) << 32 | kSwizzle128 << 62;
}

// The byte of shared memory that a product with this descriptor reads for
// element `column` of row `row`, by the manual.
constexpr uint32_t WgmmaByte(uint64_t descriptor, int row, int column) {
  const auto begin = static_cast<uint32_t>(descriptor & 0x3FFFu) << 4;
  const auto stride = static_cast<uint32_t>(descriptor >> 32 & 0x3FFFu) << 4;
  const uint32_t plain = begin + static_cast<uint32_t>(row / 8) * stride +
                         static_cast<uint32_t>(row % 8 * kSwizzleRowBytes) +
                         static_cast<uint32_t>(column * 2);
  return plain ^ (plain >> 7 & 7u) << 4;
}

// An operand may also be stored with its columns and rows exchanged: it has
// blocks of 64 columns, `block_bytes` apart, and a row of a block has 128
// bytes, swizzled as above. This is the descriptor of rows [16 step, 16 step +
// 16), the rows of one product.
constexpr uint64_t TransposedDescriptor(uint32_t address, int step,
                                        int block_bytes) {
  constexpr uint64_t kSwizzle128 = 1;
  const uint64_t begin =
      address + static_cast<uint32_t>(step * kWgmmaColumns * kSwizzleRowBytes);
  return (begin & 0x3FFFFu) >> 4 |
         static_cast<uint64_t>(block_bytes >> 4) << 16 |
         static_cast<uint64_t>(kSwizzleBytes >> 4) << 32 | kSwizzle128 << 62;
}

// The byte that a product with this descriptor reads for element `column` of
// row `row`, by the manual's rules for "MN-major" operands.
constexpr uint32_t TransposedByte(uint64_t descriptor, int row, int column) {
  const auto begin = static_cast<uint32_t>(descriptor & 0x3FFFu) << 4;
  const auto leading = static_cast<uint32_t>(descriptor >> 16 & 0x3FFFu) << 4;
  const auto stride = static_cast<uint32_t>(descriptor >> 32 & 0x3FFFu) << 4;
  const uint32_t plain =
      begin + static_cast<uint32_t>(column / kSwizzleColumns) * leading +
      static_cast<uint32_t>(row / 8) * stride +
      static_cast<uint32_t>(row % 8 * kSwizzleRowBytes) +
      static_cast<uint32_t>(column % kSwizzleColumns * 2);
  return plain ^ (plain >> 7 & 7u) << 4;
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_WGMMA_LAYOUT_H_
