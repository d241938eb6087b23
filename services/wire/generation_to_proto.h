// Converts the worker's results and state to messages of plimsoll.v1.
#ifndef PLIMSOLL_SERVICES_WIRE_GENERATION_TO_PROTO_H_
#define PLIMSOLL_SERVICES_WIRE_GENERATION_TO_PROTO_H_

#include "absl/time/time.h"
#include "plimsoll/v1/common.pb.h"
#include "plimsoll/v1/generation.pb.h"
#include "plimsoll/v1/session.pb.h"
#include "worker/engine/engine.h"

namespace plimsoll::services {

v1::MemoryReport ToProto(const worker::MemoryReport& report);
v1::GeneratedToken ToProto(const worker::TokenOutput& token);
v1::Eviction ToProto(const worker::Eviction& eviction);
// Appends the output of a step, without its text, to a reply or to a part of a
// stream.
void AppendOutput(const worker::StepOutput& output,
                  v1::GenerateResponse& response);
void AppendOutput(const worker::StepOutput& output,
                  v1::StreamGenerateResponse& part);
void AppendOutput(const worker::StepOutput& output, v1::ChatResponse& part);
// Converts a session; the caller sets its model.
v1::Session ToProto(const worker::SessionInfo& info);
v1::FinishReason ToProto(worker::FinishReason reason);
// `total` is the time from the request to the end.
v1::GenerationTiming TimingToProto(const worker::FinishInfo& info,
                                   absl::Duration total);
v1::TokenUsage UsageToProto(const worker::FinishInfo& info);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WIRE_GENERATION_TO_PROTO_H_
