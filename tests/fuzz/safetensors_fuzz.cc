// Arbitrary bytes as a safetensors file: an error, or tensors that lie in the
// file, one after the other.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status_macros.h"
#include "planner/gguf/byte_source.h"
#include "services/convert/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  plimsoll::planner::MemorySource source(std::as_bytes(std::span(data, size)));
  const auto tensors = plimsoll::services::ReadSafetensors(source);
  if (!tensors.ok()) return 0;
  int64_t end = 8;
  for (const plimsoll::services::SafeTensor& tensor : *tensors) {
    PLIMSOLL_CHECK(tensor.offset >= end && tensor.bytes >= 0,
                   "tensors follow one another");
    end = tensor.offset + tensor.bytes;
  }
  PLIMSOLL_CHECK(end <= source.Size(), "tensors lie in the file");
  return 0;
}
