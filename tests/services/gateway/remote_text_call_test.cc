// A gateway's front before workers that do what a test says.
#include "services/gateway/remote_text_call.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "plimsoll/v1/generation.grpc.pb.h"
#include "plimsoll/v1/model.grpc.pb.h"
#include "services/gateway/remote_models.h"
#include "services/gateway/worker_answers.h"
#include "services/http/front/front.h"
#include "services/http/response_store.h"
#include "services/wire/errors.h"
#include "tests/failing_new.h"
#include "tests/services/http/http_client.h"
#include "tests/services/json_object.h"

namespace plimsoll::services {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using Writer = grpc::ServerWriter<v1::StreamGenerateResponse>;

v1::StreamGenerateResponse Text(const std::string& text) {
  v1::StreamGenerateResponse message;
  message.set_text(text);
  return message;
}

v1::StreamGenerateResponse Last(const std::string& text) {
  v1::StreamGenerateResponse message = Text(text);
  message.mutable_finish()->set_finish_reason(v1::FINISH_REASON_MAX_TOKENS);
  return message;
}

// A worker with model "m".
class FakeWorker final : public v1::GenerationService::Service,
                         public v1::ModelService::Service {
 public:
  using Script = std::function<grpc::Status(
      grpc::ServerContext&, const v1::StreamGenerateRequest&, Writer&)>;

  explicit FakeWorker(Script script) : script_(std::move(script)) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(static_cast<v1::GenerationService::Service*>(this));
    builder.RegisterService(static_cast<v1::ModelService::Service*>(this));
    server_ = builder.BuildAndStart();
  }
  ~FakeWorker() override { server_->Shutdown(); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  int n_calls() const { return n_calls_; }

 private:
  grpc::Status ListModels(grpc::ServerContext*, const v1::ListModelsRequest*,
                          v1::ListModelsResponse* response) override {
    v1::Model& model = *response->add_models();
    model.set_name("m");
    model.set_state(v1::MODEL_STATE_READY);
    model.set_n_ctx(100);
    return grpc::Status::OK;
  }
  grpc::Status StreamGenerate(grpc::ServerContext* context,
                              const v1::StreamGenerateRequest* request,
                              Writer* writer) override {
    ++n_calls_;
    return script_(*context, *request, *writer);
  }

  const Script script_;
  std::atomic<int> n_calls_ = 0;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class RemoteTextCallTest : public ::testing::Test {
 protected:
  // Starts a gateway before workers that do this.
  void Start(const std::vector<FakeWorker::Script>& scripts) {
    WorkerSetOptions options;
    for (const FakeWorker::Script& script : scripts) {
      workers_.push_back(std::make_unique<FakeWorker>(script));
      options.workers.push_back(workers_.back()->address());
    }
    set_ = std::make_unique<WorkerSet>(options);
    while (!AllAreReady()) absl::SleepFor(absl::Milliseconds(5));
    pool_ = *WorkPool::Start();
    models_ = std::make_unique<RemoteModels>(RemoteRoom{*set_, counts_, calls_},
                                             messages_);
    front_ = *Front::Start({}, {*models_, gate_, *pool_, responses_});
  }
  void TearDown() override {
    front_.reset();
    gate_.AwaitIdle(absl::InfiniteDuration());
    EXPECT_EQ(messages_.traffic().held_bytes, 0);
    const WorkerBook book = set_->Book();
    for (const auto& [id, worker] : book.workers()) {
      EXPECT_EQ(worker.in_flight, 0) << id;
      EXPECT_EQ(worker.in_flight_bytes, 0) << id;
    }
  }

  bool AllAreReady() {
    const WorkerBook book = set_->Book();
    for (const auto& [id, worker] : book.workers()) {
      if (!worker.facts.is_ready) return false;
    }
    return true;
  }
  ClientReply Chat(const std::string& fields) {
    const Json body = testing::WithMembers(
        R"({"messages":[{"role":"user","content":"hi"}]})", fields);
    return HttpClient(front_->address())
        .Post("/v1/chat/completions", body.dump());
  }
  static std::string ContentOf(const ClientReply& reply) {
    EXPECT_EQ(reply.status, 200) << reply.body;
    return Json::parse(reply.body)["choices"][0]["message"]["content"];
  }
  int n_calls() const {
    int n = 0;
    for (const auto& worker : workers_) n += worker->n_calls();
    return n;
  }

  // Asks for a stream, and returns once a worker has the call.
  void BeginStream(HttpClient& client) const {
    client.Send(client.Request(
        "POST", "/v1/chat/completions",
        {.body =
             R"({"messages":[{"role":"user","content":"hi"}],"stream":true})"}));
    while (n_calls() == 0) absl::SleepFor(absl::Milliseconds(1));
  }

  static grpc::Status Good(grpc::ServerContext&,
                           const v1::StreamGenerateRequest&, Writer& writer) {
    writer.Write(Text("a"));
    writer.Write(Last("b"));
    return grpc::Status::OK;
  }
  static grpc::Status Gone(grpc::ServerContext&,
                           const v1::StreamGenerateRequest&, Writer&) {
    return {grpc::StatusCode::UNAVAILABLE, "Socket closed"};
  }
  static grpc::Status BreaksOff(grpc::ServerContext&,
                                const v1::StreamGenerateRequest&,
                                Writer& writer) {
    writer.Write(Text("lost"));
    return {grpc::StatusCode::UNAVAILABLE, "Socket closed"};
  }

  CallGate gate_;
  ByteBudget messages_{64 << 20};
  GatewayCounts counts_;
  RemoteCalls calls_;
  ResponseStore responses_{/*keeps=*/false};
  std::vector<std::unique_ptr<FakeWorker>> workers_;
  std::unique_ptr<WorkerSet> set_;
  std::unique_ptr<WorkPool> pool_;
  std::unique_ptr<RemoteModels> models_;
  std::unique_ptr<Front> front_;
};

TEST_F(RemoteTextCallTest, JoinsTheMessagesOfAStream) {
  Start({Good});
  EXPECT_EQ(ContentOf(Chat("{}")), "ab");
  EXPECT_EQ(counts_.n_ok, 1);
  EXPECT_EQ(counts_.n_retries, 0);
}

TEST_F(RemoteTextCallTest, GoesToAnotherWorkerUntilSomethingIsSent) {
  Start({Gone, Gone, Good});
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ContentOf(Chat("{}")), "ab");
    EXPECT_THAT(Chat(R"({"stream":true})").body, EndsWith("[DONE]\n\n"));
  }
  EXPECT_GE(counts_.n_retries, 1);
  EXPECT_EQ(counts_.n_failed, 0);
}

