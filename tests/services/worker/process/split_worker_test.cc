// A worker whose models' layers lie on several devices: plans, leases, and what
// clients are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "planner/layout/layer_split.h"
#include "services/wire/errors.h"
#include "tests/services/worker/worker_fixture.h"
#include "worker/device/model_file.h"

namespace plimsoll::services {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;

constexpr uint32_t kContext = plimsoll::testing::kRandomContext;
constexpr char kOne[] = "test/one";
constexpr char kTwo[] = "test/two";

// The CPU as a device of its own.
class SecondHost final : public worker::ComputeDevice {
 public:
  absl::StatusOr<std::unique_ptr<kernels::Backend>> NewBackend(
      kernels::ThreadPool& pool) const override {
    return worker::LocalCpu().NewBackend(pool);
  }
  planner::DeviceProfile Profile() const override {
    return worker::LocalCpu().Profile();
  }
  bool is_host() const override { return true; }
};

// A worker's lazy models "a" and "b" of two layers, and two devices: the first
// one has room for one layer.
class SplitWorkerTest : public ::testing::Test {
 protected:
  SplitWorkerTest() { memory_one_ = LayerBytes(0); }

  // What a layer of the model takes as a part of its own.
  static int64_t LayerBytes(int64_t layer) {
    const plimsoll::testing::TemporaryFile file(
        plimsoll::testing::RandomModelBytes(plimsoll::testing::WideModel()));
    const auto opened = worker::ModelFile::Open(file.path());
    planner::LoadOptions options = WorkerLoadDefaults();
    options.n_ctx = kContext;
    options.n_slots = 2;
    options.n_ubatch = 64;
    const auto slice = planner::SliceLayers((*opened)->shape(), layer, 1);
    const planner::DeviceProfile profile = worker::LocalCpuProfile();
    const auto plan =
        planner::Layout(*slice, {options}, profile, profile.free_bytes);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan->total_bytes;
  }

  std::unique_ptr<TestWorker> Start(TestPlanner* planner) {
    return std::make_unique<TestWorker>(TestWorkerSetup{
        .planner = planner,
        .model = plimsoll::testing::WideModel(),
        .change = [this](WorkerOptions& options) {
          options.devices = {DeviceOf(worker::LocalCpu(), kOne, memory_one_),
                             DeviceOf(second_, kTwo, memory_two_)};
          options.clock = clock_;
          options.devices[1].profile = [this] {
            if (on_reading_ != nullptr) on_reading_();
            return second_.Profile();
          };
        }});
  }

