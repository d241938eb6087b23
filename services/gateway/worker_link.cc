#include "services/gateway/worker_link.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include "services/server/access/keepalive.h"
#include "services/server/credentials.h"

namespace plimsoll::services {
namespace {

// Each channel has connections of its own.
std::shared_ptr<grpc::Channel> NewChannel(const std::string& address,
                                          const ClientSecurity& security,
                                          const std::string& tls_name) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  SetKeepalive(arguments);
  if (!tls_name.empty() && security.is_tls()) {
    arguments.SetSslTargetNameOverride(tls_name);
  }
  return grpc::CreateCustomChannel(
      address, NewChannelCredentials(security, address), arguments);
}

}  // namespace

WorkerLink::WorkerLink(const std::string& id, const ClientSecurity& security,
                       const std::string& tls_name)
    : id_(id), own_channel_(NewChannel(id, security, tls_name)) {
  channels_.reserve(kMaxConnections);
  for (size_t i = 0; i < kMaxConnections; ++i) {
    channels_.push_back(NewChannel(id, security, tls_name));
  }
}

std::shared_ptr<grpc::Channel> WorkerLink::channel() {
  const size_t first = next_++;
  for (size_t i = 0; i < channels_.size(); ++i) {
    const auto& channel = channels_[(first + i) % channels_.size()];
    if (channel->GetState(/*try_to_connect=*/false) !=
        GRPC_CHANNEL_TRANSIENT_FAILURE) {
      return channel;
    }
  }
  return channels_[first % channels_.size()];
}

}  // namespace plimsoll::services
