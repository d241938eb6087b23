// Replies that their clients do not read are held in memory that was taken, and
// not for ever.
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/server/call.h"
#include "services/server/server.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

constexpr size_t kReplyBytes = 1 << 20;

// Answers Plan from the pool and ListDevices at once, with a long reply each.
class LongService final : public v1::PlannerService::CallbackService {
 public:
  LongService(CallGate& gate, WorkPool& pool, absl::Duration reader_timeout)
      : limits_{gate, messages_, reader_timeout}, pool_(pool) {}

  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* context,
                                 const v1::PlanRequest* request,
                                 v1::PlanResponse* response) override {
    return AnswerOnPool(context, {limits_, pool_}, {*request, *response},
                        {.cost = WorkCost::kLong,
                         .answer = [=, this](StopCheck, ByteBudget::Share&) {
                           ++n_answered_;
                           response->mutable_plan()->set_n_ctx_reason(
                               std::string(kReplyBytes, 'a'));
                           return absl::OkStatus();
                         }});
  }
  grpc::ServerUnaryReactor* ListDevices(
      grpc::CallbackServerContext* context,
      const v1::ListDevicesRequest* request,
      v1::ListDevicesResponse* response) override {
    return AnswerUnary(context, limits_, {*request, *response}, [=, this] {
      ++n_answered_;
      response->add_devices()->mutable_profile()->set_name(
          std::string(kReplyBytes, 'a'));
      return absl::OkStatus();
    });
  }

  ByteBudget& messages() { return messages_; }
  int n_answered() const { return n_answered_; }

 private:
  ByteBudget messages_{16 << 20};
  const CallLimits limits_;
  WorkPool& pool_;
  std::atomic<int> n_answered_ = 0;
};

// A server, and a client that takes little of what it does not read.
struct LongServer {
  explicit LongServer(absl::Duration reader_timeout)
      : service(gate, *pool, reader_timeout),
        server(*Server::Start(ServerOptions{}, {&service}, gate)) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 16 << 10);
    channel = grpc::CreateCustomChannel(
        server->address(), grpc::InsecureChannelCredentials(), arguments);
  }

  ByteBudget::Traffic traffic() { return service.messages().traffic(); }
  // It happens, or the test's own time limit ends it.
  void AwaitHeld(int64_t bytes) {
    while (traffic().held_bytes < bytes) std::this_thread::yield();
  }
  void AwaitDone() {
    while (traffic().n_live > 0) std::this_thread::yield();
  }

  CallGate gate;
  std::unique_ptr<WorkPool> pool = *WorkPool::Start();
  LongService service;
  std::unique_ptr<Server> server;
  std::shared_ptr<grpc::Channel> channel;
};

// A unary call whose reply is read when asked for, as that of a stream is.
template <typename Request, typename Response>
class LateReader {
 public:
  LateReader(grpc::Channel& channel, const char* method)
      : reader_(grpc::internal::ClientReaderFactory<Response>::Create(
            &channel,
            grpc::internal::RpcMethod(
                method, grpc::internal::RpcMethod::SERVER_STREAMING),
            &context_, Request())) {}
  ~LateReader() { context_.TryCancel(); }

  bool Read(Response& response) { return reader_->Read(&response); }
  absl::Status Finish() { return FromGrpc(reader_->Finish()); }

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<grpc::ClientReader<Response>> reader_;
};

using PlanReader = LateReader<v1::PlanRequest, v1::PlanResponse>;
using ListReader = LateReader<v1::ListDevicesRequest, v1::ListDevicesResponse>;
constexpr char kPlan[] = "/plimsoll.v1.PlannerService/Plan";
constexpr char kList[] = "/plimsoll.v1.PlannerService/ListDevices";

template <typename Reader, typename Response>
void ExpectHeldUntilRead(const char* method) {
  LongServer server(absl::Minutes(1));
  Reader call(*server.channel, method);
  server.AwaitHeld(2 * kReplyBytes);  // the message, and what is sent of it
  EXPECT_EQ(server.traffic().n_live, 1);
  Response response;
  ASSERT_TRUE(call.Read(response));
  EXPECT_GE(response.ByteSizeLong(), kReplyBytes);
  EXPECT_FALSE(call.Read(response));
  EXPECT_TRUE(call.Finish().ok());
  server.AwaitDone();
  EXPECT_EQ(server.traffic().held_bytes, 0);
}

TEST(UnreadReplyTest, IsHeldUntilItIsRead) {
  ExpectHeldUntilRead<PlanReader, v1::PlanResponse>(kPlan);
  ExpectHeldUntilRead<ListReader, v1::ListDevicesResponse>(kList);
}

TEST(UnreadReplyTest, OfAClientThatReadsNothingIsCancelled) {
  LongServer server(absl::Milliseconds(100));
  PlanReader plan(*server.channel, kPlan);
  ListReader list(*server.channel, kList);
  while (server.service.n_answered() < 2) std::this_thread::yield();
  server.AwaitDone();
  EXPECT_EQ(server.traffic().held_bytes, 0);
  // Too late.
  v1::PlanResponse planned;
  EXPECT_FALSE(plan.Read(planned));
  EXPECT_TRUE(absl::IsCancelled(plan.Finish()));
  v1::ListDevicesResponse listed;
  EXPECT_FALSE(list.Read(listed));
  EXPECT_TRUE(absl::IsCancelled(list.Finish()));
}

TEST(UnreadReplyTest, TakesNoMoreThanAPeerMayHave) {
  LongServer server(absl::Minutes(1));
  std::vector<std::unique_ptr<ListReader>> unread;
  // Large ones may be three quarters of it.
  for (int64_t n = 1; n <= 5; ++n) {
    unread.push_back(std::make_unique<ListReader>(*server.channel, kList));
    server.AwaitHeld(n * 2 * static_cast<int64_t>(kReplyBytes));
  }
  for (const char* method : {kPlan, kList}) {
    ListReader refused(*server.channel, method);
    const absl::Status status = refused.Finish();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_EQ(DetailsOf(status).reason,
              v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED);
  }
  EXPECT_LE(server.traffic().held_bytes, 12 << 20);
}

}  // namespace
}  // namespace plimsoll::services
