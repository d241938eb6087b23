#include "planner/gguf/gguf_reader.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_stream.h"

namespace plimsoll::planner {
namespace {

// The smallest records that the format allows, to check counts.
constexpr int64_t kMinMetadataBytes = 8 + 1 + 4 + 1;
constexpr int64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;
constexpr int64_t kDefaultAlignment = 32;
// The elements of all short arrays together, as doubles, take at most this
// much.
constexpr int64_t kMaxInlineBytes = 8 << 20;

// A stream over the bytes that may hold the header.
GgufStream HeaderStream(ByteSource& source) {
  const int64_t present = std::min(source.Size(), source.PresentBytes());
  if (present > GgufHeader::kMaxHeaderBytes) {
    return {source, 0, GgufHeader::kMaxHeaderBytes,
            absl::StrCat("a header may have at most ",
                         GgufHeader::kMaxHeaderBytes, " bytes")};
  }
  if (present < source.Size()) {
    return {
        source, 0, present,
        absl::StrCat("of the file's ", source.Size(), " bytes only the first ",
                     present, " are given, and the header is longer")};
  }
  return {source, 0, present};
}

class HeaderReader {
 public:
  explicit HeaderReader(ByteSource& source) : stream_(HeaderStream(source)) {
    header_.file_bytes = source.Size();
  }

  absl::StatusOr<GgufHeader> Read() {
    RETURN_IF_ERROR(ReadVersion());
    ASSIGN_OR_RETURN(
        const int64_t n_tensors,
        ReadCount("tensor_count", GgufHeader::kMaxTensors, kMinTensorBytes));
    ASSIGN_OR_RETURN(const int64_t n_metadata,
                     ReadCount("metadata_kv_count", GgufHeader::kMaxMetadata,
                               kMinMetadataBytes));
    for (int64_t i = 0; i < n_metadata; ++i) {
      RETURN_IF_ERROR(ReadMetadata(i));
    }
    RETURN_IF_ERROR(ReadAlignment());
    for (int64_t i = 0; i < n_tensors; ++i) RETURN_IF_ERROR(ReadTensor(i));
    RETURN_IF_ERROR(CheckPlacement());
    return std::move(header_);
  }

 private:
  absl::Status ReadVersion();
  absl::StatusOr<int64_t> ReadCount(absl::string_view name, int64_t max,
                                    int64_t min_record_bytes);
  absl::Status ReadMetadata(int64_t index);
  absl::StatusOr<GgufValue> ReadValue(const std::string& what);
  absl::StatusOr<GgufValue> ReadString(const std::string& what);
  absl::StatusOr<GgufValue> ReadArray(const std::string& what);
  absl::Status ReadNumbers(GgufArray& array, const std::string& what);
  absl::Status KeepBytes(int64_t bytes, absl::string_view what);
  absl::Status ReadAlignment();
  absl::Status ReadTensor(int64_t index);
  absl::Status ReadDimensions(GgufTensor& tensor, const std::string& what);
  absl::Status SizeTensor(GgufTensor& tensor, const std::string& what);
  absl::Status CheckPlacement();
  absl::Status CheckNames() const;
  absl::Status CheckOverlap() const;

