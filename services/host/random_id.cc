#include "services/host/random_id.h"

#include <unistd.h>

#include "absl/strings/escaping.h"
#include "base/status_macros.h"

namespace plimsoll::services {

std::string RandomId() {
  std::string bytes(16, '\0');
  // A request for 256 bytes or fewer never fails once the system's generator is
  // seeded.
  PLIMSOLL_CHECK(getentropy(bytes.data(), bytes.size()) == 0,
                 "the system has no random numbers");
  return absl::BytesToHexString(bytes);
}

}  // namespace plimsoll::services