TEST_F(RemoteTextCallTest, TriesNoMoreThanSoManyWorkers) {
  Start({Gone, Gone, Gone, Gone, Gone});
  const ClientReply reply = Chat("{}");
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.body, HasSubstr("the worker of this request is gone"));
  EXPECT_THAT(reply.head, HasSubstr("retry-after: 1"));
  EXPECT_EQ(n_calls(), kMaxTries);
  EXPECT_EQ(counts_.n_retries, kMaxTries - 1);
  EXPECT_EQ(counts_.n_failed, 1);
}

TEST_F(RemoteTextCallTest, AWholeReplyThatBreaksOffBeginsAgain) {
  Start({BreaksOff, BreaksOff, Good});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ContentOf(Chat("{}")), "ab");
  EXPECT_EQ(counts_.n_broken, 0);
  EXPECT_GE(counts_.n_retries, 1);
}

TEST_F(RemoteTextCallTest, AStreamThatBreaksOffEndsWithAnError) {
  Start({BreaksOff, BreaksOff});
  const ClientReply reply = Chat(R"({"stream":true})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, HasSubstr("lost"));
  EXPECT_THAT(reply.body, HasSubstr("the worker of this request is gone"));
  EXPECT_THAT(reply.body, ::testing::Not(HasSubstr("[DONE]")));
  EXPECT_EQ(n_calls(), 1);
  EXPECT_EQ(counts_.n_broken, 1);
}

TEST_F(RemoteTextCallTest, ErrorsOfAWorkerPassThrough) {
  const auto refuse = [](grpc::ServerContext&, const v1::StreamGenerateRequest&,
                         Writer&) {
    return ToGrpc(
        WithDetails(absl::ResourceExhaustedError("the queue is full"),
                    {v1::ERROR_REASON_QUEUE_FULL, {}, absl::Seconds(3)}),
        "id");
  };
  Start({refuse, refuse});
  const ClientReply reply = Chat("{}");
  EXPECT_EQ(reply.status, 429);
  EXPECT_THAT(reply.head, HasSubstr("retry-after: 3"));
  EXPECT_THAT(reply.body, HasSubstr("queue_full"));
  EXPECT_EQ(n_calls(), 1);
}

TEST_F(RemoteTextCallTest, AReplyWithoutAnEndIsAnError) {
  Start({[](grpc::ServerContext&, const v1::StreamGenerateRequest&,
            Writer& writer) {
    writer.Write(Text("a"));
    return grpc::Status::OK;
  }});
  EXPECT_EQ(Chat("{}").status, 500);
}

TEST_F(RemoteTextCallTest, EachChoiceHasASeedOfItsOwn) {
  Start({[](grpc::ServerContext&, const v1::StreamGenerateRequest& request,
            Writer& writer) {
    writer.Write(Last(absl::StrCat(request.sampling().seed())));
    return grpc::Status::OK;
  }});
  const ClientReply reply = Chat(R"({"n":3,"seed":7})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json choices = Json::parse(reply.body)["choices"];
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(choices.at(static_cast<size_t>(i))["message"]["content"],
              absl::StrCat(7 + i));
  }
}

TEST_F(RemoteTextCallTest, TokensAreShownByTheBytesOfTheWorker) {
  Start({[](grpc::ServerContext&, const v1::StreamGenerateRequest& request,
            Writer& writer) {
    for (const char* bytes : {"a", "<eos>"}) {
      v1::StreamGenerateResponse message = Text("");
      v1::GeneratedToken& token = *message.add_tokens();
      token.set_logprob(-1);
      token.set_is_end(bytes[0] == '<');
      if (request.response().token_bytes()) token.set_text_bytes(bytes);
      writer.Write(message);
    }
    writer.Write(Last("a"));
    return grpc::Status::OK;
  }});
  const ClientReply reply = Chat(R"({"logprobs":true})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json choice = Json::parse(reply.body)["choices"][0];
  EXPECT_EQ(choice["logprobs"]["content"],
            Json::parse(R"([{"token":"a","logprob":-1.0,"bytes":[97],)"
                        R"("top_logprobs":[]}])"));
}

TEST_F(RemoteTextCallTest, AWorkerThatSendsNoBytesOfTokensIsTooOld) {
  const auto old = [](grpc::ServerContext&, const v1::StreamGenerateRequest&,
                      Writer& writer) {
    v1::StreamGenerateResponse message = Last("a");
    message.add_tokens()->set_logprob(-1);
    writer.Write(message);
    return grpc::Status::OK;
  };
  Start({old, old});
  const ClientReply reply = Chat(R"({"logprobs":true})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr("an earlier version"));
  EXPECT_EQ(n_calls(), 1);
}

// What a client does not read waits at the worker, and comes when it reads.
TEST_F(RemoteTextCallTest, AClientThatDoesNotReadPausesItsWorker) {
  constexpr int kMessages = 300;
  constexpr size_t kBytes = 64 << 10;
  std::atomic<int> n_written = 0;
  Start({[&](grpc::ServerContext&, const v1::StreamGenerateRequest&,
             Writer& writer) {
    const std::string text(kBytes, 'x');
    while (n_written < kMessages && writer.Write(Text(text))) ++n_written;
    writer.Write(Last("end"));
    return grpc::Status::OK;
  }});
  HttpClient client = HttpClient::WithSmallBuffer(front_->address());
  client.Send(client.Request(
      "POST", "/v1/chat/completions",
      {.body =
           R"({"messages":[{"role":"user","content":"hi"}],"stream":true})"}));
  int before = -1;
  while (n_written == 0 || n_written != before) {
    before = n_written;
    absl::SleepFor(absl::Milliseconds(300));
  }
  EXPECT_LT(n_written, kMessages);
  EXPECT_LT(messages_.traffic().held_bytes, 4 << 20);
  const ClientReply reply = client.Read();
  EXPECT_THAT(reply.body, EndsWith("[DONE]\n\n"));
  EXPECT_GT(reply.body.size(), kMessages * kBytes);
}

TEST_F(RemoteTextCallTest, AClientThatGoesAwayEndsItsCall) {
  std::atomic<bool> is_cancelled = false;
  Start({[&](grpc::ServerContext& context, const v1::StreamGenerateRequest&,
             Writer& writer) {
    while (!context.IsCancelled()) {
      writer.Write(Text("a"));
      absl::SleepFor(absl::Milliseconds(5));
    }
    is_cancelled = true;
    return grpc::Status::CANCELLED;
  }});
  {
    HttpClient client(front_->address());
    BeginStream(client);
  }
  while (!is_cancelled) absl::SleepFor(absl::Milliseconds(1));
  while (counts_.n_left == 0) absl::SleepFor(absl::Milliseconds(1));
}

TEST_F(RemoteTextCallTest, ADrainThatTakesTooLongEndsReplies) {
  Start({[](grpc::ServerContext& context, const v1::StreamGenerateRequest&,
            Writer& writer) {
    writer.Write(Text("a"));
    while (!context.IsCancelled()) absl::SleepFor(absl::Milliseconds(5));
    return grpc::Status::CANCELLED;
  }});
  HttpClient client(front_->address());
  BeginStream(client);
  front_->Drain(absl::Milliseconds(200), [this] { calls_.AbortAll(); });
  EXPECT_THAT(client.Read().body, HasSubstr("the gateway ends"));
}

TEST_F(RemoteTextCallTest, ARequestThatGetsNoMemoryHasNoPlace) {
  Start({Good});
  const WorkerWish wish = {.model = "m", .bytes = 100};
  const int64_t n_failed = plimsoll::testing::FailEachAllocation(
      [&] { EXPECT_TRUE(set_->Enter(wish).ok()); },
      [&](bool) {
        const WorkerBook book = set_->Book();
        EXPECT_EQ(book.workers().begin()->second.in_flight, 0);
      });
  EXPECT_GE(n_failed, 2);
}

}  // namespace
}  // namespace plimsoll::services
