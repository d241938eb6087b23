// Safetensors files in memory, good ones and bad ones.
#ifndef PLIMSOLL_TESTS_SERVICES_CONVERT_SAFETENSORS_BYTES_H_
#define PLIMSOLL_TESTS_SERVICES_CONVERT_SAFETENSORS_BYTES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::services {

// A file with this header and so many bytes of data.
inline std::string SafetensorsBytes(absl::string_view header,
                                    size_t data_bytes) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<char>(header.size() >> (8 * i) & 255));
  }
  bytes.append(header.data(), header.size());
  bytes.append(data_bytes, '\0');
  return bytes;
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_TESTS_SERVICES_CONVERT_SAFETENSORS_BYTES_H_
