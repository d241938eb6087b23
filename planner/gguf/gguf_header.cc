#include "planner/gguf/gguf_header.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_stream.h"

namespace plimsoll::planner {
namespace {

absl::Status WrongType(absl::string_view key, GgufType type,
                       absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat("metadata ", Quoted(key), " is of type ", GgufTypeName(type),
                   ", not ", wanted));
}

const GgufValue* Find(const GgufHeader& header, absl::string_view key) {
  const auto it = header.metadata.find(std::string(key));
  return it == header.metadata.end() ? nullptr : &it->second;
}

}  // namespace

absl::string_view GgufTypeName(GgufType type) {
  constexpr std::array<const char*, 13> kNames = {
      "u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
      "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<size_t>(type)];
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

}  // namespace plimsoll::planner
