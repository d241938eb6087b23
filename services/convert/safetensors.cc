#include "services/convert/safetensors.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_stream.h"
#include "services/convert/input.h"

namespace plimsoll::services {
namespace {

constexpr int64_t kLengthBytes = 8;  // the header's length, a u64
constexpr int kMaxHeaderDepth = 3;   // {"tensor": {"shape": []}}

// A type of the format. Only some have weights of models.
struct TypeInfo {
  absl::string_view name;
  int64_t bytes;
  std::optional<DType> dtype;
};

constexpr TypeInfo kTypes[] = {
    {"F32", 4, DType::kF32},      {"F16", 2, DType::kF16},
    {"BF16", 2, DType::kBF16},    {"F64", 8, std::nullopt},
    {"F8_E4M3", 1, std::nullopt}, {"F8_E5M2", 1, std::nullopt},
    {"F8_E8M0", 1, std::nullopt}, {"I64", 8, std::nullopt},
    {"I32", 4, std::nullopt},     {"I16", 2, std::nullopt},
    {"I8", 1, std::nullopt},      {"U64", 8, std::nullopt},
    {"U32", 4, std::nullopt},     {"U16", 2, std::nullopt},
    {"U8", 1, std::nullopt},      {"BOOL", 1, std::nullopt},
};

absl::Status BadTensor(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", planner::Quoted(name), " ", what));
}

// A whole number up to 2^62, so that sums of two do not overflow; else -1.
int64_t CountIn(const Json& value) {
  constexpr uint64_t kMax = uint64_t{1} << 62;
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kMax) return -1;
  return static_cast<int64_t>(value.get<uint64_t>());
}

absl::StatusOr<const TypeInfo*> FindType(absl::string_view name,
                                         absl::string_view type) {
  for (const TypeInfo& info : kTypes) {
    if (info.name == type) return &info;
  }
  return absl::UnimplementedError(absl::StrCat("tensor ", planner::Quoted(name),
                                               " has the unknown type ",
                                               planner::Quoted(type)));
}

// Reads one tensor. Ranges in the JSON begin at `data_offset`, and no more than
// `data_bytes` follow.
absl::StatusOr<SafeTensor> ReadTensor(const std::string& name,
                                      const Json& value, int64_t data_offset,
                                      int64_t data_bytes) {
  SafeTensor tensor = {.name = name, .type = TextMember(value, "dtype")};
  if (static_cast<int64_t>(name.size()) > kMaxSafetensorName) {
    return BadTensor(name, absl::StrCat("has a name of more than ",
                                        kMaxSafetensorName, " bytes"));
  }
  ASSIGN_OR_RETURN(const TypeInfo* type, FindType(name, tensor.type));
  tensor.dtype = type->dtype;
  const Json& shape = MemberOf(value, "shape");
  if (!shape.is_array() ||
      static_cast<int64_t>(shape.size()) > kMaxSafetensorDims) {
    return BadTensor(name, absl::StrCat("has no shape of at most ",
                                        kMaxSafetensorDims, " dimensions"));
  }
  Checked bytes = type->bytes;
  for (const Json& item : shape) {
    tensor.shape.push_back(CountIn(item));
    if (tensor.shape.back() < 0) {
      return BadTensor(name, "has a dimension that is no count");
    }
    bytes = bytes * tensor.shape.back();
  }
  const Json& range = MemberOf(value, "data_offsets");
  const bool is_pair = range.is_array() && range.size() == 2;
  const int64_t begin = is_pair ? CountIn(range[0]) : -1;
  const int64_t end = is_pair ? CountIn(range[1]) : -1;
  if (begin < 0 || end < begin || end > data_bytes) {
    return absl::DataLossError(
        absl::StrCat("tensor ", planner::Quoted(name),
                     " does not lie within the file's data of ", data_bytes,
                     " bytes; was the file cut off?"));
  }
  if (bytes.Get() != end - begin) {
    return BadTensor(name, absl::StrCat("has ", end - begin,
                                        " bytes, which its shape contradicts"));
  }
  tensor.offset = data_offset + begin;
  tensor.bytes = end - begin;
  return tensor;
}

absl::StatusOr<std::string> ReadText(planner::ByteSource& source) {
  if (source.Size() < kLengthBytes) {
    return absl::DataLossError("the file is too short for a safetensors file");
  }
  uint64_t length = 0;
  RETURN_IF_ERROR(
      source.Read(0, std::as_writable_bytes(std::span(&length, 1))));
  const auto left = static_cast<uint64_t>(source.Size() - kLengthBytes);
  if (length > left || length > uint64_t{kMaxSafetensorsHeader}) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the header claims ", length, " bytes of the ", left,
        " that follow; at most ", kMaxSafetensorsHeader, " are accepted"));
  }
  std::string text(static_cast<size_t>(length), '\0');
  RETURN_IF_ERROR(
      source.Read(kLengthBytes, std::as_writable_bytes(std::span(text))));
  return text;
}

absl::Status CheckOverlaps(const std::vector<SafeTensor>& tensors) {
  for (size_t i = 1; i < tensors.size(); ++i) {
    const SafeTensor& last = tensors[i - 1];
    if (tensors[i].offset >= last.offset + last.bytes) continue;
    return BadTensor(tensors[i].name, absl::StrCat("overlaps tensor ",
                                                   planner::Quoted(last.name)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<SafeTensor>> ReadSafetensors(
    planner::ByteSource& source) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(source));
  ASSIGN_OR_RETURN(const Json json, ParseObject("the safetensors header", text,
                                                kMaxHeaderDepth));
  const int64_t data_offset = kLengthBytes + static_cast<int64_t>(text.size());
  std::vector<SafeTensor> tensors;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") continue;
    if (static_cast<int64_t>(tensors.size()) == kMaxSafetensors) {
      return absl::InvalidArgumentError(
          absl::StrCat("the file has more than ", kMaxSafetensors, " tensors"));
    }
    ASSIGN_OR_RETURN(
        tensors.emplace_back(),
        ReadTensor(name, value, data_offset, source.Size() - data_offset));
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const SafeTensor& a, const SafeTensor& b) {
              return std::pair(a.offset, a.bytes) <
                     std::pair(b.offset, b.bytes);
            });
  RETURN_IF_ERROR(CheckOverlaps(tensors));
  return tensors;
}

}  // namespace plimsoll::services
