// A source of bytes that has only the beginning of a file.
#ifndef PLIMSOLL_PLANNER_GGUF_PREFIX_SOURCE_H_
#define PLIMSOLL_PLANNER_GGUF_PREFIX_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "planner/gguf/byte_source.h"

namespace plimsoll::planner {

// A source over memory that outlives it, the beginning of a file of
// `file_bytes`.
class PrefixSource final : public ByteSource {
 public:
  PrefixSource(std::span<const std::byte> bytes, int64_t file_bytes)
      : bytes_(bytes), file_bytes_(file_bytes) {}
  int64_t Size() const override { return file_bytes_; }
  int64_t PresentBytes() const override { return bytes_.Size(); }
  absl::Status Read(int64_t offset, std::span<std::byte> out) override {
    return bytes_.Read(offset, out);
  }

 private:
  MemorySource bytes_;
  int64_t file_bytes_;
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_GGUF_PREFIX_SOURCE_H_
