// Calls to a worker, its planner and its HTTP front while named points of the
// product fail (base/sync/fault.h).
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/sync/fault.h"
#include "services/http/front/front.h"
#include "services/http/local/local_models.h"
#include "services/http/response_store.h"
#include "services/planner/journal.h"
#include "tests/services/http/http_client.h"
#include "tests/services/storm.h"
#include "tests/services/temporary_folder.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

// Nothing here takes so long: a call that does hangs.
constexpr auto kDeadline = std::chrono::seconds(90);
// All points but those that only a context that has rolled passes, or one
// that is kept for others (tests/worker/engine/slices_test.cc).
constexpr const char* kWorkerPoints[] = {"call.queue",
                                         "device.allocate",
                                         "engine.thread",
                                         "http.write",
                                         "journal.append",
                                         "journal.prune",
                                         "journal.sync",
                                         "model.map",
                                         "model.open",
                                         "model.read",
                                         "planner_client.answer",
                                         "planner_client.send",
                                         "pool.threads",
                                         "session.open",
                                         "watch.write",
                                         "weights.pack"};

LedgerOptions WithJournal(const std::string& path) {
  LedgerOptions options{.clock = BootTime,
                        .journal = *Journal::Open(path, BootTime)};
  options.times.ttl = absl::Seconds(5);
  return options;
}

v1::GenerateRequest Prompt() {
  return GreedyRequest<v1::GenerateRequest>(std::string(80, 'h'), 4);
}

class FaultStormTest : public StormTest {
 protected:
  FaultStormTest() {
    if (!kHasFaults) return;
    planner_ =
        std::make_unique<TestPlanner>(WithJournal(folder_.File("leases.db")));
    worker_ = std::make_unique<TestWorker>(
        TestWorkerSetup{.planner = planner_.get()});
    models_ = std::make_unique<LocalModels>(*worker_->registry, nullptr);
    front_ = *Front::Start(
        {}, {*models_, worker_->gate, *worker_->pool, responses_});
  }

