// A front over real sockets, with tiny random models.
#ifndef PLIMSOLL_TESTS_SERVICES_HTTP_FRONT_FIXTURE_H_
#define PLIMSOLL_TESTS_SERVICES_HTTP_FRONT_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "services/host/clock.h"
#include "services/http/front/front.h"
#include "services/http/json.h"
#include "services/http/local/local_models.h"
#include "services/http/local/local_planner.h"
#include "tests/services/http/http_client.h"
#include "tests/services/json_object.h"
#include "tests/worker/random_model.h"
#include "worker/device/host_resources.h"

namespace plimsoll::services {

// The models "a", which is loaded with 256 tokens in each of 2 slots, and "b",
// which is not.
class FrontTest : public ::testing::Test {
 protected:
  class LoadEnd final : public LoadWatcher {
   public:
    void OnProgress(const LoadReport&) override {}
    void OnLoadEnd(const absl::Status& status) override {
      absl::MutexLock lock(&mu_);
      end_ = status;
    }
    absl::Status Await() {
      absl::MutexLock lock(&mu_);
      const auto has_ended = [this] { return end_.has_value(); };
      mu_.Await(absl::Condition(&has_ended));
      return *end_;
    }

   private:
    absl::Mutex mu_;
    std::optional<absl::Status> end_;
  };

  virtual WorkerOptions Options() const {
    WorkerOptions options;
    options.models = {{"a", file_.path()}, {"b", file_.path()}};
    options.lazy = true;
    options.load.n_ctx = 256;
    options.load.n_slots = 2;
    options.load.n_ubatch = 64;
    options.n_threads = 1;
    options.chat_format = worker::ChatFormat::kChatMl;
    options.drain_timeout = absl::ZeroDuration();
    options.devices = {{&worker::LocalCpu(), "cpu", std::nullopt,
                        [] { return worker::LocalCpu().Profile(); }}};
    options.clock = BootTime;
    return options;
  }

  virtual HttpOptions ServerOptions() const { return {}; }

  void SetUp() override {
    registry_ = std::make_unique<ModelRegistry>(Options(), nullptr, nullptr);
    planner_ = *LocalPlanner::Create(Options().models, Options().devices);
    models_ = std::make_unique<LocalModels>(*registry_, planner_.get());
    pool_ = *WorkPool::Start();
    front_ = *Front::Start(
        ServerOptions(), {*models_, gate_, *pool_, responses_},
        [](bool is_ready) {
          return is_ready ? std::string("ready 1\n") : "ready 0\n";
        });
    const auto load = std::make_shared<LoadEnd>();
    ASSERT_TRUE(registry_->Load("a", Options().load, load).ok());
    ASSERT_TRUE(load->Await().ok());
  }
  void TearDown() override {
    front_.reset();
    AwaitIdle();
  }

  // Waits until no sequence runs and nothing is held for messages.
  void AwaitIdle() {
    while (IsRunning() || registry_->messages().traffic().held_bytes > 0) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  bool IsRunning() const {
    const ModelInfo first = registry_->List()[0];
    return first.ready.has_value() && first.ready->load.running > 0;
  }

  // Whether a sequence waits for its client to read.
  bool IsParked() {
    bool is_parked = false;
    registry_->Visit([&is_parked](const LoadedModel& model, ModelState) {
      for (const worker::RequestInfo& request : model.engine->Requests(8)) {
        is_parked |= request.state == worker::RequestState::kParked;
      }
    });
    return is_parked;
  }

  ClientReply Get(const std::string& target) {
    return HttpClient(front_->address()).Get(target);
  }
  ClientReply Post(const std::string& target, const std::string& body) {
    return HttpClient(front_->address()).Post(target, body);
  }
  // A reply with status 200 as JSON.
  Json PostJson(const std::string& target, const std::string& body) {
    const ClientReply reply = Post(target, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return Json::parse(reply.body);
  }
  // The "error" of a reply.
  static Json ErrorOf(const ClientReply& reply) {
    return Json::parse(reply.body).at("error");
  }
  // The events of a stream, without its last one, which is [DONE].
  std::vector<Json> PostStream(const std::string& target,
                               const std::string& body) {
    const ClientReply reply = Post(target, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_THAT(reply.body, ::testing::EndsWith("\n\ndata: [DONE]\n\n"));
    std::vector<Json> events;
    for (absl::string_view event :
         absl::StrSplit(reply.body, "\n\n", absl::SkipEmpty())) {
      EXPECT_TRUE(absl::ConsumePrefix(&event, "data: "));
      if (event != "[DONE]") events.push_back(Json::parse(std::string(event)));
    }
    return events;
  }

  static std::string Chat(const std::string& fields) {
    return testing::WithMembers(
               R"({"model":"a","messages":[{"role":"user","content":"hello"}],)"
               R"("temperature":0,"max_tokens":8,"ignore_eos":true})",
               fields)
        .dump();
  }
  static std::string Completion(const std::string& fields) {
    return testing::WithMembers(
               R"({"model":"a","temperature":0,"max_tokens":8,)"
               R"("ignore_eos":true})",
               fields)
        .dump();
  }

  plimsoll::testing::TemporaryFile file_{plimsoll::testing::RandomModelBytes(
      plimsoll::testing::FindRandomModel("llama_f32"))};
  CallGate gate_;
  ResponseStore responses_;
  std::unique_ptr<ModelRegistry> registry_;
  std::unique_ptr<LocalPlanner> planner_;
  std::unique_ptr<LocalModels> models_;
  std::unique_ptr<WorkPool> pool_;
  std::unique_ptr<Front> front_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_TESTS_SERVICES_HTTP_FRONT_FIXTURE_H_
