// JSON of requests and replies: reading fields with checks, and writing text.
#ifndef PLIMSOLL_SERVICES_HTTP_JSON_H_
#define PLIMSOLL_SERVICES_HTTP_JSON_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace plimsoll::services {

// JSON that keeps members in the order of the text.
using Json = nlohmann::ordered_json;

// Writes JSON on one line; text that is not UTF-8 becomes U+FFFD.
std::string Dump(const Json& json);

// Returns a whole number from `min` to `max`, or nothing for any other value.
// JSON has one kind of number, so 3.0 is a whole number too.
std::optional<int64_t> WholeNumber(const Json& value, int64_t min, int64_t max);

// Parses a request's body, whose nesting is bounded.
// Errors: kInvalidArgument naming the byte, or if it is not an object.
absl::StatusOr<Json> ReadBody(absl::string_view body);

// The fields of a JSON object that comes from a client. Each field is read once
// or ignored by name, so that End finds unknown fields. A field that is null
// counts as absent.
//
// Errors of all methods: kInvalidArgument that begins with the field's name.
class JsonFields {
 public:
  // `object` must outlive it. `path` goes before names in errors, such as
  // "messages[0].". Errors: also if `object` is not an object.
  static absl::StatusOr<JsonFields> Of(const Json& object,
                                       std::string path = "");

  // The value of a field; null if it is absent.
  const Json* Find(const std::string& name);
  absl::StatusOr<std::optional<bool>> Bool(const std::string& name);
  absl::StatusOr<std::optional<int64_t>> Int(const std::string& name,
                                             int64_t min, int64_t max);
  absl::StatusOr<std::optional<double>> Number(const std::string& name,
                                               double min, double max);
  absl::StatusOr<std::optional<std::string>> Text(const std::string& name);
  // A text, or an array of at most `max` texts; absent is empty.
  absl::StatusOr<std::vector<std::string>> Texts(const std::string& name,
                                                 size_t max);
  // An array of integers from `min` to `max`.
  absl::StatusOr<std::vector<int64_t>> Ints(const std::string& name,
                                            int64_t min, int64_t max);
  // Accepts any value of these fields.
  void Ignore(const std::vector<std::string>& names);
  // Refuses a field of this name unless it is absent or equal to `only`, and
  // says why.
  absl::Status AllowOnly(const std::string& name, const Json& only,
                         absl::string_view why);

  // Errors: as above, for the first field that was neither read nor ignored.
  absl::Status End() const;

  // An error of one field.
  absl::Status Bad(const std::string& name, absl::string_view what) const;

 private:
  JsonFields(const Json& object, std::string path)
      : object_(&object), path_(std::move(path)) {}

  const Json* object_;
  std::string path_;
  std::set<std::string> known_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_JSON_H_
