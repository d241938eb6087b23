// A worker, and a planner if wanted, in this process on real sockets, with tiny
// random models.
#ifndef PLIMSOLL_TESTS_SERVICES_WORKER_WORKER_FIXTURE_H_
#define PLIMSOLL_TESTS_SERVICES_WORKER_WORKER_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plimsoll/v1/admin.grpc.pb.h"
#include "plimsoll/v1/generation.grpc.pb.h"
#include "plimsoll/v1/model.grpc.pb.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "plimsoll/v1/session.grpc.pb.h"
#include "plimsoll/v1/tokenizer.grpc.pb.h"
#include "services/host/clock.h"
#include "services/planner/planner.h"
#include "services/planner/planner_service.h"
#include "services/server/server.h"
#include "services/worker/calls/admin_service.h"
#include "services/worker/calls/generation_service.h"
#include "services/worker/calls/model_messages.h"
#include "services/worker/calls/model_service.h"
#include "services/worker/calls/session_service.h"
#include "services/worker/calls/tokenizer_service.h"
#include "services/worker/models/lease_keeper.h"
#include "services/worker/models/model_registry.h"
#include "services/worker/models/planner_client.h"
#include "services/worker/models/runtime_monitor.h"
#include "tests/worker/random_model.h"
#include "worker/device/host_resources.h"

namespace plimsoll::services {

// A planner behind its service.
struct TestPlanner {
  TestPlanner() : TestPlanner({.clock = BootTime}) {}
  explicit TestPlanner(LedgerOptions options) : ledger(std::move(options)) {
    auto started = Server::Start({}, {service.get()}, gate);
    EXPECT_TRUE(started.ok()) << started.status();
    server = *std::move(started);
    stub = v1::PlannerService::NewStub(grpc::CreateChannel(
        server->address(), grpc::InsecureChannelCredentials()));
  }

  std::vector<v1::Lease> Leases() {
    grpc::ClientContext context;
    v1::ListLeasesResponse response;
    EXPECT_TRUE(stub->ListLeases(&context, {}, &response).ok());
    return {response.leases().begin(), response.leases().end()};
  }

  CallGate gate;
  Ledger ledger;
  Planner planner{{}, ledger};
  std::unique_ptr<WorkPool> pool = *WorkPool::Start();
  std::unique_ptr<grpc::Service> service = NewPlannerService(
      {.planner = planner, .ledger = ledger, .gate = gate, .pool = *pool});
  std::unique_ptr<Server> server;
  std::unique_ptr<v1::PlannerService::Stub> stub;
};

// `device`, which outlives what is returned, as a worker has it.
inline WorkerDevice DeviceOf(const worker::ComputeDevice& device,
                             const std::string& id,
                             std::optional<int64_t> memory_bytes) {
  return {&device, id, memory_bytes, [&device] { return device.Profile(); }};
}

// What a test may choose of a TestWorker.
struct TestWorkerSetup {
  TestPlanner* planner = nullptr;  // null: the worker has no leases
  std::optional<int64_t> device_memory = std::nullopt;
  RuntimeMonitor* runtime = nullptr;
  plimsoll::testing::RandomModel model =
      plimsoll::testing::FindRandomModel("llama_f32");
  std::function<void(WorkerOptions&)> change = [](WorkerOptions&) {};
  absl::Duration reader_timeout = kReaderTimeout;  // for a generation's reader
};

// A worker behind its services, with the models "a" and "b", both lazy.
struct TestWorker {
  TestWorker() : TestWorker(TestWorkerSetup()) {}
  explicit TestWorker(const TestWorkerSetup& setup)
      : file(plimsoll::testing::RandomModelBytes(setup.model)) {
    WorkerOptions options;
    options.models = {{"a", file.path()}, {"b", file.path()}};
    options.lazy = true;
    options.load.n_slots = 2;
    options.load.n_ubatch = 64;
    options.n_threads = 1;
    options.chat_format = worker::ChatFormat::kChatMl;
    options.drain_timeout = absl::ZeroDuration();
    options.devices = {
        DeviceOf(worker::LocalCpu(), "test/cpu", setup.device_memory)};
    options.holder = "test/1";
    options.clock = BootTime;
    options.runtime = setup.runtime;
    if (setup.runtime != nullptr) {
      options.devices[0].profile = [runtime = setup.runtime] {
        return runtime->Profile();
      };
    }
    setup.change(options);
    if (setup.planner != nullptr) {
      client = std::make_unique<PlannerClient>(
          setup.planner->server->address(), LeaseHolder{.name = options.holder},
          options.clock);
      keeper = std::make_unique<LeaseKeeper>(*client, options.devices,
                                             options.clock, options.observer);
    }
    registry =
        std::make_unique<ModelRegistry>(options, client.get(), keeper.get());
    auto threads = WorkPool::Start();
    EXPECT_TRUE(threads.ok()) << threads.status();
    pool = *std::move(threads);
    services.push_back(
        NewGenerationService(*registry, gate, *pool, setup.reader_timeout));
    services.push_back(NewSessionService(*registry, gate, *pool));
    services.push_back(NewTokenizerService(*registry, gate, *pool));
    services.push_back(NewModelService(*registry, gate));
    services.push_back(NewAdminService(*registry, gate));
    auto started =
        Server::Start({},
                      {services[0].get(), services[1].get(), services[2].get(),
                       services[3].get(), services[4].get()},
                      gate);
    EXPECT_TRUE(started.ok()) << started.status();
    server = *std::move(started);
    const auto channel = grpc::CreateChannel(
        server->address(), grpc::InsecureChannelCredentials());
    generation = v1::GenerationService::NewStub(channel);
    sessions = v1::SessionService::NewStub(channel);
    tokenizer = v1::TokenizerService::NewStub(channel);
    models = v1::ModelService::NewStub(channel);
    admin = v1::AdminService::NewStub(channel);
  }

