// A planner that computes as much as it may: leases and health do not wait for
// that, and what nobody waits for stops.
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/planner/planner_service.h"
#include "services/planner/what_if_queries.h"
#include "services/server/server.h"
#include "services/wire/errors.h"
#include "services/wire/to_proto.h"
#include "tests/planner/tiny_models.h"

namespace plimsoll::services {
namespace {

using Code = absl::StatusCode;

constexpr absl::Duration kDeadline = absl::Seconds(60);
// More than gRPC has threads for callbacks on any machine we know.
constexpr int kCalls = 32;

planner::DeviceProfile Cpu() {
  planner::DeviceProfile profile = planner::CommittedCpuProfile();
  profile.id = "cpu";
  profile.total_bytes = int64_t{1} << 30;
  profile.free_bytes = profile.total_bytes;
  return profile;
}

// The largest fleet that may be asked for, hard to pack: it takes seconds.
v1::PlaceModelsRequest HardestPlacement() {
  v1::PlaceModelsRequest request;
  for (int m = 0; m < 1'024; ++m) {
    v1::ModelToPlace& model = *request.add_models();
    model.set_name(absl::StrCat("m", m));
    model.mutable_source()->set_model("tiny");
    model.mutable_options()->set_margin_bytes(
        static_cast<uint64_t>(m * m % 1'009) * 1'000'000 + 300'000'000);
    model.set_n_replicas(16);
  }
  for (int d = 0; d < 4'096; ++d) {
    v1::DeviceToFill& device = *request.add_devices();
    device.set_id(absl::StrCat("d", d));
    device.set_device_id("cpu");
    device.set_available_bytes(1'500'000'000 + static_cast<uint64_t>(d));
  }
  return request;
}

// The largest grid that may be asked for.
v1::WhatIfRequest LargestGrid() {
  v1::WhatIfRequest request;
  request.mutable_source()->set_model("tiny");
  request.add_devices()->set_budget_bytes(uint64_t{1} << 30);
  for (int i = 0; i < 1'000; ++i) {
    request.add_n_ctx(0);
    request.add_n_slots(static_cast<uint32_t>(i % 100 + 1));
  }
  return request;
}

// A PlaceModels call whose end is not waited for.
class Placing {
 public:
  Placing(v1::PlannerService::Stub& stub, const v1::PlaceModelsRequest& request,
          std::atomic<int>& n_ended) {
    stub.async()->PlaceModels(&context_, &request, &response_,
                              [this, &n_ended](const grpc::Status& status) {
                                status_ = FromGrpc(status);
                                ++n_ended;
                                ended_.Notify();
                              });
  }
  ~Placing() {
    context_.TryCancel();
    ended_.WaitForNotification();
  }

  absl::Status Cancel() {
    context_.TryCancel();
    ended_.WaitForNotification();
    return status_;
  }

 private:
  grpc::ClientContext context_;
  v1::PlaceModelsResponse response_;
  absl::Status status_;
  absl::Notification ended_;
};

class BusyPlannerTest : public ::testing::Test {
 protected:
  BusyPlannerTest()
      : ledger_([] { return absl::UnixEpoch(); }),
        planner_(TinyModels(), ledger_),
        pool_(*WorkPool::Start()),
        service_(NewPlannerService({.planner = planner_,
                                    .ledger = ledger_,
                                    .gate = gate_,
                                    .pool = *pool_})),
        server_(*Server::Start(ServerOptions{}, {service_.get()}, gate_)),
        stub_(v1::PlannerService::NewStub(grpc::CreateChannel(
            server_->address(), grpc::InsecureChannelCredentials()))) {
    v1::RegisterDeviceRequest request;
    *request.mutable_profile() = ToProto(Cpu());
    v1::RegisterDeviceResponse response;
    EXPECT_TRUE(ledger_.RegisterDevice(request, response).ok());
  }

  static Planner::Models TinyModels() {
    const std::string file = planner::BuilderOf(planner::TinyModel()).Build();
    Planner::Models models;
    models["tiny"] = std::make_shared<const planner::ModelShape>(
        *planner::ShapeFromGguf(*planner::Parse(file)));
    return models;
  }

  // Reserves, and renews a few times, as a worker does while it loads.
  absl::Status HoldALease() {
    v1::ReserveRequest reserve;
    reserve.set_request_id("r");
    reserve.set_device_id("cpu");
    reserve.set_holder("h");
    reserve.set_bytes(1);
    v1::ReserveResponse reserved;
    grpc::ClientContext reserving;
    grpc::Status status = stub_->Reserve(&reserving, reserve, &reserved);
    for (int i = 0; i < 3 && status.ok(); ++i) {
      v1::RenewRequest renew;
      renew.set_lease_id(reserved.lease().id());
      renew.set_epoch(reserved.lease().epoch());
      v1::RenewResponse renewed;
      grpc::ClientContext renewing;
      status = stub_->Renew(&renewing, renew, &renewed);
    }
    return FromGrpc(status);
  }

  CallGate gate_;
  Ledger ledger_;
  Planner planner_;
  const std::unique_ptr<WorkPool> pool_;
  const std::unique_ptr<grpc::Service> service_;
  const std::unique_ptr<Server> server_;
  const std::unique_ptr<v1::PlannerService::Stub> stub_;
};

TEST_F(BusyPlannerTest, LeasesDoNotWaitForPlacements) {
  const v1::PlaceModelsRequest request = HardestPlacement();
  std::atomic<int> n_ended = 0;
  std::vector<std::unique_ptr<Placing>> calls;
  for (int i = 0; i < kCalls; ++i) {
    calls.push_back(std::make_unique<Placing>(*stub_, request, n_ended));
  }
  while (pool_->n_running() + pool_->n_queued() < kCalls && n_ended == 0) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  const absl::Status status = HoldALease();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(n_ended, 0) << "the lease waited for a placement";
  for (const auto& call : calls) {
    EXPECT_EQ(call->Cancel().code(), Code::kCancelled);
  }
  // Nothing is computed for a client that is gone.
  EXPECT_TRUE(pool_->Await(0, 0, kDeadline));
}

// Lists wait for a thread of the pool as plans do: gRPC's threads make none.
TEST_F(BusyPlannerTest, LeasesDoNotWaitForLists) {
  const auto release = std::make_shared<absl::Notification>();
  const int n_threads = pool_->n_threads();
  for (int i = 0; i < n_threads; ++i) {
    ASSERT_TRUE(
        pool_
            ->Submit({"hold", WorkCost::kQuick, std::make_shared<CallStop>(),
                      [release](const absl::Status&) {
                        release->WaitForNotification();
                      }})
            .ok());
  }
  EXPECT_TRUE(pool_->Await(static_cast<size_t>(n_threads), 0, kDeadline));
  struct Call {
    grpc::ClientContext context;
    v1::ListDevicesResponse devices;
    v1::ListLeasesResponse leases;
    absl::Status status;
    absl::Notification ended;

    void End(const grpc::Status& end) {
      status = FromGrpc(end);
      ended.Notify();
    }
  };
  std::vector<std::unique_ptr<Call>> calls;
  const v1::ListDevicesRequest devices;
  const v1::ListLeasesRequest leases;
  for (int i = 0; i < kCalls; ++i) {
    Call* call = calls.emplace_back(std::make_unique<Call>()).get();
    const auto end = [call](const grpc::Status& status) { call->End(status); };
    if (i % 2 == 0) {
      stub_->async()->ListDevices(&call->context, &devices, &call->devices,
                                  end);
    } else {
      stub_->async()->ListLeases(&call->context, &leases, &call->leases, end);
    }
  }
  const absl::Time end = absl::Now() + kDeadline;
  while (pool_->n_queued() < kCalls && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(pool_->n_queued(), size_t{kCalls});
  const absl::Status status = HoldALease();
  EXPECT_TRUE(status.ok()) << status;
  release->Notify();
  for (const auto& call : calls) {
    call->ended.WaitForNotification();
    EXPECT_TRUE(call->status.ok()) << call->status;
  }
  EXPECT_EQ(calls[0]->devices.devices_size(), 1);
}

TEST_F(BusyPlannerTest, LeasesDoNotWaitForWhatIfs) {
  const v1::WhatIfRequest request = LargestGrid();
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::WhatIfResponse>> reader;
  };
  std::vector<std::unique_ptr<Call>> calls;
  v1::WhatIfResponse message;
  for (int i = 0; i < kMaxWhatIfCalls; ++i) {
    Call& call = *calls.emplace_back(std::make_unique<Call>());
    call.reader = stub_->WhatIf(&call.context, request);
    ASSERT_TRUE(call.reader->Read(&message));
    EXPECT_EQ(message.n_points(), 1'000'000u);
  }
  const absl::Status status = HoldALease();
  EXPECT_TRUE(status.ok()) << status;
  for (const auto& call : calls) {
    call->context.TryCancel();
    while (call->reader->Read(&message)) {
    }
    EXPECT_EQ(FromGrpc(call->reader->Finish()).code(), Code::kCancelled);
  }
  EXPECT_TRUE(pool_->Await(0, 0, kDeadline));
  EXPECT_TRUE(gate_.AwaitIdle(kDeadline));
}

}  // namespace
}  // namespace plimsoll::services
