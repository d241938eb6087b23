// Requests to a gateway before two workers and a planner while named points of
// the product fail (base/sync/fault.h): those of the gateway and the workers,
// of what sends spans and of what writes receipts.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/sync/fault.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "services/gateway/remote_models.h"
#include "services/gateway/remote_planner.h"
#include "services/generation/quota_book.h"
#include "services/generation/usage_file.h"
#include "services/http/front/front.h"
#include "services/http/json.h"
#include "services/http/response_store.h"
#include "services/tracing/tracer.h"
#include "tests/services/http/http_client.h"
#include "tests/services/storm.h"
#include "tests/services/temporary_folder.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

namespace otlp = opentelemetry::proto::collector::trace::v1;

// Names are looked up, workers asked and files opened too rarely: these points
// have tests of their own.
constexpr const char* kGatewayPoints[] = {
    "gateway.answer", "gateway.connect", "gateway.planner", "gateway.read",
    "receipt.write",  "span.queue",      "span.send"};
constexpr char kCompletion[] =
    R"({"model":"a","prompt":"hello","max_tokens":4,"temperature":0,)"
    R"("ignore_eos":true)";
constexpr char kListDevices[] = "/plimsoll.v1.PlannerService/ListDevices";

// Counts the spans that come.
class SpanCounter final : public otlp::TraceService::Service {
 public:
  SpanCounter() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~SpanCounter() override { server_->Shutdown(); }

  std::string url() const { return absl::StrCat("http://127.0.0.1:", port_); }
  int64_t n_spans() const { return n_spans_; }

 private:
  grpc::Status Export(grpc::ServerContext*,
                      const otlp::ExportTraceServiceRequest* request,
                      otlp::ExportTraceServiceResponse*) override {
    for (const auto& resource : request->resource_spans()) {
      for (const auto& scope : resource.scope_spans()) {
        n_spans_ += scope.spans_size();
      }
    }
    return grpc::Status::OK;
  }

