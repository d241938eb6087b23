// Element types of tensors and of the KV cache, and how their blocks are sized.
#ifndef PLIMSOLL_BASE_DTYPE_H_
#define PLIMSOLL_BASE_DTYPE_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/checked_math.h"

namespace plimsoll {

// The numbers are the GGUF file format's own type ids.
enum class DType : int32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIq2Xxs = 16,
  kIq2Xs = 17,
  kIq3Xxs = 18,
  kIq1S = 19,
  kIq4Nl = 20,
  kIq3S = 21,
  kIq2S = 22,
  kIq4Xs = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIq1M = 29,
  kBF16 = 30,
  kTq1_0 = 34,
  kTq2_0 = 35,
  kMxfp4 = 39,
  kNvfp4 = 40,
};

// True if the elements are plain floats, which products read without blocks.
constexpr bool IsFloatType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// A block of `block_bytes` bytes holds `block_elems` elements; rows are whole
// blocks.
struct DTypeInfo {
  DType dtype;
  absl::string_view name;
  int64_t block_elems;
  int64_t block_bytes;
};

// Source: the GGUF specification's type table.
inline constexpr std::array<DTypeInfo, 33> kDTypes = {{
    {DType::kF32, "f32", 1, 4},
    {DType::kF16, "f16", 1, 2},
    {DType::kQ4_0, "q4_0", 32, 18},
    {DType::kQ4_1, "q4_1", 32, 20},
    {DType::kQ5_0, "q5_0", 32, 22},
    {DType::kQ5_1, "q5_1", 32, 24},
    {DType::kQ8_0, "q8_0", 32, 34},
    {DType::kQ8_1, "q8_1", 32, 36},
    {DType::kQ2_K, "q2_K", 256, 84},
    {DType::kQ3_K, "q3_K", 256, 110},
    {DType::kQ4_K, "q4_K", 256, 144},
    {DType::kQ5_K, "q5_K", 256, 176},
    {DType::kQ6_K, "q6_K", 256, 210},
    {DType::kQ8_K, "q8_K", 256, 292},
    {DType::kIq2Xxs, "iq2_xxs", 256, 66},
    {DType::kIq2Xs, "iq2_xs", 256, 74},
    {DType::kIq3Xxs, "iq3_xxs", 256, 98},
    {DType::kIq1S, "iq1_s", 256, 50},
    {DType::kIq4Nl, "iq4_nl", 32, 18},
    {DType::kIq3S, "iq3_s", 256, 110},
    {DType::kIq2S, "iq2_s", 256, 82},
    {DType::kIq4Xs, "iq4_xs", 256, 136},
    {DType::kI8, "i8", 1, 1},
    {DType::kI16, "i16", 1, 2},
    {DType::kI32, "i32", 1, 4},
    {DType::kI64, "i64", 1, 8},
    {DType::kF64, "f64", 1, 8},
    {DType::kIq1M, "iq1_m", 256, 56},
    {DType::kBF16, "bf16", 1, 2},
    {DType::kTq1_0, "tq1_0", 256, 54},
    {DType::kTq2_0, "tq2_0", 256, 66},
    {DType::kMxfp4, "mxfp4", 32, 17},
    {DType::kNvfp4, "nvfp4", 64, 36},
}};

// Indices into the table by type id; -1 where there is no such type.
inline constexpr auto kDTypeRows = [] {
  std::array<int, 41> rows = {};
  for (int& row : rows) row = -1;
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    rows[static_cast<size_t>(kDTypes[i].dtype)] = static_cast<int>(i);
  }
  return rows;
}();

// The table's entry for a type id from a file, or nullptr if the id is unknown
// or was removed from the format.
constexpr const DTypeInfo* FindDType(uint32_t id) {
  if (id >= kDTypeRows.size() || kDTypeRows[id] < 0) return nullptr;
  return &kDTypes[static_cast<size_t>(kDTypeRows[id])];
}

// The table's entry for a name as users write it ("f16", "q8_0"), or nullptr.
constexpr const DTypeInfo* FindDType(absl::string_view name) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

constexpr const DTypeInfo& InfoOf(DType dtype) {
  return *FindDType(static_cast<uint32_t>(dtype));
}

constexpr absl::string_view DTypeName(DType dtype) {
  return InfoOf(dtype).name;
}

// Bytes of a row of `n` elements.
// Errors: kInvalidArgument if n < 0 or n is not a multiple of the block;
// kOutOfRange if the result does not fit in int64.
inline absl::StatusOr<int64_t> RowBytes(DType dtype, int64_t n) {
  const DTypeInfo& info = InfoOf(dtype);
  if (n < 0 || n % info.block_elems != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a row of ", n, " elements is not a whole number of ",
                     info.name, " blocks of ", info.block_elems));
  }
  const auto bytes = CheckedMul(n / info.block_elems, info.block_bytes);
  if (!bytes) return absl::OutOfRangeError("row bytes do not fit in int64");
  return *bytes;
}

}  // namespace plimsoll

#endif  // PLIMSOLL_BASE_DTYPE_H_
