#include "services/server/request_id.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace plimsoll::services {

bool IsGoodRequestId(absl::string_view id) {
  return !id.empty() && id.size() <= kMaxRequestIdBytes &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return absl::ascii_isgraph(static_cast<unsigned char>(c));
         });
}

}  // namespace plimsoll::services
