// Arbitrary bytes as a GGUF file: an error or a header that keeps its promises.
#include <cstddef>
#include <cstdint>

#include "base/status_macros.h"
#include "planner/gguf/gguf_arrays.h"
#include "planner/gguf/gguf_reader.h"

namespace {

using plimsoll::planner::GgufArray;
using plimsoll::planner::GgufHeader;
using plimsoll::planner::GgufTensor;
using plimsoll::planner::GgufType;
using plimsoll::planner::MemorySource;

void CheckTensors(const GgufHeader& header) {
  for (const GgufTensor& tensor : header.tensors) {
    PLIMSOLL_CHECK(tensor.offset >= 0 && tensor.bytes > 0 &&
                       tensor.offset % header.alignment == 0 &&
                       tensor.bytes <= header.file_bytes - header.data_offset -
                                           tensor.offset,
                   "a tensor lies within the file");
    PLIMSOLL_CHECK(header.FindTensor(tensor.name) == &tensor,
                   "names are unique");
  }
}

void ReadArray(MemorySource& source, const GgufArray& array) {
  if (array.element_type != GgufType::kString) {
    static_cast<void>(ReadFloats(source, array).ok());
    static_cast<void>(ReadInt32s(source, array).ok());
    return;
  }
  int64_t n = 0;
  const absl::Status status = ForEachString(
      source, array, [&n, &array](int64_t, absl::string_view text) {
        PLIMSOLL_CHECK(static_cast<int64_t>(text.size()) <= array.bytes,
                       "a string lies within its array");
        ++n;
        return absl::OkStatus();
      });
  PLIMSOLL_CHECK(status.ok() && n == array.n,
                 "an array that was checked can be read");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  MemorySource source({reinterpret_cast<const std::byte*>(data), size});
  const auto header = plimsoll::planner::ReadGgufHeader(source);
  if (!header.ok()) return 0;
  CheckTensors(*header);
  for (const auto& [key, value] : header->metadata) {
    static_cast<void>(header->Int(key).ok());
    static_cast<void>(header->Float(key).ok());
    static_cast<void>(header->Bool(key).ok());
    static_cast<void>(header->String(key).ok());
    const auto array = header->Array(key);
    if (array.ok()) ReadArray(source, **array);
  }
  return 0;
}
