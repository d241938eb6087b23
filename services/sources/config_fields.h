// Typed access to the fields of a config.json.
#ifndef PLIMSOLL_SERVICES_SOURCES_CONFIG_FIELDS_H_
#define PLIMSOLL_SERVICES_SOURCES_CONFIG_FIELDS_H_

#include <google/protobuf/struct.pb.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::services {

using ConfigObject = google::protobuf::Struct;
using ConfigValue = google::protobuf::Value;

// An error about the field `name`.
absl::Status BadField(absl::string_view name, absl::string_view what);

// The field, or nullptr if it is absent or null.
const ConfigValue* FindField(const ConfigObject& object,
                             absl::string_view name);

// The object in the field, or nullptr if there is none.
const ConfigObject* FindObject(const ConfigObject& object,
                               absl::string_view name);

// The text of the field; empty if it is absent or no text.
std::string TextOf(const ConfigObject& object, absl::string_view name);

// `value`, which is the field `name` or a part of it, as a whole number.
// Errors: kInvalidArgument if it is no whole number from 0 to 2^53.
absl::StatusOr<uint64_t> CountOf(const ConfigValue& value,
                                 absl::string_view name);

// The whole number in the field. Errors: also if it is absent.
absl::StatusOr<uint64_t> RequiredCount(const ConfigObject& object,
                                       absl::string_view name);

// The number in the field, or nothing if it is absent or null.
// Errors: kInvalidArgument if it is not a finite number.
absl::StatusOr<std::optional<double>> NumberOf(const ConfigObject& object,
                                               absl::string_view name);

// The number in the field. Errors: as NumberOf; also kInvalidArgument if it is
// absent.
absl::StatusOr<double> RequiredNumber(const ConfigObject& object,
                                      absl::string_view name);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SOURCES_CONFIG_FIELDS_H_
