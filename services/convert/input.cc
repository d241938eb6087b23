#include "services/convert/input.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/json_check.h"

namespace plimsoll::services {

absl::StatusOr<std::optional<std::string>> ReadSmallFile(
    const std::string& folder, const std::string& name, int64_t max_bytes) {
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return std::optional<std::string>();
  }
  const auto bytes =
      static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (!error && bytes > max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " has ", bytes, " bytes, at most ", max_bytes, " are accepted"));
  }
  std::string text(error ? 0 : static_cast<size_t>(bytes), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (error || !file) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", path.string(), "' cannot be read"));
  }
  return std::optional<std::string>(std::move(text));
}

absl::StatusOr<Json> ParseObject(absl::string_view name, absl::string_view text,
                                 int max_depth) {
  if (const absl::Status status = worker::CheckJson(text, max_depth);
      !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", status.message()));
  }
  Json json =
      Json::parse(text.data(), text.data() + text.size(), /*cb=*/nullptr,
                  /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  return absl::InvalidArgumentError(absl::StrCat(name, " is not an object"));
}

const Json& MemberOf(const Json& object, const char* name) {
  static const auto* none = new Json;
  if (!object.is_object()) return *none;
  const auto it = object.find(name);
  return it == object.end() ? *none : *it;
}

std::string TextMember(const Json& object, const char* name) {
  const Json& member = MemberOf(object, name);
  return member.is_string() ? member.get<std::string>() : "";
}

bool IsTrue(const Json& object, const char* name) {
  const Json& member = MemberOf(object, name);
  return member.is_boolean() && member.get<bool>();
}

}  // namespace plimsoll::services
