// Leases whose planner does not always answer: what a worker holds and what the
// planner has in its book become the same again.
#include "services/worker/models/lease_keeper.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/host/clock.h"
#include "services/host/process_identity.h"
#include "services/planner/ledger.h"
#include "services/wire/errors.h"
#include "worker/device/compute_device.h"

namespace plimsoll::services {
namespace {

constexpr char kDevice[] = "test/cpu";
constexpr char kHolder[] = "test/1";
constexpr int64_t kBytes = 1 << 20;

// A ledger behind a service whose answers can get lost.
class LossyPlanner final : public v1::PlannerService::Service {
 public:
  LossyPlanner() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address = "127.0.0.1:" + std::to_string(port);
  }

  grpc::Status RegisterDevice(grpc::ServerContext*,
                              const v1::RegisterDeviceRequest* request,
                              v1::RegisterDeviceResponse* response) override {
    ++n_registered;
    return ToGrpc(ledger.RegisterDevice(*request, *response), "");
  }
  grpc::Status Reserve(grpc::ServerContext*, const v1::ReserveRequest* request,
                       v1::ReserveResponse* response) override {
    ++n_reserve_calls;
    const absl::Status status = ledger.Reserve(*request, *response);
    on_reserved();
    if (n_lost_replies-- > 0) return {grpc::StatusCode::UNAVAILABLE, "lost"};
    return ToGrpc(status, "");
  }
  grpc::Status Renew(grpc::ServerContext*, const v1::RenewRequest* request,
                     v1::RenewResponse* response) override {
    return ToGrpc(ledger.Renew(*request, *response), "");
  }
  grpc::Status Release(grpc::ServerContext*, const v1::ReleaseRequest* request,
                       v1::ReleaseResponse* response) override {
    ++n_release_calls;
    return ToGrpc(ledger.Release(*request, *response), "");
  }
  grpc::Status ListLeases(grpc::ServerContext*,
                          const v1::ListLeasesRequest* request,
                          v1::ListLeasesResponse* response) override {
    on_list();
    if (n_refused_lists-- > 0) {
      return ToGrpc(absl::ResourceExhaustedError("64 calls wait"), "");
    }
    return ToGrpc(ledger.ListLeases(*request, *response), "");
  }

  std::set<std::string> LeaseIds() {
    v1::ListLeasesResponse response;
    EXPECT_TRUE(ledger.ListLeases({}, response).ok());
    std::set<std::string> ids;
    for (const v1::Lease& lease : response.leases()) ids.insert(lease.id());
    return ids;
  }
  // Waits for it; it happens, or the test's own time limit ends the test.
  void AwaitLeases(size_t n) {
    while (LeaseIds().size() != n) std::this_thread::yield();
  }

  Ledger ledger{BootTime};
  std::string address;
  std::atomic<int> n_lost_replies = 0;   // lost replies of Reserve from now on
  std::atomic<int> n_refused_lists = 0;  // from now on
  std::atomic<int> n_registered = 0;
  std::atomic<int> n_reserve_calls = 0;
  std::atomic<int> n_release_calls = 0;
  // Set before a keeper starts.
  std::function<void()> on_reserved = [] {};  // granted, not answered yet
  std::function<void()> on_list = [] {};      // before the answer is made

 private:
  std::unique_ptr<grpc::Server> server_;  // last: it calls the methods above
};

class LeaseKeeperTest : public ::testing::Test {
 protected:
  LeaseKeeperTest()
      : client_(planner_.address, LeaseHolder{.name = kHolder}, BootTime) {
    EXPECT_TRUE(
        client_.RegisterDevice(kDevice, worker::LocalCpu().Profile()).ok());
  }

  void Start() { StartWith(client_); }
  void StartWith(PlannerClient& client) {
    keeper_.emplace(client,
                    std::vector<WorkerDevice>{
                        {&worker::LocalCpu(), kDevice, std::nullopt,
                         [] { return worker::LocalCpu().Profile(); }}},
                    BootTime);
  }

  // Reserves for somebody who does not know this keeper.
  void ReserveAs(const std::string& holder,
                 const std::optional<ProcessIdentity>& process,
                 const std::string& secret) {
    v1::ReserveRequest request;
    request.set_request_id(holder + "'s");
    request.set_device_id(kDevice);
    request.set_holder(holder);
    request.set_bytes(kBytes);
    request.set_secret(secret);
    if (process.has_value()) {
      request.mutable_process()->set_pid(static_cast<uint32_t>(process->pid));
      request.mutable_process()->set_start_ticks(
          static_cast<uint64_t>(process->start_ticks));
      request.mutable_process()->set_boot_id(process->boot_id);
      request.mutable_process()->set_pid_namespace(
          static_cast<uint64_t>(process->pid_namespace));
    }
    v1::ReserveResponse response;
    ASSERT_TRUE(planner_.ledger.Reserve(request, response).ok());
  }