  grpc::Status Load(const std::string& model) {
    return LoadWithContext(model, 4'096);
  }
  grpc::Status LoadWithContext(const std::string& model, uint32_t n_ctx) {
    std::vector<v1::LoadModelResponse> messages;
    return LoadWithMessages(model, n_ctx, messages);
  }
  // `messages` gets all messages of the call.
  grpc::Status LoadWithMessages(const std::string& model, uint32_t n_ctx,
                                std::vector<v1::LoadModelResponse>& messages) {
    grpc::ClientContext context;
    v1::LoadModelRequest request;
    request.set_model(model);
    request.mutable_options()->set_n_ctx(n_ctx);
    const auto reader = models->LoadModel(&context, request);
    v1::LoadModelResponse message;
    while (reader->Read(&message)) messages.push_back(message);
    return reader->Finish();
  }

  // Closes a session of the model "a", if there is one of this id.
  void CloseSession(const std::string& id) const {
    grpc::ClientContext context;
    v1::CloseSessionRequest request;
    request.set_model("a");
    request.set_session_id(id);
    v1::CloseSessionResponse response;
    sessions->CloseSession(&context, request, &response);
  }

  grpc::Status Unload(const std::string& model) {
    grpc::ClientContext context;
    v1::UnloadModelRequest request;
    request.set_model(model);
    v1::UnloadModelResponse response;
    return models->UnloadModel(&context, request, &response);
  }

  v1::Model Describe(const std::string& name) {
    for (const ModelInfo& model : registry->List()) {
      if (model.name == name) return ToProto(model);
    }
    return {};
  }

  // Waits until no call holds memory for its messages. A call that has ended
  // gives back a moment after its client knows.
  void AwaitNothingHeld() const {
    const ByteBudget& messages = registry->messages();
    while (messages.traffic().held_bytes > 0) std::this_thread::yield();
  }

  // Waits until `name` runs `running` sequences; it happens or the test's own
  // time limit ends it.
  void AwaitRunning(const std::string& name, uint32_t running) {
    while (Describe(name).running() != running) std::this_thread::yield();
  }

  plimsoll::testing::TemporaryFile file;
  CallGate gate;
  std::unique_ptr<PlannerClient> client;
  std::unique_ptr<LeaseKeeper> keeper;
  std::unique_ptr<ModelRegistry> registry;
  std::unique_ptr<WorkPool> pool;
  std::vector<std::unique_ptr<grpc::Service>> services;
  std::unique_ptr<Server> server;
  std::unique_ptr<v1::GenerationService::Stub> generation;
  std::unique_ptr<v1::SessionService::Stub> sessions;
  std::unique_ptr<v1::TokenizerService::Stub> tokenizer;
  std::unique_ptr<v1::ModelService::Stub> models;
  std::unique_ptr<v1::AdminService::Stub> admin;
};

// Both kinds of request have the same fields.
template <typename Request>
Request GreedyRequest(const std::string& text, uint32_t max_tokens) {
  Request request;
  request.set_model("a");
  request.mutable_text()->set_text(text);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(max_tokens);
  request.mutable_stopping()->set_ignore_eos(true);
  return request;
}

// A greedy stream that does not end by itself. Unread, it parks when the
// transport's windows are full; as these may grow beyond a whole context, the
// context rolls.
inline v1::StreamGenerateRequest EndlessRequest() {
  auto request = GreedyRequest<v1::StreamGenerateRequest>("hello", 0);
  request.mutable_response()->set_top_logprobs(64);
  request.set_context_policy(v1::CONTEXT_POLICY_ROLL);
  return request;
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_TESTS_SERVICES_WORKER_WORKER_FIXTURE_H_
