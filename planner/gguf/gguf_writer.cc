#include "planner/gguf/gguf_writer.h"

#include <bit>
#include <cstddef>
#include <variant>

#include "planner/gguf/gguf_stream.h"

namespace plimsoll::planner {
namespace {

// Appends the low `n` bytes of `value`, least significant byte first.
void PutBytes(std::string& out, uint64_t value, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  }
}

void PutU32(std::string& out, uint32_t value) { PutBytes(out, value, 4); }
void PutU64(std::string& out, uint64_t value) { PutBytes(out, value, 8); }

void PutString(std::string& out, absl::string_view text) {
  PutU64(out, text.size());
  out.append(text.data(), text.size());
}

void PutInteger(std::string& out, GgufType type, uint64_t value) {
  PutBytes(out, value, ScalarBytes(static_cast<uint64_t>(type)));
}

void PutDouble(std::string& out, GgufType type, double value) {
  if (type == GgufType::kF32) {
    PutU32(out, std::bit_cast<uint32_t>(static_cast<float>(value)));
  } else if (type == GgufType::kF64) {
    PutU64(out, std::bit_cast<uint64_t>(value));
  } else if (value < 0) {
    PutInteger(out, type, static_cast<uint64_t>(static_cast<int64_t>(value)));
  } else {
    PutInteger(out, type, static_cast<uint64_t>(value));
  }
}

}  // namespace

void GgufWriter::BeginValue(absl::string_view key, GgufType type) {
  ++n_metadata_;
  PutString(metadata_, key);
  PutU32(metadata_, static_cast<uint32_t>(type));
}

void GgufWriter::BeginArray(absl::string_view key, GgufType type, size_t n) {
  BeginValue(key, GgufType::kArray);
  PutU32(metadata_, static_cast<uint32_t>(type));
  PutU64(metadata_, n);
}

void GgufWriter::Add(absl::string_view key, const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value.value)) {
    BeginArray(key, array->element_type, array->numbers.size());
    for (const double number : array->numbers) {
      PutDouble(metadata_, array->element_type, number);
    }
    return;
  }
  BeginValue(key, value.type);
  if (const auto* text = std::get_if<std::string>(&value.value)) {
    PutString(metadata_, *text);
  } else if (const auto* number = std::get_if<double>(&value.value)) {
    PutDouble(metadata_, value.type, *number);
  } else if (const auto* integer = std::get_if<int64_t>(&value.value)) {
    PutInteger(metadata_, value.type, static_cast<uint64_t>(*integer));
  } else {
    PutInteger(metadata_, value.type, std::get<uint64_t>(value.value));
  }
}

void GgufWriter::AddStrings(absl::string_view key,
                            std::span<const std::string> values) {
  BeginArray(key, GgufType::kString, values.size());
  for (const std::string& text : values) PutString(metadata_, text);
}

void GgufWriter::AddFloats(absl::string_view key,
                           std::span<const float> values) {
  BeginArray(key, GgufType::kF32, values.size());
  for (const float value : values) {
    PutU32(metadata_, std::bit_cast<uint32_t>(value));
  }
}

void GgufWriter::AddInt32s(absl::string_view key,
                           std::span<const int32_t> values) {
  BeginArray(key, GgufType::kI32, values.size());
  for (const int32_t value : values) {
    PutU32(metadata_, static_cast<uint32_t>(value));
  }
}

void GgufWriter::AddTensor(const GgufTensor& tensor) {
  ++n_tensors_;
  PutString(tensors_, tensor.name);
  PutU32(tensors_, static_cast<uint32_t>(tensor.n_dims));
  for (size_t i = 0; i < static_cast<size_t>(tensor.n_dims); ++i) {
    PutU64(tensors_, static_cast<uint64_t>(tensor.ne[i]));
  }
  PutU32(tensors_, static_cast<uint32_t>(tensor.dtype));
  PutU64(tensors_, static_cast<uint64_t>(tensor.offset));
}

std::string GgufWriter::Finish() const {
  std::string bytes = "GGUF";
  PutU32(bytes, 3);
  PutU64(bytes, n_tensors_);
  PutU64(bytes, n_metadata_);
  bytes += metadata_;
  bytes += tensors_;
  return bytes;
}

}  // namespace plimsoll::planner
