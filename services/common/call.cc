#include "services/common/call.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/ascii.h"
#include "services/common/random_id.h"

namespace plimsoll::services {
namespace {

constexpr char kRequestIdKey[] = "x-request-id";

bool IsGoodId(absl::string_view id) {
  return !id.empty() && id.size() <= kMaxRequestIdBytes &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return absl::ascii_isgraph(static_cast<unsigned char>(c));
         });
}

}  // namespace

std::string TakeRequestId(grpc::CallbackServerContext& context) {
  std::string id;
  const auto& metadata = context.client_metadata();
  if (const auto found = metadata.find(kRequestIdKey);
      found != metadata.end()) {
    id.assign(found->second.data(), found->second.size());
  }
  if (!IsGoodId(id)) id = RandomId();
  context.AddInitialMetadata(kRequestIdKey, id);
  return id;
}

absl::Duration TimeLeft(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return absl::InfiniteDuration();
  }
  return absl::FromChrono(deadline - std::chrono::system_clock::now());
}

absl::StatusOr<CallGate::Pass> BeginCall(
    const grpc::CallbackServerContext& context, CallGate& gate) {
  if (TimeLeft(context) <= absl::ZeroDuration()) {
    return absl::DeadlineExceededError("the call's deadline has passed");
  }
  return gate.Enter();
}

}  // namespace plimsoll::services