  GgufStream stream_;
  GgufHeader header_ = {};
  int64_t kept_bytes_ = 0;
  int64_t inline_bytes_ = 0;
};

absl::Status HeaderReader::ReadVersion() {
  ASSIGN_OR_RETURN(const uint64_t bits, stream_.Unsigned(4, "magic"));
  const auto magic =
      std::bit_cast<std::array<char, 4>>(static_cast<uint32_t>(bits));
  const absl::string_view text(magic.data(), magic.size());
  if (text != "GGUF") {
    return absl::InvalidArgumentError(absl::StrCat(
        "magic is ", Quoted(text), ", not \"GGUF\": this is not a GGUF file"));
  }
  ASSIGN_OR_RETURN(const uint64_t version, stream_.Unsigned(4, "version"));
  header_.version = static_cast<uint32_t>(version);
  if (header_.version != 0 && (header_.version & 0xFFFF) == 0) {
    return absl::InvalidArgumentError(
        "version: the file has the other byte order (big-endian); convert it "
        "to little-endian");
  }
  if (header_.version != 2 && header_.version != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "version is ", header_.version, "; only 2 and 3 can be read"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> HeaderReader::ReadCount(absl::string_view name,
                                                int64_t max,
                                                int64_t min_record_bytes) {
  ASSIGN_OR_RETURN(const uint64_t count, stream_.Unsigned(8, name));
  if (count > static_cast<uint64_t>(max)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", count, ", the limit is ", max));
  }
  const auto n = static_cast<int64_t>(count);
  if (n * min_record_bytes > stream_.Remaining()) {
    return absl::DataLossError(
        absl::StrCat(name, " is ", n, ", which needs at least ",
                     n * min_record_bytes, " bytes, but only ",
                     stream_.Remaining(), " are left: ", stream_.end_reason()));
  }
  return n;
}

absl::Status HeaderReader::KeepBytes(int64_t bytes, absl::string_view what) {
  kept_bytes_ += bytes;
  if (kept_bytes_ <= GgufHeader::kMaxMetadataBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": the metadata's strings exceed the limit of ",
                   GgufHeader::kMaxMetadataBytes, " bytes"));
}

absl::Status HeaderReader::ReadMetadata(int64_t index) {
  const std::string place = absl::StrCat("key of metadata entry ", index);
  ASSIGN_OR_RETURN(const absl::string_view view,
                   stream_.String(GgufHeader::kMaxKeyBytes, place));
  if (view.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(place, " is empty"));
  }
  std::string key(view);
  const std::string what = absl::StrCat("metadata ", Quoted(key));
  RETURN_IF_ERROR(KeepBytes(static_cast<int64_t>(key.size()), what));
  if (header_.metadata.contains(key)) {
    return absl::InvalidArgumentError(absl::StrCat(what, " appears twice"));
  }
  ASSIGN_OR_RETURN(GgufValue value, ReadValue(what));
  header_.metadata.emplace(std::move(key), std::move(value));
  return absl::OkStatus();
}

absl::StatusOr<GgufValue> HeaderReader::ReadValue(const std::string& what) {
  ASSIGN_OR_RETURN(const uint64_t id, stream_.Unsigned(4, what));
  const auto type = static_cast<GgufType>(id);
  if (type == GgufType::kString) return ReadString(what);
  if (type == GgufType::kArray) return ReadArray(what);
  if (ScalarBytes(id) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has the unknown value type ", id));
  }
  ASSIGN_OR_RETURN(const GgufScalar scalar, stream_.Scalar(type, what));
  return std::visit(
      [type](auto value) {
        return GgufValue{type, value};
      },
      scalar);
}

absl::StatusOr<GgufValue> HeaderReader::ReadString(const std::string& what) {
  ASSIGN_OR_RETURN(const absl::string_view view,
                   stream_.String(GgufHeader::kMaxStringBytes, what));
  RETURN_IF_ERROR(KeepBytes(static_cast<int64_t>(view.size()), what));
  return GgufValue{GgufType::kString, std::string(view)};
}

absl::StatusOr<GgufValue> HeaderReader::ReadArray(const std::string& what) {
  ASSIGN_OR_RETURN(const uint64_t id, stream_.Unsigned(4, what));
  const bool is_string = id == static_cast<uint32_t>(GgufType::kString);
  if (id == static_cast<uint32_t>(GgufType::kArray)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " is an array of arrays, which is not allowed"));
  }
  if (!is_string && ScalarBytes(id) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has the unknown element type ", id));
  }
  ASSIGN_OR_RETURN(const uint64_t count, stream_.Unsigned(8, what));
  if (count > static_cast<uint64_t>(GgufHeader::kMaxArrayElements)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has ", count, " elements, the limit is ",
                     GgufHeader::kMaxArrayElements));
  }
  GgufArray array = {static_cast<GgufType>(id),
                     static_cast<int64_t>(count),
                     stream_.Offset(),
                     0,
                     {}};
  // A string takes at least its length's 8 bytes; both factors are small.
  const int64_t min_bytes = array.n * (is_string ? 8 : ScalarBytes(id));
  if (min_bytes > stream_.Remaining()) {
    return absl::DataLossError(
        absl::StrCat(what, " has ", array.n, " elements, which need at least ",
                     min_bytes, " bytes, but only ", stream_.Remaining(),
                     " are left: ", stream_.end_reason()));
  }
  if (is_string) {
    RETURN_IF_ERROR(
        stream_.SkipStrings(array.n, GgufHeader::kMaxStringBytes, what));
  } else if (array.n <= GgufHeader::kMaxInlineElements) {
    RETURN_IF_ERROR(ReadNumbers(array, what));
  } else {
    stream_.Skip(min_bytes);
  }
  array.bytes = stream_.Offset() - array.offset;
  return GgufValue{GgufType::kArray, std::move(array)};
}

absl::Status HeaderReader::ReadNumbers(GgufArray& array,
                                       const std::string& what) {
  inline_bytes_ += array.n * static_cast<int64_t>(sizeof(double));
  if (inline_bytes_ > kMaxInlineBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": the metadata's short arrays exceed the limit of ",
                     kMaxInlineBytes, " bytes"));
  }
  array.numbers.reserve(static_cast<size_t>(array.n));
  for (int64_t i = 0; i < array.n; ++i) {
    ASSIGN_OR_RETURN(const double value,
                     stream_.Number(array.element_type, what));
    array.numbers.push_back(value);
  }
  return absl::OkStatus();
}

absl::Status HeaderReader::ReadAlignment() {
  ASSIGN_OR_RETURN(const auto alignment, header_.Int("general.alignment"));
  header_.alignment = alignment.value_or(kDefaultAlignment);
  const int64_t a = header_.alignment;
  if (a < 8 || a > GgufHeader::kMaxAlignment || (a & (a - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "general.alignment is ", a, ", not a power of two from 8 to ",
        GgufHeader::kMaxAlignment));
  }
  return absl::OkStatus();
}