  int port_ = 0;
  std::atomic<int64_t> n_spans_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class GatewayStormTest : public StormTest {
 protected:
  GatewayStormTest() {
    if (!kHasFaults) return;
    usage_ = *UsageFile::Open(folder_.File("usage"));
    book_ = *QuotaBook::Open("", BootTime, usage_.get());
    tracer_ = *Tracer::Start({.endpoint = collector_.url()}, "test");
    WorkerSetOptions options;
    for (int i = 0; i < 2; ++i) {
      workers_.push_back(std::make_unique<TestWorker>(
          TestWorkerSetup{.change = [this](WorkerOptions& changed) {
            changed.quotas = book_.get();
          }}));
      EXPECT_TRUE(workers_.back()->LoadWithContext("a", 256).ok());
      workers_.back()->server->SetReady(true);
      options.workers.push_back(workers_.back()->server->address());
    }
    set_ = std::make_unique<WorkerSet>(options);
    pool_ = *WorkPool::Start();
    remote_planner_ = std::make_unique<RemotePlanner>(
        planner_.server->address(), ClientSecurity());
    models_ = std::make_unique<RemoteModels>(RemoteRoom{*set_, counts_, calls_},
                                             messages_, remote_planner_.get());
    front_ = *Front::Start({}, {*models_, gate_, *pool_, responses_});
    ExpectSoon([this] { return NumReady() == 2; }, "both workers are ready");
  }

  int NumReady() {
    int n = 0;
    const WorkerBook book = set_->Book();
    for (const auto& [id, worker] : book.workers()) {
      if (worker.facts.is_ready) ++n;
    }
    return n;
  }
  ClientReply Post(const std::string& path, const std::string& body) {
    return HttpClient(front_->address()).Post(path, body);
  }
  // A reply that a client can understand: it is good, its error says why, or
  // its connection broke.
  static void ExpectClear(const ClientReply& reply, const char* what) {
    static const auto& documented = *new std::set<int>{0, 200, 413, 429, 503};
    EXPECT_TRUE(documented.count(reply.status) > 0)
        << what << ": " << reply.status << " " << reply.body;
    if (reply.status < 400) return;
    const Json body = Json::parse(reply.body, nullptr, false);
    ASSERT_TRUE(body.is_object()) << what << ": " << reply.body;
    EXPECT_FALSE(body["error"]["message"].get<std::string>().empty()) << what;
    EXPECT_FALSE(absl::StrContains(reply.body, "127.0.0.1")) << reply.body;
  }
  // The text of a whole reply; nothing if there is none.
  std::optional<std::string> Complete() {
    const ClientReply reply =
        Post("/v1/completions", absl::StrCat(kCompletion, "}"));
    ExpectClear(reply, "completion");
    if (reply.status != 200) return std::nullopt;
    return Json::parse(reply.body)["choices"][0]["text"];
  }
  // The text of a whole stream; nothing if it breaks off: it has no [DONE].
  std::optional<std::string> Stream() {
    const ClientReply reply = Post(
        "/v1/completions", absl::StrCat(kCompletion, R"(,"stream":true})"));
    ExpectClear(reply, "stream");
    std::string text;
    bool is_whole = false;
    for (absl::string_view line : absl::StrSplit(reply.body, '\n')) {
      if (!absl::ConsumePrefix(&line, "data: ")) continue;
      is_whole = line == "[DONE]";
      const Json event = Json::parse(line, nullptr, false);
      if (!event.is_object() || !event.contains("choices")) continue;
      text += event["choices"][0]["text"].get<std::string>();
    }
    if (!is_whole) return std::nullopt;
    return text;
  }
  // A stream whose client leaves once it has begun.
  void AbandonStream() {
    HttpClient client(front_->address());
    client.Send(client.Request(
        "POST", "/v1/completions",
        {.body = absl::StrCat(kCompletion, R"(,"stream":true})")}));
    std::string first;
    client.ReadChunk(first);
  }
  void OneCall(int kind, const std::string& text) {
    switch (kind) {
      case 0:
        return AbandonStream();
      case 1:
        return ExpectClear(Post("/tokenize", R"({"model":"a","prompt":"hi"})"),
                           "tokenize");
      case 2:
        return ExpectClear(Post("/detokenize", R"({"model":"a","tokens":[3]})"),
                           "detokenize");
      case 3:
        return ExpectClear(Post(kListDevices, "{}"), "devices");
      case 4:
        return ExpectClear(HttpClient(front_->address()).Get("/v1/models"),
                           "models");
      case 5:
        return MoveReceipts();
      case 6:
      case 7:
      case 8:
        EXPECT_EQ(Stream().value_or(text), text);
        return;
      default:
        EXPECT_EQ(Complete().value_or(text), text);
    }
  }
  // As a rotator of logs does. It may be gone already.
  void MoveReceipts() {
    std::error_code error;
    std::filesystem::rename(folder_.File("usage"),
                            folder_.File(absl::StrCat("usage.", ++n_moves_)),
                            error);
  }
  void ExpectAllWorks(const std::string& text) {
    ExpectSoon([this] { return NumReady() == 2; }, "both workers are ready");
    EXPECT_EQ(Complete(), text);
    EXPECT_EQ(Stream(), text);
    EXPECT_EQ(Post(kListDevices, "{}").status, 200);
    EXPECT_EQ(Post("/tokenize", R"({"model":"a","prompt":"hi"})").status, 200);
  }
  void ExpectNothingHeld() {
    EXPECT_TRUE(gate_.AwaitIdle(absl::Seconds(60)));
    ExpectSoon([this] { return messages_.traffic().held_bytes == 0; },
               "no bytes of messages");
    ExpectSoon(
        [this] {
          const WorkerBook book = set_->Book();
          for (const auto& [id, worker] : book.workers()) {
            if (worker.in_flight != 0 || worker.in_flight_bytes != 0) {
              return false;
            }
          }
          return true;
        },
        "no request is in flight");
    for (const auto& worker : workers_) {
      EXPECT_TRUE(worker->gate.AwaitIdle(absl::Seconds(60)));
      worker->AwaitNothingHeld();
    }
  }
  // Ends everything, and expects a receipt of each request.
  void ExpectEachReceiptOnce() {
    front_.reset();
    set_.reset();
    workers_.clear();
    int64_t n_admitted = 0;
    for (const auto& [tenant, usage] : book_->Usage()) {
      n_admitted += usage.requests;
    }
    book_.reset();
    usage_.reset();
    int64_t n_receipts = 0;
    for (const std::string& name : folder_.Names("usage")) {
      std::ifstream file(folder_.File(name));
      for (std::string line; std::getline(file, line);) {
        const auto receipt = ParseReceipt(line);
        ASSERT_TRUE(receipt.ok()) << line;
        EXPECT_EQ(receipt->lost, 0);
        n_receipts += receipt->status.empty() ? receipt->refused : 1;
      }
    }
    EXPECT_GT(n_receipts, 0);
    EXPECT_EQ(n_receipts, n_admitted);
  }

  testing::TemporaryFolder folder_;
  std::atomic<int> n_moves_ = 0;
  SpanCounter collector_;
  std::unique_ptr<Tracer> tracer_;
  std::unique_ptr<UsageFile> usage_;
  std::unique_ptr<QuotaBook> book_;
  TestPlanner planner_;
  std::vector<std::unique_ptr<TestWorker>> workers_;
  CallGate gate_;
  ByteBudget messages_{64 << 20};
  GatewayCounts counts_;
  RemoteCalls calls_;
  ResponseStore responses_{/*keeps=*/false};
  std::unique_ptr<WorkerSet> set_;
  std::unique_ptr<WorkPool> pool_;
  std::unique_ptr<RemotePlanner> remote_planner_;
  std::unique_ptr<RemoteModels> models_;
  std::unique_ptr<Front> front_;
};

TEST_F(GatewayStormTest, EveryRequestEndsAndEachHasItsReceipt) {
  const std::optional<std::string> text = Complete();
  ASSERT_TRUE(text.has_value());
  Storm(
      StormSeed(), 16, [&](int kind) { OneCall(kind, *text); }, kGatewayPoints);
  ExpectNothingHeld();
  const SpanExporter& spans = tracer_->exporter();
  EXPECT_GT(spans.n_sent(), 0);
  EXPECT_GT(spans.n_dropped(), 0);
  const int64_t n_before = collector_.n_spans();
  ExpectAllWorks(*text);
  ExpectSoon([&] { return collector_.n_spans() > n_before; }, "spans come");
  ExpectNothingHeld();
  EXPECT_GE(collector_.n_spans(), spans.n_sent());
  ExpectEachReceiptOnce();
}

// Each point alone, where another worker can take over.
TEST_F(GatewayStormTest, AWorkerThatIsLostAtOnceGivesWayToAnotherOne) {
  const std::optional<std::string> text = Complete();
  ASSERT_TRUE(text.has_value());
  for (const char* point : {"gateway.connect", "gateway.read"}) {
    const int64_t n_retries = counts_.n_retries;
    const ScopedFaults faults({.rules = {{.point = point, .pass = 1}}});
    EXPECT_EQ(Stream(), text) << point;
    EXPECT_EQ(faults.CountOf(point).fired, 1) << point;
    EXPECT_EQ(counts_.n_retries, n_retries + 1) << point;
  }
  const ScopedFaults faults(
      {.rules = {{.point = "gateway.answer", .pass = 1}}});
  EXPECT_EQ(Post("/tokenize", R"({"model":"a","prompt":"hi"})").status, 200);
  EXPECT_EQ(faults.CountOf("gateway.answer").fired, 1);
}

TEST_F(GatewayStormTest, AWorkerThatIsLostLaterEndsAStreamAndNoWholeReply) {
  const std::optional<std::string> text = Complete();
  ASSERT_TRUE(text.has_value());
  const FaultPlan third = {.rules = {{.point = "gateway.read", .pass = 3}}};
  {
    const ScopedFaults faults(third);
    EXPECT_EQ(Stream(), std::nullopt);
    EXPECT_EQ(faults.CountOf("gateway.read").fired, 1);
  }
  EXPECT_EQ(counts_.n_broken, 1);
  const ScopedFaults faults(third);
  EXPECT_EQ(Complete(), text);
  EXPECT_EQ(faults.CountOf("gateway.read").fired, 1);
}

TEST_F(GatewayStormTest, AWorkerThatDoesNotSayThatItIsReadyGetsNothing) {
  {
    const ScopedFaults faults(
        {.rules = {{.point = "gateway.poll", .probability = 1}}});
    ExpectSoon([this] { return NumReady() == 0; }, "no worker is ready");
    const ClientReply reply =
        Post("/v1/completions", absl::StrCat(kCompletion, "}"));
    EXPECT_EQ(reply.status, 503);
    EXPECT_TRUE(absl::StrContains(reply.head, "retry-after")) << reply.head;
  }
  ExpectSoon([this] { return NumReady() == 2; }, "both workers are ready");
  EXPECT_TRUE(Complete().has_value());
}

TEST_F(GatewayStormTest, ANameThatIsNotFoundIsLookedUpAgain) {
  const ScopedFaults faults(
      {.rules = {{.point = "gateway.lookup", .pass = 1}}});
  EXPECT_EQ(LookUpAll("localhost:1").status().code(),
            absl::StatusCode::kUnavailable);
  const auto found = LookUpAll("localhost:1");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->empty());
}

}  // namespace
}  // namespace plimsoll::services
