// Writes GGUF headers for tests, good ones and bad ones alike: every count and
// every value can be overridden.
#ifndef PLIMSOLL_TESTS_PLANNER_GGUF_GGUF_BUILDER_H_
#define PLIMSOLL_TESTS_PLANNER_GGUF_GGUF_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/checked_math.h"
#include "base/dtype.h"
#include "planner/gguf/gguf_reader.h"

namespace plimsoll::planner {

// Bytes in the file's little-endian order.
class ByteWriter {
 public:
  template <typename T>
  ByteWriter& Put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  ByteWriter& PutString(absl::string_view text) {
    Put(static_cast<uint64_t>(text.size()));
    return PutRaw(text);
  }
  ByteWriter& PutRaw(absl::string_view text) {
    bytes_.append(text.data(), text.size());
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class GgufBuilder {
 public:
  // Set before Build to lie about them.
  uint32_t version = 3;
  std::optional<uint64_t> tensor_count;
  std::optional<uint64_t> metadata_count;
  int64_t alignment = 32;  // alignment of the layout; not written
  int64_t extra_data = 0;  // bytes after the last tensor; may be negative

  GgufBuilder& Raw(absl::string_view key, GgufType type,
                   absl::string_view value) {
    metadata_.PutString(key).Put(static_cast<uint32_t>(type)).PutRaw(value);
    ++n_metadata_;
    return *this;
  }
  GgufBuilder& U32(absl::string_view key, uint32_t value) {
    return Raw(key, GgufType::kU32, ByteWriter().Put(value).bytes());
  }
  GgufBuilder& F32(absl::string_view key, float value) {
    return Raw(key, GgufType::kF32, ByteWriter().Put(value).bytes());
  }
  GgufBuilder& Text(absl::string_view key, absl::string_view value) {
    return Raw(key, GgufType::kString, ByteWriter().PutString(value).bytes());
  }
  template <typename T>
  GgufBuilder& Array(absl::string_view key, GgufType element,
                     const std::vector<T>& values) {
    ByteWriter bytes;
    bytes.Put(static_cast<uint32_t>(element))
        .Put(static_cast<uint64_t>(values.size()));
    for (const T& value : values) bytes.Put(value);
    return Raw(key, GgufType::kArray, bytes.bytes());
  }
  GgufBuilder& Strings(absl::string_view key,
                       const std::vector<std::string>& values) {
    ByteWriter bytes;
    bytes.Put(static_cast<uint32_t>(GgufType::kString))
        .Put(static_cast<uint64_t>(values.size()));
    for (const std::string& value : values) bytes.PutString(value);
    return Raw(key, GgufType::kArray, bytes.bytes());
  }

  // A tensor at the next free offset, of the right size.
  GgufBuilder& Tensor(absl::string_view name, DType dtype,
                      const std::vector<uint64_t>& ne) {
    RawTensor(name, static_cast<uint32_t>(ne.size()), ne,
              static_cast<uint32_t>(dtype), static_cast<uint64_t>(data_bytes_));
    int64_t bytes = *RowBytes(dtype, static_cast<int64_t>(ne[0]));
    for (size_t i = 1; i < ne.size(); ++i) bytes *= static_cast<int64_t>(ne[i]);
    data_bytes_ = *CheckedRoundUp(data_bytes_ + bytes, alignment);
    return *this;
  }
  // A tensor whose every field is given; no data is added for it.
  GgufBuilder& RawTensor(absl::string_view name, uint32_t n_dims,
                         const std::vector<uint64_t>& ne, uint32_t dtype,
                         uint64_t offset) {
    tensors_.PutString(name).Put(n_dims);
    for (uint64_t n : ne) tensors_.Put(n);
    tensors_.Put(dtype).Put(offset);
    ++n_tensors_;
    return *this;
  }

  // The header without its padding.
  std::string Header() const {
    ByteWriter out;
    out.PutRaw("GGUF").Put(version);
    out.Put(tensor_count.value_or(n_tensors_));
    out.Put(metadata_count.value_or(n_metadata_));
    out.PutRaw(metadata_.bytes()).PutRaw(tensors_.bytes());
    return out.bytes();
  }
  // The whole file's length, if its header has `header_bytes`.
  int64_t FileBytes(size_t header_bytes) const {
    return *CheckedRoundUp(static_cast<int64_t>(header_bytes), alignment) +
           data_bytes_ + extra_data;
  }
  // The whole file, its data all zeros.
  std::string Build() const {
    std::string file = Header();
    file.resize(static_cast<size_t>(FileBytes(file.size())));
    return file;
  }

 private:
  ByteWriter metadata_;
  ByteWriter tensors_;
  uint64_t n_metadata_ = 0;
  uint64_t n_tensors_ = 0;
  int64_t data_bytes_ = 0;
};

inline std::span<const std::byte> AsBytes(absl::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

inline absl::StatusOr<GgufHeader> Parse(absl::string_view file) {
  MemorySource source(AsBytes(file));
  return ReadGgufHeader(source);
}

// A header in memory that claims to be followed by `size` bytes in all; the
// bytes beyond it are zeros. If it ends early, it is a truncated file.
class HeaderSource final : public ByteSource {
 public:
  HeaderSource(absl::string_view header, int64_t size)
      : header_(header), size_(size), present_bytes_(size) {}
  // Only the first `n` of the `size` bytes are present.
  void SetPresentBytes(int64_t n) { present_bytes_ = n; }
  int64_t Size() const override { return size_; }
  int64_t PresentBytes() const override { return present_bytes_; }
  absl::Status Read(int64_t offset, std::span<std::byte> out) override {
    if (offset < 0 || offset > size_ ||
        static_cast<int64_t>(out.size()) > size_ - offset) {
      return absl::InternalError("the reader went past the end of its source");
    }
    bytes_read_ += static_cast<int64_t>(out.size());
    const auto begin = static_cast<size_t>(offset);
    size_t n = 0;
    if (begin < header_.size()) {
      n = std::min(out.size(), header_.size() - begin);
      std::memcpy(out.data(), header_.data() + begin, n);
    }
    std::memset(out.data() + n, 0, out.size() - n);
    return absl::OkStatus();
  }
  int64_t bytes_read() const { return bytes_read_; }

 private:
  absl::string_view header_;
  int64_t size_;
  int64_t present_bytes_;
  int64_t bytes_read_ = 0;
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_TESTS_PLANNER_GGUF_GGUF_BUILDER_H_
