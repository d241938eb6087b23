// Converts values of the planner to messages of plimsoll.v1.
#ifndef PLIMSOLL_SERVICES_WIRE_TO_PROTO_H_
#define PLIMSOLL_SERVICES_WIRE_TO_PROTO_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "planner/layout/device_profile.h"
#include "planner/layout/layer_split.h"
#include "planner/layout/memory_plan.h"
#include "planner/layout/model_set.h"
#include "planner/lease/lease_book.h"
#include "planner/model/model_shape.h"
#include "plimsoll/v1/common.pb.h"
#include "plimsoll/v1/planner.pb.h"

namespace plimsoll::services {

// Cuts a count to the 32 bits that it has on the wire; a negative count becomes
// 0.
uint32_t ToUint32(int64_t value);
uint64_t ToUint64(int64_t value);

v1::ElementType ToProto(DType dtype);
v1::Basis ToProto(planner::Basis basis);
v1::LoadOptions ToProto(const planner::PlanOptions& options);
v1::Suggestion ToProto(const planner::Suggestion& suggestion);
v1::MemoryPlan ToProto(const planner::MemoryPlan& plan);
v1::PlanSetResponse ToProto(const planner::SetPlan& set);
// The response also has the budget of each device.
v1::PlanSplitResponse ToProto(const planner::SplitPlan& split,
                              const std::vector<planner::SplitDevice>& devices);
v1::DeviceProfile ToProto(const planner::DeviceProfile& profile);
v1::DescribeModelResponse ToProto(const planner::ModelShape& shape);
v1::Lease ToProto(const planner::Lease& lease, absl::Time now);

google::protobuf::Duration ToProto(absl::Duration duration);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WIRE_TO_PROTO_H_