absl::Status HeaderReader::ReadTensor(int64_t index) {
  const std::string place = absl::StrCat("name of tensor ", index);
  ASSIGN_OR_RETURN(const absl::string_view view,
                   stream_.String(GgufHeader::kMaxTensorNameBytes, place));
  if (view.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(place, " is empty"));
  }
  GgufTensor tensor = {std::string(view), DType::kF32, 0, {1, 1, 1, 1}, 0, 0};
  const std::string what = absl::StrCat("tensor ", Quoted(tensor.name));
  RETURN_IF_ERROR(ReadDimensions(tensor, what));
  ASSIGN_OR_RETURN(const uint64_t type, stream_.Unsigned(4, what));
  const DTypeInfo* info = FindDType(static_cast<uint32_t>(type));
  if (info == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has the unknown element type ", type));
  }
  tensor.dtype = info->dtype;
  RETURN_IF_ERROR(SizeTensor(tensor, what));
  ASSIGN_OR_RETURN(const uint64_t offset, stream_.Unsigned(8, what));
  if (offset > static_cast<uint64_t>(header_.file_bytes)) {
    return absl::DataLossError(
        absl::StrCat(what, " starts at offset ", offset,
                     " of the data, past the end of the file of ",
                     header_.file_bytes, " bytes"));
  }
  tensor.offset = static_cast<int64_t>(offset);
  header_.tensors.push_back(std::move(tensor));
  return absl::OkStatus();
}

absl::Status HeaderReader::ReadDimensions(GgufTensor& tensor,
                                          const std::string& what) {
  ASSIGN_OR_RETURN(const uint64_t n_dims, stream_.Unsigned(4, what));
  if (n_dims < 1 || n_dims > 4) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has ", n_dims, " dimensions, not 1 to 4"));
  }
  tensor.n_dims = static_cast<int>(n_dims);
  Checked elements = 1;
  for (size_t i = 0; i < n_dims; ++i) {
    ASSIGN_OR_RETURN(const uint64_t count, stream_.Unsigned(8, what));
    const auto ne = static_cast<int64_t>(count);
    if (ne < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " has ", count, " elements in dimension ", i));
    }
    tensor.ne[i] = ne;
    elements *= ne;
  }
  if (elements.overflow()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": the product of its dimensions overflows"));
  }
  return absl::OkStatus();
}

absl::Status HeaderReader::SizeTensor(GgufTensor& tensor,
                                      const std::string& what) {
  const auto row = RowBytes(tensor.dtype, tensor.ne[0]);
  if (!row.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": ", row.status().message()));
  }
  const auto bytes =
      (Checked(*row) * tensor.ne[1] * tensor.ne[2] * tensor.ne[3]).Get();
  if (!bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": its size in bytes overflows"));
  }
  tensor.bytes = *bytes;
  return absl::OkStatus();
}

absl::Status HeaderReader::CheckPlacement() {
  header_.header_bytes = stream_.Offset();
  // Both terms are within their limits: a header ends within the file.
  header_.data_offset =
      CeilDiv(header_.header_bytes, header_.alignment) * header_.alignment;
  if (header_.tensors.empty()) return absl::OkStatus();
  const int64_t data_bytes = header_.file_bytes - header_.data_offset;
  for (const GgufTensor& tensor : header_.tensors) {
    const std::string what = absl::StrCat("tensor ", Quoted(tensor.name));
    if (tensor.offset % header_.alignment != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " starts at offset ", tensor.offset,
                       " of the data, not a multiple of ", header_.alignment));
    }
    if (tensor.offset > data_bytes ||
        tensor.bytes > data_bytes - tensor.offset) {
      return absl::DataLossError(absl::StrCat(
          what, " has ", tensor.bytes, " bytes at offset ", tensor.offset,
          " of the data, which has ", std::max<int64_t>(data_bytes, 0),
          " bytes: the file is truncated"));
    }
  }
  RETURN_IF_ERROR(CheckNames());
  return CheckOverlap();
}

absl::Status HeaderReader::CheckNames() const {
  std::vector<absl::string_view> names;
  names.reserve(header_.tensors.size());
  for (const GgufTensor& tensor : header_.tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", Quoted(*twice), " appears twice"));
}

absl::Status HeaderReader::CheckOverlap() const {
  std::vector<const GgufTensor*> by_offset;
  by_offset.reserve(header_.tensors.size());
  for (const GgufTensor& tensor : header_.tensors) by_offset.push_back(&tensor);
  std::sort(by_offset.begin(), by_offset.end(),
            [](const GgufTensor* a, const GgufTensor* b) {
              return a->offset < b->offset;
            });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const GgufTensor& a = *by_offset[i - 1];
    const GgufTensor& b = *by_offset[i];
    if (a.bytes <= b.offset - a.offset) continue;
    return absl::InvalidArgumentError(absl::StrCat("tensors ", Quoted(a.name),
                                                   " and ", Quoted(b.name),
                                                   " overlap in the file"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GgufHeader> ReadGgufHeader(ByteSource& source) {
  return HeaderReader(source).Read();
}

}  // namespace plimsoll::planner
