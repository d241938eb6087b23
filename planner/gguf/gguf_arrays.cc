#include "planner/gguf/gguf_arrays.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_stream.h"

namespace plimsoll::planner {
namespace {

// True if a header of this source could declare `array`.
bool LiesWithin(const GgufArray& array, const ByteSource& source) {
  return array.n >= 0 && array.offset >= 0 && array.bytes >= 0 &&
         array.bytes <= source.Size() &&
         array.offset <= source.Size() - array.bytes;
}

// Calls visit(index, value) for every element of a numeric array.
absl::Status ForEachNumber(
    ByteSource& source, const GgufArray& array,
    const std::function<absl::Status(int64_t, double)>& visit) {
  if (!LiesWithin(array, source)) {
    return absl::DataLossError("an array lies outside the file");
  }
  GgufStream stream(source, array.offset, array.offset + array.bytes);
  for (int64_t i = 0; i < array.n; ++i) {
    ASSIGN_OR_RETURN(const double value,
                     stream.Number(array.element_type, "an array"));
    RETURN_IF_ERROR(visit(i, value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ForEachString(
    ByteSource& source, const GgufArray& array,
    const std::function<absl::Status(int64_t, absl::string_view)>& visit) {
  if (array.element_type != GgufType::kString) {
    return absl::InvalidArgumentError(
        absl::StrCat("an array of ", GgufTypeName(array.element_type),
                     " is not an array of strings"));
  }
  if (!LiesWithin(array, source)) {
    return absl::DataLossError("an array of strings lies outside the file");
  }
  GgufStream stream(source, array.offset, array.offset + array.bytes);
  for (int64_t i = 0; i < array.n; ++i) {
    auto text = stream.String(GgufHeader::kMaxStringBytes, "a string");
    if (!text.ok()) {
      return absl::DataLossError(absl::StrCat(
          "element ", i, " of an array: ", text.status().message()));
    }
    RETURN_IF_ERROR(visit(i, *text));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> ReadFloats(ByteSource& source,
                                              const GgufArray& array) {
  std::vector<float> values;
  RETURN_IF_ERROR(
      ForEachNumber(source, array, [&values](int64_t i, double value) {
        // Infinities and NaN convert exactly; only a finite value can be lost.
        if (std::isfinite(value) &&
            std::abs(value) > std::numeric_limits<float>::max()) {
          return absl::InvalidArgumentError(absl::StrCat(
              "element ", i, " is ", value, ", out of float32's range"));
        }
        values.push_back(static_cast<float>(value));
        return absl::OkStatus();
      }));
  return values;
}

absl::StatusOr<std::vector<int32_t>> ReadInt32s(ByteSource& source,
                                                const GgufArray& array) {
  if (array.element_type == GgufType::kF32 ||
      array.element_type == GgufType::kF64) {
    return absl::InvalidArgumentError(
        absl::StrCat("an array of ", GgufTypeName(array.element_type),
                     " is not an array of integers"));
  }
  std::vector<int32_t> values;
  RETURN_IF_ERROR(
      ForEachNumber(source, array, [&values](int64_t i, double value) {
        if (value < std::numeric_limits<int32_t>::min() ||
            value > std::numeric_limits<int32_t>::max()) {
          return absl::InvalidArgumentError(absl::StrCat(
              "element ", i, " is ", value, ", out of int32's range"));
        }
        values.push_back(static_cast<int32_t>(value));
        return absl::OkStatus();
      }));
  return values;
}

}  // namespace plimsoll::planner