  static std::string Generate(TestWorker& worker) {
    grpc::ClientContext context;
    v1::GenerateResponse response;
    const auto request = GreedyRequest<v1::GenerateRequest>("hello", 24);
    const grpc::Status status =
        worker.generation->Generate(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.text();
  }

  SecondHost second_;
  std::optional<int64_t> memory_one_;
  std::optional<int64_t> memory_two_;
  std::function<absl::Time()> clock_ = BootTime;
  std::function<void()> on_reading_;  // reads the second device
};

TEST_F(SplitWorkerTest, LayersLieOnBothDevicesAndTheTextIsTheSame) {
  const auto split = Start(nullptr);
  ASSERT_TRUE(split->LoadWithContext("a", kContext).ok());
  memory_one_.reset();
  const auto whole = Start(nullptr);
  ASSERT_TRUE(whole->LoadWithContext("a", kContext).ok());
  EXPECT_EQ(split->Describe("a").parts_size(), 2);
  EXPECT_EQ(Generate(*split), Generate(*whole));
}

TEST_F(SplitWorkerTest, ClientsAreToldOfTheParts) {
  const auto worker = Start(nullptr);
  std::vector<v1::LoadModelResponse> messages;
  ASSERT_TRUE(worker->LoadWithMessages("a", kContext, messages).ok());
  int plans = 0;
  for (const v1::LoadModelResponse& message : messages) {
    EXPECT_EQ(message.parts_size(), message.has_plan() ? 2 : 0);
    plans += message.has_plan() ? 1 : 0;
  }
  EXPECT_EQ(plans, 1);
  const v1::Model model = worker->Describe("a");
  ASSERT_EQ(model.parts_size(), 2);
  EXPECT_EQ(model.device_id(), kOne);
  EXPECT_EQ(model.parts(0).device_id(), kOne);
  EXPECT_EQ(model.parts(0).first_layer(), 0u);
  EXPECT_EQ(model.parts(0).n_layers(), 1u);
  EXPECT_EQ(model.parts(1).device_id(), kTwo);
  EXPECT_EQ(model.parts(1).first_layer(), 1u);
  EXPECT_EQ(model.parts(1).n_layers(), 1u);
  EXPECT_FALSE(model.parts(0).has_plan());
  EXPECT_EQ(model.total_bytes(),
            model.parts(0).total_bytes() + model.parts(1).total_bytes());
  EXPECT_EQ(static_cast<int64_t>(model.parts(0).total_bytes()), *memory_one_);

  grpc::ClientContext context;
  v1::GetMemoryRequest request;
  request.set_model("a");
  v1::GetMemoryResponse memory;
  ASSERT_TRUE(worker->models->GetMemory(&context, request, &memory).ok());
  ASSERT_EQ(memory.parts_size(), 2);
  uint64_t allocated = 0;
  for (const v1::ModelPart& part : memory.parts()) {
    EXPECT_EQ(part.measured().planned_bytes(),
              part.measured().allocated_bytes());
    EXPECT_GE(part.measured().allocated_bytes(), part.plan().arena_bytes());
    allocated += part.measured().allocated_bytes();
  }
  EXPECT_EQ(memory.measured().allocated_bytes(), allocated);
  EXPECT_EQ(memory.plan().total_bytes(), memory.parts(0).total_bytes());
}

TEST_F(SplitWorkerTest, AModelThatFitsTheFirstDeviceIsAsWithOne) {
  memory_one_.reset();
  const auto worker = Start(nullptr);
  std::vector<v1::LoadModelResponse> messages;
  ASSERT_TRUE(worker->LoadWithMessages("a", kContext, messages).ok());
  for (const auto& message : messages) EXPECT_EQ(message.parts_size(), 0);
  EXPECT_EQ(worker->Describe("a").parts_size(), 0);
  EXPECT_EQ(worker->Describe("a").device_id(), kOne);
}

TEST_F(SplitWorkerTest, WhatOtherModelsHoldCountsOnTheirDevices) {
  const auto worker = Start(nullptr);
  ASSERT_TRUE(worker->LoadWithContext("a", kContext).ok());
  ASSERT_TRUE(worker->LoadWithContext("b", kContext).ok());
  // The first device's budget is a's; all of b's layers go on the second.
  EXPECT_EQ(worker->Describe("b").parts_size(), 0);
  EXPECT_EQ(worker->Describe("b").device_id(), kTwo);
  ASSERT_TRUE(worker->Unload("a").ok());
  ASSERT_TRUE(worker->Unload("b").ok());
  ASSERT_TRUE(worker->LoadWithContext("b", kContext).ok());
  EXPECT_EQ(worker->Describe("b").device_id(), kOne);
}

TEST_F(SplitWorkerTest, WhatDoesNotFitIsRefusedWithEachDevicesNumbers) {
  TestPlanner planner;
  memory_two_ = LayerBytes(1) - 1;
  for (TestPlanner* with : {&planner, static_cast<TestPlanner*>(nullptr)}) {
    const auto worker = Start(with);
    const absl::Status status =
        FromGrpc(worker->LoadWithContext("a", kContext));
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr(absl::StrCat(kOne, " takes layers 0-0 in ", *memory_one_,
                               " of ", *memory_one_, " bytes, ", kTwo, " has ",
                               *memory_two_, " bytes and takes no layer")));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("1 layer is left, for which the last device lacks "
                          "1 bytes; try --"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("; --n-ctx "));
    const ErrorDetails details = DetailsOf(status);
    EXPECT_EQ(details.reason, v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED);
    EXPECT_EQ(details.metadata.at("missing_bytes"), "1");
    EXPECT_EQ(details.metadata.at("layers_left"), "1");
    EXPECT_THAT(details.metadata, Contains(Key("wanted_bytes")));
    EXPECT_THAT(details.metadata, Contains(Key("available_bytes")));
  }
  EXPECT_TRUE(planner.Leases().empty());
}

TEST_F(SplitWorkerTest, EachPartHasALeaseOnItsDevice) {
  TestPlanner planner;
  const auto worker = Start(&planner);
  ASSERT_TRUE(worker->LoadWithContext("a", kContext).ok());
  std::vector<v1::Lease> leases = planner.Leases();
  ASSERT_EQ(leases.size(), 2u);
  std::sort(leases.begin(), leases.end(),
            [](const v1::Lease& a, const v1::Lease& b) {
              return a.device_id() < b.device_id();
            });
  const v1::Model model = worker->Describe("a");
  for (int i = 0; i < 2; ++i) {
    const v1::Lease& lease = leases[static_cast<size_t>(i)];
    EXPECT_EQ(lease.device_id(), model.parts(i).device_id());
    EXPECT_EQ(lease.bytes(), model.parts(i).total_bytes());
    EXPECT_EQ(lease.state(), v1::LEASE_STATE_CONFIRMED);
    EXPECT_EQ(lease.purpose(), "a");
    EXPECT_GT(lease.measured_bytes(), 0u);
  }
  // The vocabulary's tables are the first part's.
  grpc::ClientContext context;
  v1::GetMemoryRequest request;
  request.set_model("a");
  v1::GetMemoryResponse memory;
  ASSERT_TRUE(worker->models->GetMemory(&context, request, &memory).ok());
  EXPECT_EQ(leases[0].measured_bytes(),
            memory.parts(0).measured().allocated_bytes() +
                memory.measured().vocab_bytes());
  EXPECT_EQ(leases[1].measured_bytes(),
            memory.parts(1).measured().allocated_bytes());
  EXPECT_NE(Generate(*worker), "");
  ASSERT_TRUE(worker->Unload("a").ok());
  EXPECT_TRUE(planner.Leases().empty());
}

// Takes a device's last byte when a worker has reserved its first part.
class Thief {
 public:
  explicit Thief(Ledger& ledger) : ledger_(ledger) {}

