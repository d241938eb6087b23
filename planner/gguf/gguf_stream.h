// A cursor over a ByteSource: it reads little-endian values and strings through
// one small buffer and checks every read against the remaining bytes.
#ifndef PLIMSOLL_PLANNER_GGUF_GGUF_STREAM_H_
#define PLIMSOLL_PLANNER_GGUF_GGUF_STREAM_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_reader.h"

namespace plimsoll::planner {

static_assert(std::endian::native == std::endian::little,
              "the reader copies little-endian values as they are");

// Puts `bytes` in quotes, escapes unprintable bytes and cuts long texts, so
// that a message can show them.
std::string Quoted(absl::string_view bytes);

// Bytes of a value of a fixed size, or 0 for strings, arrays and unknown ids.
int64_t ScalarBytes(uint64_t type);

// Unsigned types and bool are uint64, signed ones int64, floats double.
using GgufScalar = std::variant<uint64_t, int64_t, double>;

// Reads [offset, end) of the source, and never beyond `end`. Not thread-safe.
class GgufStream {
 public:
  // Errors contain `end_reason`, the reason why there are no bytes behind
  // `end`.
  GgufStream(ByteSource& source, int64_t offset, int64_t end,
             std::string end_reason = "the file is truncated")
      : source_(source),
        offset_(offset),
        end_(end),
        end_reason_(std::move(end_reason)) {}

  int64_t Offset() const { return offset_; }
  int64_t Remaining() const { return end_ - offset_; }
  const std::string& end_reason() const { return end_reason_; }

  // Reads an unsigned number of `bytes` (1, 2, 4 or 8) bytes. Errors: kDataLoss
  // naming `what` if it does not fit.
  absl::StatusOr<uint64_t> Unsigned(int64_t bytes, absl::string_view what);

  // Reads one value of a scalar type. Errors: those of Unsigned;
  // kInvalidArgument for a bool that is not 0 or 1, a string or an array.
  absl::StatusOr<GgufScalar> Scalar(GgufType type, absl::string_view what);

  // Reads one value of a scalar type as a double.
  absl::StatusOr<double> Number(GgufType type, absl::string_view what);

  // Reads a length-prefixed string of at most `max_bytes`; the view is valid
  // until the next call. Errors: kDataLoss if it does not fit, kInvalidArgument
  // if it is too long, both naming `what`.
  absl::StatusOr<absl::string_view> String(int64_t max_bytes,
                                           absl::string_view what);

  // Skips `bytes` bytes. Requires 0 <= bytes <= Remaining().
  void Skip(int64_t bytes);

  // Skips `n` strings of at most `max_bytes` each. Errors: those of String,
  // naming `what` and the index.
  absl::Status SkipStrings(int64_t n, int64_t max_bytes,
                           absl::string_view what);

 private:
  // Makes at least `bytes` (at most kBufferBytes) available at begin_.
  absl::Status Fill(int64_t bytes, absl::string_view what);
  absl::StatusOr<int64_t> StringLength(int64_t max_bytes,
                                       absl::string_view what);
  void Advance(int64_t bytes) {
    begin_ += static_cast<size_t>(bytes);
    offset_ += bytes;
  }
  absl::Status Truncated(int64_t bytes, absl::string_view what) const;

  static constexpr int64_t kBufferBytes = 64 << 10;

  ByteSource& source_;
  int64_t offset_;  // the next byte, in the source
  int64_t end_;
  std::string end_reason_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0;  // beginning of the unread part of buffer_
  size_t filled_ = 0;
  std::string long_string_;  // a string that does not fit in the buffer
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_GGUF_GGUF_STREAM_H_