  LossyPlanner planner_;
  PlannerClient client_;
  std::optional<LeaseKeeper> keeper_;
};

TEST_F(LeaseKeeperTest, ALostAnswerIsAskedForAgain) {
  Start();
  planner_.n_lost_replies = PlannerClient::kMaxReserveCalls - 1;
  const auto lease = keeper_->Reserve(kDevice, "a", kBytes);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(planner_.n_reserve_calls, PlannerClient::kMaxReserveCalls);
  EXPECT_EQ(planner_.LeaseIds(), std::set<std::string>{lease->id});
  EXPECT_TRUE(keeper_->Fence(lease->id).ok());
}

TEST_F(LeaseKeeperTest, AReservationThatNobodyKnowsIsReleased) {
  Start();
  planner_.n_lost_replies = PlannerClient::kMaxReserveCalls;
  const auto lease = keeper_->Reserve(kDevice, "a", kBytes);
  EXPECT_EQ(lease.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(planner_.n_reserve_calls, PlannerClient::kMaxReserveCalls);
  ASSERT_EQ(planner_.LeaseIds().size(), 1u);
  planner_.AwaitLeases(0);
}

TEST_F(LeaseKeeperTest, APlannerThatIsTooBusyToListIsAskedLater) {
  planner_.n_refused_lists = 1;
  ReserveAs(kHolder, OwnIdentity(), /*secret=*/"");
  Start();
  while (planner_.n_refused_lists > 0) std::this_thread::yield();
  // The lease that it holds by then is renewed before the next list, as always.
  const auto lease = keeper_->Reserve(kDevice, "a", kBytes);
  ASSERT_TRUE(lease.ok()) << lease.status();
  while (planner_.LeaseIds() != std::set<std::string>{lease->id}) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(keeper_->Fence(lease->id).ok());
}

TEST_F(LeaseKeeperTest, OnlyLeasesOfItsOwnIdentityAreReleased) {
  const std::optional<ProcessIdentity> own = OwnIdentity();
  ASSERT_TRUE(own.has_value());
  ProcessIdentity other_boot = *own;
  other_boot.boot_id = "another";
  ReserveAs("nobody", std::nullopt, /*secret=*/"");
  // Another worker in this process, and one name on another host.
  ReserveAs("test/2", own, /*secret=*/"");
  ReserveAs(kHolder, other_boot, /*secret=*/"");
  const std::set<std::string> others = planner_.LeaseIds();
  ASSERT_TRUE(client_.Reserve("r", kDevice, "a", kBytes).ok());
  ASSERT_EQ(planner_.LeaseIds().size(), 4u);
  Start();
  planner_.AwaitLeases(3);
  EXPECT_EQ(planner_.LeaseIds(), others);
  EXPECT_EQ(planner_.n_release_calls, 1);
}

// What an earlier process of this worker left, which has ended.
TEST_F(LeaseKeeperTest, LeasesOfEarlierProcessesAreReleasedByTheirSecret) {
  const std::string secret(32, 'a');
  ProcessIdentity first = *OwnIdentity();
  first.pid_namespace += 1;  // nobody can watch it
  ProcessIdentity second = first;
  second.start_ticks += 1;
  ProcessIdentity neighbour = first;
  neighbour.pid += 1;
  ReserveAs("test/1-first", first, secret);
  ReserveAs("test/1-second", second, secret);
  ASSERT_EQ(planner_.LeaseIds().size(), 2u);
  // One has the secret of the worker, one its identity by mistake.
  ReserveAs("a neighbour", neighbour, secret);
  ReserveAs("a stranger", first, std::string(32, 'b'));
  planner_.n_refused_lists = 1;  // it is asked again
  PlannerClient client(
      planner_.address,
      {.name = kHolder,
       .history = {.secret = secret, .former = {first, second}}},
      BootTime);
  EXPECT_FALSE(client.ReleaseFormer().ok());
  EXPECT_EQ(planner_.LeaseIds().size(), 4u);
  StartWith(client);
  planner_.AwaitLeases(2);
  const auto lease = keeper_->Reserve(kDevice, "a", kBytes);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(client.ReleaseFormer().ok());
  EXPECT_EQ(planner_.LeaseIds().size(), 3u);
  EXPECT_TRUE(keeper_->Fence(lease->id).ok());
  keeper_.reset();  // before its client
}

TEST_F(LeaseKeeperTest, ALeaseThatIsBeingReservedIsNotReleased) {
  // The planner may be asked for its list once more when the test has ended.
  struct State {
    absl::Notification is_started;
    absl::Notification is_granted;
    absl::Notification may_answer;
    std::atomic<int> n_lists = 0;
    std::thread load;
    absl::StatusOr<LeaseGrant> lease = absl::UnknownError("not yet");
  };
  const auto state = std::make_shared<State>();
  planner_.on_reserved = [state] {
    state->is_granted.Notify();
    state->may_answer.WaitForNotification();
  };
  // The planner grants a lease after it was asked for its list, which tells of
  // the lease; the answer to the reservation comes later.
  planner_.on_list = [this, state] {
    if (state->n_lists++ > 0) return;
    state->is_started.WaitForNotification();
    state->load = std::thread([this, state] {
      state->lease = keeper_->Reserve(kDevice, "a", kBytes);
    });
    state->is_granted.WaitForNotification();
  };
  Start();
  state->is_started.Notify();
  state->is_granted.WaitForNotification();
  // It was done with that answer when the next round begins.
  const int n_registered = planner_.n_registered;
  while (planner_.n_registered == n_registered) std::this_thread::yield();
  state->may_answer.Notify();
  state->load.join();
  ASSERT_TRUE(state->lease.ok()) << state->lease.status();
  EXPECT_EQ(planner_.n_release_calls, 0);
  EXPECT_EQ(planner_.LeaseIds().size(), 1u);
}

TEST(FenceMarginTest, IsAFifthOfAShortTimeToLive) {
  EXPECT_EQ(LeaseKeeper::FenceMargin(absl::Seconds(1)),
            absl::Milliseconds(200));
  EXPECT_EQ(LeaseKeeper::FenceMargin(absl::Seconds(10)), absl::Seconds(2));
  EXPECT_EQ(LeaseKeeper::FenceMargin(absl::Seconds(60)), absl::Seconds(2));
}

}  // namespace
}  // namespace plimsoll::services
