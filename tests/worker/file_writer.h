// Writes a GGUF file's bytes.
#ifndef PLIMSOLL_TESTS_WORKER_FILE_WRITER_H_
#define PLIMSOLL_TESTS_WORKER_FILE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace plimsoll::testing {

using Bytes = std::vector<std::byte>;

template <typename T>
void Store(Bytes& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

// The file's metadata, and bytes in general, in the order they are appended.
class Writer {
 public:
  template <typename T>
  void Raw(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    Store(bytes_, at, value);
  }
  void String(absl::string_view text) {
    Raw(static_cast<uint64_t>(text.size()));
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
  }
  void U32(absl::string_view key, uint32_t value) { Value(key, 4, value); }
  void F32(absl::string_view key, float value) { Value(key, 6, value); }
  void Bool(absl::string_view key, bool value) {
    Value(key, 7, static_cast<uint8_t>(value));
  }
  void Text(absl::string_view key, absl::string_view value) {
    Key(key, 8);
    String(value);
  }
  void Texts(absl::string_view key, const std::vector<std::string>& values) {
    Array(key, 8, values.size());
    for (const std::string& value : values) String(value);
  }
  template <typename T>
  void Values(absl::string_view key, uint32_t type,
              const std::vector<T>& values) {
    Array(key, type, values.size());
    for (const T& value : values) Raw(value);
  }
  void Append(const Bytes& more) {
    bytes_.insert(bytes_.end(), more.begin(), more.end());
  }
  void Pad() { bytes_.resize((bytes_.size() + 31) / 32 * 32); }
  Bytes& bytes() { return bytes_; }
  uint64_t n_values() const { return n_values_; }

 private:
  void Key(absl::string_view key, uint32_t type) {
    ++n_values_;
    String(key);
    Raw(type);
  }
  template <typename T>
  void Value(absl::string_view key, uint32_t type, T value) {
    Key(key, type);
    Raw(value);
  }
  void Array(absl::string_view key, uint32_t type, size_t n) {
    Key(key, 9);
    Raw(type);
    Raw(static_cast<uint64_t>(n));
  }

  Bytes bytes_;
  uint64_t n_values_ = 0;
};

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_FILE_WRITER_H_
