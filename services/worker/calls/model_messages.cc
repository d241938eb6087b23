#include "services/worker/calls/model_messages.h"

#include "services/wire/model_parts.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

void Fill(const ReadyModel& model, v1::Model& message) {
  message.set_architecture(model.architecture);
  message.set_display_name(model.display_name);
  message.set_n_ctx(ToUint32(model.n_ctx));
  message.set_n_ctx_train(ToUint32(model.n_ctx_train));
  message.set_chat_format(model.chat_format);
  message.set_device_id(model.parts.front().device_id);
  int64_t total_bytes = 0;
  for (const ModelPart& part : model.parts) {
    total_bytes += part.total_bytes;
    if (model.parts.size() == 1) continue;
    *message.add_parts() =
        LayersToProto(part.device_id, part, part.total_bytes);
  }
  message.set_total_bytes(ToUint64(total_bytes));
  message.set_n_slots(ToUint32(model.load.n_slots));
  message.set_running(ToUint32(model.load.running));
  message.set_waiting(ToUint32(model.load.waiting));
  message.set_steps(ToUint64(model.load.steps));
  message.set_generated_tokens(ToUint64(model.load.generated_tokens));
}

}  // namespace

v1::ModelState ToProto(ModelState state) {
  switch (state) {
    case ModelState::kAbsent:
      return v1::MODEL_STATE_ABSENT;
    case ModelState::kReserving:
      return v1::MODEL_STATE_RESERVING;
    case ModelState::kLoading:
      return v1::MODEL_STATE_LOADING;
    case ModelState::kReady:
      return v1::MODEL_STATE_READY;
    case ModelState::kDraining:
      return v1::MODEL_STATE_DRAINING;
  }
  return v1::MODEL_STATE_UNSPECIFIED;
}

v1::Model ToProto(const ModelInfo& info) {
  v1::Model message;
  message.set_name(info.name);
  message.set_state(ToProto(info.state));
  message.set_last_error(info.last_error);
  if (info.ready.has_value()) Fill(*info.ready, message);
  return message;
}

v1::LoadModelResponse ToProto(const LoadReport& report) {
  v1::LoadModelResponse message;
  message.set_state(ToProto(report.state));
  if (report.bytes_done) message.set_bytes_done(ToUint64(*report.bytes_done));
  if (report.bytes_total) {
    message.set_bytes_total(ToUint64(*report.bytes_total));
  }
  if (!report.parts.empty()) {
    *message.mutable_plan() = ToProto(report.parts.front().plan);
  }
  for (const PlannedPart& part : report.parts) {
    if (report.parts.size() == 1) break;  // the plan says it all
    *message.add_parts() = PartToProto(part.device_id, part);
  }
  if (report.model.has_value()) {
    *message.mutable_model() = ToProto(*report.model);
  }
  return message;
}

}  // namespace plimsoll::services
