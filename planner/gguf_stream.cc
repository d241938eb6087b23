#include "planner/gguf_stream.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace plimsoll::planner {

std::string Quoted(absl::string_view bytes) {
  constexpr size_t kMaxQuotedBytes = 80;
  const bool is_cut = bytes.size() > kMaxQuotedBytes;
  return absl::StrCat("\"", absl::CHexEscape(bytes.substr(0, kMaxQuotedBytes)),
                      is_cut ? "..." : "", "\"");
}

int64_t ScalarBytes(uint32_t type) {
  constexpr std::array<int64_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4,
                                              1, 0, 0, 8, 8, 8};
  return type < kBytes.size() ? kBytes[type] : 0;
}

absl::Status GgufStream::Truncated(int64_t bytes,
                                   absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(
      what, " needs ", bytes, " bytes at offset ", offset_, ", but only ",
      Remaining(), " are left: the file is truncated"));
}

absl::Status GgufStream::Fill(int64_t bytes, absl::string_view what) {
  const size_t unread = filled_ - begin_;
  if (static_cast<size_t>(bytes) <= unread) return absl::OkStatus();
  if (bytes > Remaining()) return Truncated(bytes, what);
  if (buffer_.empty()) {
    buffer_.resize(static_cast<size_t>(std::min(kBufferBytes, Remaining())));
  }
  std::memmove(buffer_.data(), buffer_.data() + begin_, unread);
  begin_ = 0;
  const int64_t in_source = Remaining() - static_cast<int64_t>(unread);
  const size_t wanted =
      std::min(buffer_.size() - unread, static_cast<size_t>(in_source));
  filled_ = unread;
  RETURN_IF_ERROR(
      source_.Read(offset_ + static_cast<int64_t>(unread),
                   std::span<std::byte>(buffer_).subspan(unread, wanted)));
  filled_ = unread + wanted;
  return absl::OkStatus();
}

absl::StatusOr<double> GgufStream::Number(GgufType type,
                                          absl::string_view what) {
  switch (type) {
    case GgufType::kU8:
      return AsDouble<uint8_t>(what);
    case GgufType::kI8:
      return AsDouble<int8_t>(what);
    case GgufType::kU16:
      return AsDouble<uint16_t>(what);
    case GgufType::kI16:
      return AsDouble<int16_t>(what);
    case GgufType::kU32:
      return AsDouble<uint32_t>(what);
    case GgufType::kI32:
      return AsDouble<int32_t>(what);
    case GgufType::kF32:
      return AsDouble<float>(what);
    case GgufType::kU64:
      return AsDouble<uint64_t>(what);
    case GgufType::kI64:
      return AsDouble<int64_t>(what);
    case GgufType::kF64:
      return AsDouble<double>(what);
    case GgufType::kBool: {
      ASSIGN_OR_RETURN(const uint8_t value, Value<uint8_t>(what));
      if (value <= 1) return value;
      return absl::InvalidArgumentError(
          absl::StrCat(what, " has a bool with the value ", value));
    }
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat(what, " is not a number"));
}

absl::StatusOr<int64_t> GgufStream::StringLength(int64_t max_bytes,
                                                 absl::string_view what) {
  ASSIGN_OR_RETURN(const uint64_t length, Value<uint64_t>(what));
  // Compared in the file's own width: a length of 2^64 - 1 is not -1.
  if (length > static_cast<uint64_t>(max_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, " is a string of ", length, " bytes, the limit is ", max_bytes));
  }
  const auto bytes = static_cast<int64_t>(length);
  if (bytes > Remaining()) return Truncated(bytes, what);
  return bytes;
}

absl::StatusOr<absl::string_view> GgufStream::String(int64_t max_bytes,
                                                     absl::string_view what) {
  ASSIGN_OR_RETURN(const int64_t bytes, StringLength(max_bytes, what));
  if (bytes <= static_cast<int64_t>(buffer_.size())) {
    RETURN_IF_ERROR(Fill(bytes, what));
    const auto* text = reinterpret_cast<const char*>(buffer_.data() + begin_);
    Advance(bytes);
    return absl::string_view(text, static_cast<size_t>(bytes));
  }
  long_string_.resize(static_cast<size_t>(bytes));
  RETURN_IF_ERROR(source_.Read(
      offset_, std::as_writable_bytes(std::span<char>(long_string_))));
  RETURN_IF_ERROR(Skip(bytes, what));
  return absl::string_view(long_string_);
}

absl::Status GgufStream::Skip(int64_t bytes, absl::string_view what) {
  if (bytes > Remaining()) return Truncated(bytes, what);
  if (bytes <= static_cast<int64_t>(filled_ - begin_)) {
    Advance(bytes);
    return absl::OkStatus();
  }
  offset_ += bytes;
  begin_ = filled_ = 0;
  return absl::OkStatus();
}

absl::Status GgufStream::SkipStrings(int64_t n, int64_t max_bytes,
                                     absl::string_view what) {
  int64_t i = 0;
  while (i < n) {
    // Walks the lengths in the buffer; anything unusual takes the slow path.
    while (i < n && filled_ - begin_ >= sizeof(uint64_t)) {
      uint64_t length = 0;
      std::memcpy(&length, buffer_.data() + begin_, sizeof(length));
      if (length > static_cast<uint64_t>(max_bytes) ||
          length > filled_ - begin_ - sizeof(length)) {
        break;
      }
      Advance(static_cast<int64_t>(sizeof(length) + length));
      ++i;
    }
    if (i == n) break;
    const std::string element = absl::StrCat(what, "[", i, "]");
    ASSIGN_OR_RETURN(const int64_t bytes, StringLength(max_bytes, element));
    RETURN_IF_ERROR(Skip(bytes, element));
    ++i;
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::planner
