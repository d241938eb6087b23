// Bytes from hexadecimal digits.
#ifndef PLIMSOLL_BASE_DECODE_HEX_H_
#define PLIMSOLL_BASE_DECODE_HEX_H_

#include <string>

#include "absl/base/config.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace plimsoll {

// Returns a byte for each pair of `digits`. All of them must be hexadecimal
// digits, an even number of them. The function of Abseil that this calls was
// replaced in the release 20240722.
inline std::string DecodeHex(absl::string_view digits) {
#if ABSL_LTS_RELEASE_VERSION >= 20240722
  std::string bytes;
  (void)absl::HexStringToBytes(digits, &bytes);
  return bytes;
#else
  return absl::HexStringToBytes(digits);
#endif
}

}  // namespace plimsoll

#endif  // PLIMSOLL_BASE_DECODE_HEX_H_