  static std::unique_ptr<grpc::ClientContext> NewContext() {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + kDeadline);
    return context;
  }

  absl::Status Load(const std::string& model, bool maps) {
    const auto context = NewContext();
    v1::LoadModelRequest request;
    request.set_model(model);
    request.mutable_options()->set_n_ctx(256);
    request.mutable_options()->set_mmap_weights(maps);
    const auto reader = worker_->models->LoadModel(context.get(), request);
    v1::LoadModelResponse message;
    while (reader->Read(&message)) continue;
    return FromGrpc(reader->Finish());
  }
  absl::Status Unload(const std::string& model) {
    const auto context = NewContext();
    v1::UnloadModelRequest request;
    request.set_model(model);
    v1::UnloadModelResponse response;
    return FromGrpc(
        worker_->models->UnloadModel(context.get(), request, &response));
  }
  absl::StatusOr<std::string> Generate() {
    const auto context = NewContext();
    v1::GenerateResponse response;
    const absl::Status status = FromGrpc(
        worker_->generation->Generate(context.get(), Prompt(), &response));
    if (!status.ok()) return status;
    EXPECT_EQ(response.tokens_size(), 4);
    return response.text();
  }
  // A stream that is read to its end or, with `leaves`, left by its client.
  absl::Status Stream(bool leaves) {
    const auto context = NewContext();
    const auto reader = worker_->generation->StreamGenerate(
        context.get(),
        GreedyRequest<v1::StreamGenerateRequest>(std::string(80, 'h'), 8));
    v1::StreamGenerateResponse part;
    bool has_end = false;
    while (reader->Read(&part)) {
      has_end |= part.has_finish();
      if (leaves) context->TryCancel();
    }
    const grpc::Status end = reader->Finish();
    EXPECT_TRUE(has_end || !end.ok()) << "a silent end";
    return leaves ? absl::OkStatus() : FromGrpc(end);
  }
  absl::Status Chat() {
    v1::OpenSessionRequest open;
    open.set_model("a");
    v1::OpenSessionResponse opened;
    const auto context = NewContext();
    const absl::Status status =
        FromGrpc(worker_->sessions->OpenSession(context.get(), open, &opened));
    if (!status.ok()) return status;
    v1::ChatRequest request;
    request.set_model("a");
    request.set_session_id(opened.session().session_id());
    request.set_message("hello");
    request.mutable_stopping()->set_max_tokens(3);
    const auto chat_context = NewContext();
    const auto reader = worker_->sessions->Chat(chat_context.get(), request);
    v1::ChatResponse part;
    while (reader->Read(&part)) continue;
    const absl::Status end = FromGrpc(reader->Finish());
    worker_->CloseSession(opened.session().session_id());
    return end;
  }
  absl::Status Tokenize() {
    const auto context = NewContext();
    v1::TokenizeRequest request;
    request.set_model("a");
    request.set_text("hello");
    v1::TokenizeResponse response;
    return FromGrpc(
        worker_->tokenizer->Tokenize(context.get(), request, &response));
  }
  absl::Status Watch() {
    const auto context = NewContext();
    const auto reader = planner_->stub->WatchDevices(context.get(), {});
    v1::WatchDevicesResponse news;
    EXPECT_TRUE(reader->Read(&news));
    context->TryCancel();
    while (reader->Read(&news)) continue;
    const grpc::Status end = reader->Finish();
    EXPECT_EQ(end.error_code(), grpc::StatusCode::CANCELLED);
    return absl::OkStatus();
  }
  // The status of an answer; 0 if the connection ended before.
  int AskOverHttp(bool streams) {
    const std::string body = absl::StrCat(
        R"({"model":"a","prompt":"hello","max_tokens":3,"stream":)",
        streams ? "true}" : "false}");
    const ClientReply reply =
        HttpClient(front_->address()).Post("/v1/completions", body);
    if (reply.status >= 400) {
      EXPECT_NE(reply.body.find("\"error\""), std::string::npos);
    }
    return reply.status;
  }
  void CheckHttp(bool streams) {
    static const auto& documented =
        *new std::set<int>{0, 200, 404, 413, 429, 500, 503};
    const int status = AskOverHttp(streams);
    EXPECT_TRUE(documented.count(status) > 0) << status;
  }

  void OneCall(int kind) {
    switch (kind) {
      case 0:
        return ExpectDocumented(Load("a", false), "load");
      case 1:
        return ExpectDocumented(Load("b", true), "load of a mapped file");
      case 2:
        return ExpectDocumented(Unload("a"), "unload");
      case 3:
        return ExpectDocumented(Unload("b"), "unload of a mapped file");
      case 4:
        return ExpectDocumented(Stream(true), "stream that is left");
      case 5:
        return ExpectDocumented(Chat(), "session");
      case 6:
        return ExpectDocumented(Tokenize(), "tokenize");
      case 7:
        return ExpectDocumented(Watch(), "watch");
      case 8:
        return CheckHttp(false);
      case 9:
        return CheckHttp(true);
      case 10:
        return ExpectDocumented(Stream(false), "stream");
      case 11:
      case 12:
      case 13:  // most calls want the model
        return ExpectDocumented(Load("a", false), "load");
      case 14:
      case 15:
        return ExpectDocumented(Chat(), "session");
      default:
        return ExpectDocumented(Generate().status(), "generate");
    }
  }

  int64_t HeldBytes() {
    grpc::ClientContext context;
    v1::ListDevicesResponse devices;
    EXPECT_TRUE(planner_->stub->ListDevices(&context, {}, &devices).ok());
    int64_t bytes = 0;
    for (const v1::Device& device : devices.devices()) {
      bytes += static_cast<int64_t>(device.held_bytes());
    }
    return bytes;
  }
  void UnloadAll() {
    for (const char* model : {"a", "b"}) {
      if (worker_->Describe(model).state() == v1::MODEL_STATE_ABSENT) continue;
      const absl::Status status = Unload(model);
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  // Unloads what is loaded, and waits until the planner knows of nothing.
  void ExpectAllGivenBack() {
    UnloadAll();
    ExpectSoon([this] { return planner_->Leases().empty(); }, "no lease");
    EXPECT_EQ(HeldBytes(), 0);
    // A call gives its pass back a moment after its client knows.
    EXPECT_TRUE(worker_->gate.AwaitIdle(absl::Seconds(30)));
    worker_->AwaitNothingHeld();
  }
  void ExpectAllWorks(const std::string& text) {
    for (const absl::Status& status :
         {Load("a", false), Load("b", true), Stream(false), Chat(), Tokenize(),
          Watch()}) {
      EXPECT_TRUE(status.ok()) << status;
    }
    const auto said = Generate();
    ASSERT_TRUE(said.ok()) << said.status();
    EXPECT_EQ(*said, text);
    EXPECT_EQ(AskOverHttp(false), 200);
    EXPECT_EQ(AskOverHttp(true), 200);
    EXPECT_EQ(planner_->Leases().size(), 2u);
  }

  testing::TemporaryFolder folder_;
  ResponseStore responses_;
  std::unique_ptr<TestPlanner> planner_;
  std::unique_ptr<TestWorker> worker_;
  std::unique_ptr<LocalModels> models_;
  std::unique_ptr<Front> front_;
};

TEST_F(FaultStormTest, EveryCallEndsAndEverythingIsGivenBack) {
  absl::Status loaded = Load("a", false);
  ASSERT_TRUE(loaded.ok()) << loaded;
  const auto text = Generate();
  ASSERT_TRUE(text.ok()) << text.status();
  Storm(
      StormSeed(), 20, [this](int kind) { OneCall(kind); }, kWorkerPoints);
  ExpectAllGivenBack();
  ExpectAllWorks(*text);
  ExpectAllGivenBack();
}

// Each point alone, at each of its first passes in a load: the load ends, and
// the next one is as good as ever.
TEST_F(FaultStormTest, EachPointOfALoadFailsAlone) {
  for (const char* point :
       {"device.allocate", "engine.thread", "journal.append", "journal.prune",
        "model.map", "model.open", "model.read", "planner_client.answer",
        "planner_client.send", "pool.threads", "weights.pack"}) {
    for (const int64_t pass : {1, 2, 3, 5}) {
      const ScopedFaults faults({.rules = {{.point = point, .pass = pass}}});
      const absl::Status status = Load("b", /*maps=*/true);
      ExpectDocumented(status, point);
      if (faults.CountOf(point).passes < pass) break;
      EXPECT_EQ(faults.CountOf(point).fired, 1) << point;
      UnloadAll();
    }
    ExpectAllGivenBack();
  }
  const absl::Status status = Load("b", /*maps=*/true);
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace plimsoll::services
