#include "planner/gguf/gguf_stream.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

GgufScalar Decode(GgufType type, uint64_t bits) {
  switch (type) {
    case GgufType::kI8:
      return int64_t{static_cast<int8_t>(bits)};
    case GgufType::kI16:
      return int64_t{static_cast<int16_t>(bits)};
    case GgufType::kI32:
      return int64_t{static_cast<int32_t>(bits)};
    case GgufType::kI64:
      return static_cast<int64_t>(bits);
    case GgufType::kF32:
      return double{std::bit_cast<float>(static_cast<uint32_t>(bits))};
    case GgufType::kF64:
      return std::bit_cast<double>(bits);
    default:
      return bits;
  }
}

}  // namespace

std::string Quoted(absl::string_view bytes) {
  constexpr size_t kMaxQuotedBytes = 80;
  const bool is_cut = bytes.size() > kMaxQuotedBytes;
  return absl::StrCat("\"", absl::CHexEscape(bytes.substr(0, kMaxQuotedBytes)),
                      is_cut ? "..." : "", "\"");
}

int64_t ScalarBytes(uint64_t type) {
  constexpr std::array<int64_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4,
                                              1, 0, 0, 8, 8, 8};
  return type < kBytes.size() ? kBytes[type] : 0;
}

absl::Status GgufStream::Truncated(int64_t bytes,
                                   absl::string_view what) const {
  return absl::DataLossError(
      absl::StrCat(what, " needs ", bytes, " bytes at offset ", offset_,
                   ", but only ", Remaining(), " are left: ", end_reason_));
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

absl::StatusOr<uint64_t> GgufStream::Unsigned(int64_t bytes,
                                              absl::string_view what) {
  RETURN_IF_ERROR(Fill(bytes, what));
  uint64_t value = 0;
  std::memcpy(&value, buffer_.data() + begin_, static_cast<size_t>(bytes));
  Advance(bytes);
  return value;
}

absl::StatusOr<GgufScalar> GgufStream::Scalar(GgufType type,
                                              absl::string_view what) {
  const int64_t bytes = ScalarBytes(static_cast<uint64_t>(type));
  if (bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(what, " is not a number"));
  }
  ASSIGN_OR_RETURN(const uint64_t bits, Unsigned(bytes, what));
  if (type == GgufType::kBool && bits > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has a bool with the value ", bits));
  }
  return Decode(type, bits);
}

absl::StatusOr<double> GgufStream::Number(GgufType type,
                                          absl::string_view what) {
  ASSIGN_OR_RETURN(const GgufScalar scalar, Scalar(type, what));
  return std::visit([](auto value) { return static_cast<double>(value); },
                    scalar);
}

absl::StatusOr<int64_t> GgufStream::StringLength(int64_t max_bytes,
                                                 absl::string_view what) {
  ASSIGN_OR_RETURN(const uint64_t length, Unsigned(8, what));
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
  Skip(bytes);
  return absl::string_view(long_string_);
}

void GgufStream::Skip(int64_t bytes) {
  if (bytes <= static_cast<int64_t>(filled_ - begin_)) return Advance(bytes);
  offset_ += bytes;
  begin_ = filled_ = 0;
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
    Skip(bytes);
    ++i;
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::planner