  int64_t n_worker_leases() {
    v1::ListLeasesResponse leases;
    EXPECT_TRUE(ledger_.ListLeases({}, leases).ok());
    int64_t n = 0;
    for (const v1::Lease& lease : leases.leases()) {
      n += lease.purpose() == "a" ? 1 : 0;
    }
    return n;
  }

  void Steal() {
    v1::ListDevicesResponse devices;
    EXPECT_TRUE(ledger_.ListDevices(devices).ok());
    v1::ReserveRequest request;
    request.set_request_id("steal");
    request.set_device_id(kTwo);
    request.set_holder("thief");
    request.set_purpose("loot");
    for (const v1::Device& device : devices.devices()) {
      if (device.profile().id() == kTwo) {
        request.set_bytes(device.available_bytes());
      }
    }
    v1::ReserveResponse response;
    ASSERT_TRUE(ledger_.Reserve(request, response).ok());
    loot_ = response.lease();
    has_stolen_ = true;
  }

  void GiveBack() {
    v1::ReleaseRequest request;
    request.set_lease_id(loot_.id());
    request.set_epoch(loot_.epoch());
    v1::ReleaseResponse response;
    ASSERT_TRUE(ledger_.Release(request, response).ok());
    has_given_back_ = true;
  }

  bool has_stolen() const { return has_stolen_; }
  bool has_given_back() const { return has_given_back_; }

 private:
  Ledger& ledger_;
  v1::Lease loot_;
  std::atomic<bool> has_stolen_ = false;
  std::atomic<bool> has_given_back_ = false;
};

TEST_F(SplitWorkerTest, ARefusalOfTheSecondDeviceReleasesTheFirst) {
  TestPlanner planner;
  Thief thief(planner.ledger);
  // The clock is read before every reservation.
  clock_ = [&thief] {
    if (!thief.has_stolen() && thief.n_worker_leases() == 1) thief.Steal();
    return BootTime();
  };
  const auto worker = Start(&planner);
  const absl::Status status = FromGrpc(worker->LoadWithContext("a", kContext));
  ASSERT_TRUE(thief.has_stolen());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED);
  EXPECT_EQ(thief.n_worker_leases(), 0);
}

TEST_F(SplitWorkerTest, WhatWasRefusedIsPlannedAndReservedAgain) {
  TestPlanner planner;
  Thief thief(planner.ledger);
  clock_ = [&thief] {
    if (!thief.has_stolen() && thief.n_worker_leases() == 1) thief.Steal();
    return BootTime();
  };
  on_reading_ = [&thief] {
    if (thief.has_stolen() && !thief.has_given_back() &&
        thief.n_worker_leases() == 0) {
      thief.GiveBack();
    }
  };
  const auto worker = Start(&planner);
  ASSERT_TRUE(worker->LoadWithContext("a", kContext).ok());
  EXPECT_TRUE(thief.has_given_back());
  EXPECT_EQ(thief.n_worker_leases(), 2);
}

TEST_F(SplitWorkerTest, ALoadEndsWithTheFirstLeaseThatDoes) {
  TestPlanner planner;
  Thief counter(planner.ledger);
  // The second reservation is asked for so long ago that it has ended.
  std::atomic<bool> is_late = false;
  clock_ = [&] {
    const bool is_second = !is_late && counter.n_worker_leases() == 1;
    if (!is_second) return BootTime();
    is_late = true;
    return BootTime() - absl::Minutes(1);
  };
  const auto worker = Start(&planner);
  const absl::Status status = FromGrpc(worker->LoadWithContext("a", kContext));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_LEASE_LOST);
  EXPECT_EQ(counter.n_worker_leases(), 0);
}

TEST_F(SplitWorkerTest, APlannerThatForgotThemIsPresentedAllLeases) {
  TestPlanner planner;
  const auto worker = Start(&planner);
  ASSERT_TRUE(worker->LoadWithContext("a", kContext).ok());
  const std::string address = planner.server->address();
  planner.server.reset();
  Ledger ledger(LedgerOptions{
      .clock = BootTime, .is_first = false, .first_epoch = 1'000});
  Planner second({}, ledger);
  CallGate gate;
  const auto service = NewPlannerService({.planner = second,
                                          .ledger = ledger,
                                          .gate = gate,
                                          .pool = *planner.pool});
  const auto server = Server::Start({.listen = address}, {service.get()}, gate);
  ASSERT_TRUE(server.ok()) << server.status();
  v1::ListLeasesResponse response;
  while (response.leases_size() < 2) {
    std::this_thread::yield();
    response.Clear();
    ASSERT_TRUE(ledger.ListLeases({}, response).ok());
  }
  EXPECT_NE(response.leases(0).device_id(), response.leases(1).device_id());
}

}  // namespace
}  // namespace plimsoll::services
