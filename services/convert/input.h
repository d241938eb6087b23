// The small files of a checkpoint's folder, and the JSON in them.
#ifndef PLIMSOLL_SERVICES_CONVERT_INPUT_H_
#define PLIMSOLL_SERVICES_CONVERT_INPUT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace plimsoll::services {

using Json = nlohmann::json;

// Returns the bytes of folder/name, or nothing if there is no such file.
// Errors: kInvalidArgument naming a file longer than `max_bytes`;
// kFailedPrecondition if it cannot be read.
absl::StatusOr<std::optional<std::string>> ReadSmallFile(
    const std::string& folder, const std::string& name, int64_t max_bytes);

// Parses `text`, which is the file `name`, as a JSON object nested at most
// `max_depth` deep. Errors: kInvalidArgument naming the file and what is wrong.
absl::StatusOr<Json> ParseObject(absl::string_view name, absl::string_view text,
                                 int max_depth);

// The member `name` of an object, or null if it is absent or `object` is no
// object.
const Json& MemberOf(const Json& object, const char* name);

// The text of a member; empty if it is absent or no text.
std::string TextMember(const Json& object, const char* name);

// True if the member is the truth value true.
bool IsTrue(const Json& object, const char* name);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_CONVERT_INPUT_H_
