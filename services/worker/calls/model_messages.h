// What a worker says of its models, as messages of plimsoll.v1.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_MODEL_MESSAGES_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_MODEL_MESSAGES_H_

#include "plimsoll/v1/model.pb.h"
#include "services/worker/models/model_info.h"

namespace plimsoll::services {

v1::ModelState ToProto(ModelState state);
v1::Model ToProto(const ModelInfo& info);
v1::LoadModelResponse ToProto(const LoadReport& report);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_MODEL_MESSAGES_H_
