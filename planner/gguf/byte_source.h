// A source of the bytes of a file.
#ifndef PLIMSOLL_PLANNER_GGUF_BYTE_SOURCE_H_
#define PLIMSOLL_PLANNER_GGUF_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace plimsoll::planner {

// The planner does no I/O itself: the worker gives it a file, a test gives it
// memory.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual int64_t Size() const = 0;
  // Bytes that are present, from the beginning: a message may hold only the
  // beginning of a file. Headers are never read beyond these bytes.
  virtual int64_t PresentBytes() const { return Size(); }
  // Fills all of `out` from `offset`. The caller stays within Size().
  virtual absl::Status Read(int64_t offset, std::span<std::byte> out) = 0;
};

// A source over memory that outlives it.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  int64_t Size() const override { return static_cast<int64_t>(bytes_.size()); }
  absl::Status Read(int64_t offset, std::span<std::byte> out) override;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_GGUF_BYTE_SOURCE_H_
