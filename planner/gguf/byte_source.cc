#include "planner/gguf/byte_source.h"

#include <algorithm>
#include <cstring>

namespace plimsoll::planner {

absl::Status MemorySource::Read(int64_t offset, std::span<std::byte> out) {
  if (offset < 0 || offset > Size() ||
      static_cast<int64_t>(out.size()) > Size() - offset) {
    return absl::OutOfRangeError("a read past the end of the memory source");
  }
  if (!out.empty()) {
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::planner
