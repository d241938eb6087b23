// Typed access to a header that has been read: getters and array elements.
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_reader.h"
#include "planner/gguf/gguf_stream.h"

namespace plimsoll::planner {
namespace {

const char* TypeName(GgufType type) {
  constexpr std::array<const char*, 13> kNames = {
      "u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
      "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<size_t>(type)];
}

absl::Status WrongType(absl::string_view key, GgufType type,
                       absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat("metadata ", Quoted(key),
                                                 " is of type ", TypeName(type),
                                                 ", not ", wanted));
}

const GgufValue* Find(const GgufHeader& header, absl::string_view key) {
  const auto it = header.metadata.find(std::string(key));
  return it == header.metadata.end() ? nullptr : &it->second;
}

// Whether `array` is one that a header of this source could declare.
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

absl::Status MemorySource::Read(int64_t offset, std::span<std::byte> out) {
  if (offset < 0 || offset > Size() ||
      static_cast<int64_t>(out.size()) > Size() - offset) {
    return absl::OutOfRangeError("a read past the end of the memory source");
  }
  if (!out.empty()) {
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
  return absl::OkStatus();
}

const GgufTensor* GgufHeader::FindTensor(absl::string_view name) const {
  for (const GgufTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

absl::StatusOr<std::optional<int64_t>> GgufHeader::Int(
    absl::string_view key) const {
  const GgufValue* value = Find(*this, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<int64_t>(&value->value)) return *number;
  const auto* number = std::get_if<uint64_t>(&value->value);
  if (number == nullptr || value->type == GgufType::kBool) {
    return WrongType(key, value->type, "an integer");
  }
  if (*number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "metadata ", Quoted(key), " is ", *number, ", out of range"));
  }
  return static_cast<int64_t>(*number);
}

absl::StatusOr<std::optional<double>> GgufHeader::Float(
    absl::string_view key) const {
  const GgufValue* value = Find(*this, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(&value->value)) return *number;
  return WrongType(key, value->type, "a float");
}

absl::StatusOr<std::optional<bool>> GgufHeader::Bool(
    absl::string_view key) const {
  const GgufValue* value = Find(*this, key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::kBool) {
    return WrongType(key, value->type, "bool");
  }
  return std::get<uint64_t>(value->value) != 0;
}

absl::StatusOr<std::optional<std::string>> GgufHeader::String(
    absl::string_view key) const {
  const GgufValue* value = Find(*this, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* text = std::get_if<std::string>(&value->value)) return *text;
  return WrongType(key, value->type, "a string");
}

absl::StatusOr<const GgufArray*> GgufHeader::Array(
    absl::string_view key) const {
  const GgufValue* value = Find(*this, key);
  if (value == nullptr) return nullptr;
  if (const auto* array = std::get_if<GgufArray>(&value->value)) return array;
  return WrongType(key, value->type, "an array");
}

absl::Status ForEachString(
    ByteSource& source, const GgufArray& array,
    const std::function<absl::Status(int64_t, absl::string_view)>& visit) {
  if (array.element_type != GgufType::kString) {
    return absl::InvalidArgumentError(
        absl::StrCat("an array of ", TypeName(array.element_type),
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
        absl::StrCat("an array of ", TypeName(array.element_type),
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
