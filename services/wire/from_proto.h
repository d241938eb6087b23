// Converts messages of plimsoll.v1 to values of the planner. The conversion
// checks them, so that they are valid afterwards.
#ifndef PLIMSOLL_SERVICES_WIRE_FROM_PROTO_H_
#define PLIMSOLL_SERVICES_WIRE_FROM_PROTO_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/layout/device_profile.h"
#include "planner/layout/memory_plan.h"
#include "plimsoll/v1/common.pb.h"
#include "plimsoll/v1/planner.pb.h"

namespace plimsoll::services {

// Every function below returns kInvalidArgument with the name of an invalid
// field.

// The error for an invalid value: `field` and `what`.
absl::Status InvalidField(absl::string_view field, absl::string_view what);

// Converts a count or size to int64. Here and below, errors call the value
// `field`.
absl::StatusOr<int64_t> Signed(uint64_t value, absl::string_view field);

absl::StatusOr<DType> FromProto(v1::ElementType type, absl::string_view field);

// The options of a plan.
absl::StatusOr<planner::PlanOptions> FromProto(const v1::LoadOptions& message);
// The options of a load. Fields that are absent in `message` get their values
// from `defaults`. Options that plan for other engines are refused.
absl::StatusOr<planner::LoadOptions> FromProto(
    const v1::LoadOptions& message, const planner::LoadOptions& defaults);

absl::StatusOr<planner::DeviceProfile> FromProto(
    const v1::DeviceProfile& message);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WIRE_FROM_PROTO_H_
