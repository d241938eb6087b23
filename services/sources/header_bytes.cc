#include "services/sources/header_bytes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::services {
namespace {

using planner::GgufArray;
using planner::GgufType;
using planner::GgufValue;

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 60;

// Appends the low `n` bytes of `value`, least significant byte first.
void PutBytes(std::string& out, uint64_t value, int n) {
  for (int i = 0; i < n; ++i) {
    out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  }
}

void PutU32(std::string& out, uint32_t value) { PutBytes(out, value, 4); }
void PutU64(std::string& out, uint64_t value) { PutBytes(out, value, 8); }

void PutString(std::string& out, absl::string_view text) {
  PutU64(out, text.size());
  out.append(text.data(), text.size());
}

// Bytes of a number of `type`; 0 if the type is not a number.
int Width(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

void PutDouble(std::string& out, GgufType type, double value) {
  uint64_t bits = 0;
  if (type == GgufType::kF32) {
    const auto narrow = static_cast<float>(value);
    uint32_t narrow_bits = 0;
    std::memcpy(&narrow_bits, &narrow, sizeof(narrow));
    bits = narrow_bits;
  } else if (type == GgufType::kF64) {
    std::memcpy(&bits, &value, sizeof(value));
  } else if (value < 0) {
    bits = static_cast<uint64_t>(static_cast<int64_t>(value));
  } else {
    bits = static_cast<uint64_t>(value);
  }
  PutBytes(out, bits, Width(type));
}

void PutArray(std::string& out, const GgufArray& array) {
  PutU32(out, static_cast<uint32_t>(array.element_type));
  PutU64(out, array.numbers.size());
  for (const double number : array.numbers) {
    PutDouble(out, array.element_type, number);
  }
}

// True if the value is sent.
bool Keep(absl::string_view key, const GgufValue& value) {
  if (absl::StartsWith(key, "tokenizer.") ||
      absl::StartsWith(key, "plimsoll.vocab.")) {
    return false;
  }
  if (const auto* text = std::get_if<std::string>(&value.value)) {
    return static_cast<int64_t>(text->size()) <= kMaxHeaderStringBytes;
  }
  if (const auto* array = std::get_if<GgufArray>(&value.value)) {
    return !array->numbers.empty();
  }
  return true;
}

void PutValue(std::string& out, const GgufValue& value) {
  PutU32(out, static_cast<uint32_t>(value.type));
  if (const auto* text = std::get_if<std::string>(&value.value)) {
    PutString(out, *text);
  } else if (const auto* array = std::get_if<GgufArray>(&value.value)) {
    PutArray(out, *array);
  } else if (const auto* number = std::get_if<double>(&value.value)) {
    PutDouble(out, value.type, *number);
  } else if (const auto* integer = std::get_if<int64_t>(&value.value)) {
    PutBytes(out, static_cast<uint64_t>(*integer), Width(value.type));
  } else {
    PutBytes(out, std::get<uint64_t>(value.value), Width(value.type));
  }
}

// A source with the beginning of a file of `file_bytes`: only `bytes` of it
// exist.
class HeaderSource final : public planner::ByteSource {
 public:
  HeaderSource(absl::string_view bytes, int64_t file_bytes)
      : bytes_(std::as_bytes(std::span(bytes.data(), bytes.size()))),
        file_bytes_(file_bytes) {}
  int64_t Size() const override { return file_bytes_; }
  int64_t PresentBytes() const override { return bytes_.Size(); }

  absl::Status Read(int64_t offset, std::span<std::byte> out) override {
    return bytes_.Read(offset, out);
  }

 private:
  planner::MemorySource bytes_;
  int64_t file_bytes_;
};

}  // namespace

std::string HeaderBytes(const planner::GgufHeader& header,
                        const planner::VocabShape& vocab) {
  std::string body;
  uint64_t n_metadata = 1;
  for (const auto& [key, value] : header.metadata) {
    if (!Keep(key, value)) continue;
    ++n_metadata;
    PutString(body, key);
    PutValue(body, value);
  }
  PutString(body, "plimsoll.vocab.model");
  PutU32(body, static_cast<uint32_t>(GgufType::kString));
  PutString(body, vocab.model);
  const std::pair<absl::string_view, int64_t> counts[] = {
      {"plimsoll.vocab.n_tokens", vocab.n_tokens},
      {"plimsoll.vocab.token_bytes", vocab.token_bytes},
      {"plimsoll.vocab.n_merges", vocab.n_merges},
      {"plimsoll.vocab.merge_bytes", vocab.merge_bytes}};
  for (const auto& [key, count] : counts) {
    ++n_metadata;
    PutString(body, key);
    PutU32(body, static_cast<uint32_t>(GgufType::kU64));
    PutU64(body, static_cast<uint64_t>(count));
  }
  for (const planner::GgufTensor& tensor : header.tensors) {
    PutString(body, tensor.name);
    PutU32(body, static_cast<uint32_t>(tensor.n_dims));
    for (size_t i = 0; i < static_cast<size_t>(tensor.n_dims); ++i) {
      PutU64(body, static_cast<uint64_t>(tensor.ne[i]));
    }
    PutU32(body, static_cast<uint32_t>(tensor.dtype));
    PutU64(body, static_cast<uint64_t>(tensor.offset));
  }
  std::string bytes = "GGUF";
  PutU32(bytes, 3);
  PutU64(bytes, header.tensors.size());
  PutU64(bytes, n_metadata);
  return bytes + body;
}

absl::StatusOr<planner::ModelShape> ShapeFromHeaderBytes(
    absl::string_view bytes, uint64_t file_bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (size > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("header.gguf has ", size, " bytes, at most ",
                     kMaxHeaderBytes, " are accepted"));
  }
  if (file_bytes < bytes.size() || file_bytes > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "header.file_bytes ", file_bytes,
        " cannot be the size of a file with this header of ", size, " bytes"));
  }
  // The header with the counts of a small vocabulary may be longer than the
  // file's.
  HeaderSource source(bytes, static_cast<int64_t>(file_bytes) + size);
  const auto header = planner::ReadGgufHeader(source);
  if (!header.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("header.gguf: ", header.status().message()));
  }
  return planner::ShapeFromGguf(*header);
}

}  // namespace plimsoll::services
