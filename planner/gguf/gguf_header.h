// A GGUF header that has been read and checked, with typed access to its
// values.
#ifndef PLIMSOLL_PLANNER_GGUF_GGUF_HEADER_H_
#define PLIMSOLL_PLANNER_GGUF_GGUF_HEADER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"

namespace plimsoll::planner {

enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// The type's name in messages: "u8", "string", "array" ...
absl::string_view GgufTypeName(GgufType type);

// An array value. Long arrays (a vocabulary) stay in the file, at `offset` with
// `bytes` bytes. Numeric and bool arrays of at most kMaxInlineElements elements
// are also kept in `numbers` (exact for integers up to 2^53).
struct GgufArray {
  GgufType element_type;
  int64_t n;                    // elements
  int64_t offset;               // the first element's place in the file
  int64_t bytes;                // all elements, with string lengths
  std::vector<double> numbers;  // [n] or empty
};

struct GgufValue {
  GgufType type;
  // Unsigned types and bool are uint64, signed ones int64, floats double.
  std::variant<uint64_t, int64_t, double, std::string, GgufArray> value;
};

struct GgufTensor {
  std::string name;
  DType dtype;
  int n_dims;                 // 1..4
  std::array<int64_t, 4> ne;  // ne[0] is contiguous; unused ones are 1
  int64_t offset;             // from the start of the data section
  int64_t bytes;
};

// A whole header, every rule checked. Immutable after ReadGgufHeader.
struct GgufHeader {
  // Limits on what a file may demand. Each has a test at it and one past it.
  static constexpr int64_t kMaxMetadata = 65'536;
  static constexpr int64_t kMaxTensors = 65'536;
  static constexpr int64_t kMaxKeyBytes = 65'535;
  static constexpr int64_t kMaxStringBytes = 16 << 20;
  static constexpr int64_t kMaxArrayElements = 1 << 27;
  static constexpr int64_t kMaxInlineElements = 1'024;
  static constexpr int64_t kMaxTensorNameBytes = 63;
  static constexpr int64_t kMaxAlignment = 1 << 20;
  static constexpr int64_t kMaxMetadataBytes = 64 << 20;  // kept in memory
  // A header is walked byte by byte, so its length bounds the work. The largest
  // vocabularies in use (262,144 tokens and 600,000 merges) take some 20 MB.
  static constexpr int64_t kMaxHeaderBytes = 256 << 20;

  uint32_t version;
  int64_t file_bytes;
  int64_t alignment;
  int64_t header_bytes;  // up to the end of the tensor table, unpadded
  int64_t data_offset;   // the data section's place in the file
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;  // in the file's order

  const GgufTensor* FindTensor(absl::string_view name) const;

  // Typed getters. Integer getters take any integer type through a
  // range-checked conversion. The value is nullopt if the key is absent.
  // Errors: kInvalidArgument naming the key if it has another type or is out of
  // range.
  absl::StatusOr<std::optional<int64_t>> Int(absl::string_view key) const;
  absl::StatusOr<std::optional<double>> Float(absl::string_view key) const;
  absl::StatusOr<std::optional<bool>> Bool(absl::string_view key) const;
  absl::StatusOr<std::optional<std::string>> String(
      absl::string_view key) const;
  // The array itself, or nullptr if the key is absent.
  absl::StatusOr<const GgufArray*> Array(absl::string_view key) const;
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_GGUF_GGUF_HEADER_H_
