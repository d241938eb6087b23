// A worker's calls to its planner.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_PLANNER_CLIENT_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_PLANNER_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "planner/layout/device_profile.h"
#include "planner/layout/memory_plan.h"
#include "plimsoll/v1/common.pb.h"
#include "plimsoll/v1/lease.pb.h"
#include "plimsoll/v1/plan.pb.h"
#include "services/host/process_identity.h"
#include "services/server/tls_files.h"
#include "services/worker/models/holder_file.h"

namespace plimsoll::services {

// A lease: bytes of a device that the planner granted.
struct LeaseGrant {
  std::string id;
  std::string device_id;
  int64_t epoch = 0;
  int64_t bytes = 0;
  absl::Duration ttl;
  absl::Time asked;  // on our clock, before the request was sent
  std::string purpose = {};
};

// A model that is to be planned, and how it is to be loaded.
struct PlannedModel {
  std::string header;  // HeaderBytes' result
  int64_t file_bytes;
  planner::LoadOptions options;
  std::string purpose;
};

// How much of a device a plan may take.
struct DeviceBudget {
  std::string device_id;
  std::optional<int64_t> bytes;  // absent: what the planner has
};

// Who holds the leases of a client.
struct LeaseHolder {
  std::string name;
  HolderHistory history = {};
};

// Thread-safe. Every call blocks for at most kCallDeadline.
// Errors of every call: kUnavailable with PLANNER_UNAVAILABLE and a retry delay
// if the planner does not answer; else what it answered, details included (such
// as kUnavailable with PLANNER_RECOVERING).
class PlannerClient {
 public:
  static constexpr absl::Duration kCallDeadline = absl::Seconds(5);
  static constexpr absl::Duration kRetryDelay = absl::Seconds(2);
  static constexpr int kMaxReserveCalls = 3;

  PlannerClient(const std::string& address, LeaseHolder holder,
                std::function<absl::Time()> clock,
                const ClientSecurity& security = {});
  ~PlannerClient();

  // Returns whether the last call waited long and had no answer. What can be
  // left undone need not wait for such a planner again.
  bool is_silent() const;
  // Ends the calls that are under way. They and all later ones have no answer.
  void CancelCalls();

  // If the device is `is_unhealthy`, nothing is granted there until another
  // worker registers it.
  absl::Status RegisterDevice(const std::string& device_id,
                              planner::DeviceProfile profile,
                              bool is_unhealthy = false);
  // Asks for the plan on a device, within its budget if there is one.
  absl::StatusOr<v1::MemoryPlan> Plan(const PlannedModel& model,
                                      const DeviceBudget& device);
  // Asks for the plan over several devices, in order.
  absl::StatusOr<v1::PlanSplitResponse> PlanSplit(
      const PlannedModel& model, const std::vector<DeviceBudget>& devices);
  // Asks for a lease. A call without an answer is made again, kMaxReserveCalls
  // times at most and all within kCallDeadline: the planner knows the request
  // by its id. If no call is answered, the planner may have granted a lease
  // that the worker does not know; HeldLeases() finds it.
  absl::StatusOr<LeaseGrant> Reserve(const std::string& request_id,
                                     const std::string& device_id,
                                     const std::string& purpose, int64_t bytes);
  // Tells what was allocated on the lease, and a reading of the device.
  absl::Status Confirm(const LeaseGrant& lease, int64_t measured_bytes,
                       int64_t device_free_bytes);
  // Renews a lease. `device_free_bytes`, if given, is a reading of the device.
  // `measured_bytes`, if given, presents a confirmed lease whose memory was
  // allocated during that reading.
  // Returns false if the planner does not know the device.
  absl::StatusOr<bool> Renew(const LeaseGrant& lease,
                             std::optional<int64_t> device_free_bytes,
                             std::optional<int64_t> measured_bytes);
  // Gives a lease back. If `shortfall_bytes` is not 0, the load failed because
  // that many bytes were missing.
  absl::Status Release(const LeaseGrant& lease, int64_t shortfall_bytes = 0);
  // The leases that this process holds as the planner sees it. They are good
  // for Release only. Returns none if the planner cannot tell.
  absl::StatusOr<std::vector<LeaseGrant>> HeldLeases();
  // Releases what earlier processes of this worker left. They have ended, and
  // this process has their secret. Returns OK once the planner was asked about
  // all of them.
  absl::Status ReleaseFormer();
  bool has_former() const { return !former_.empty(); }

 private:
  class Stub;  // keeps gRPC out of this header

  // The leases that `process` holds as the planner sees it. An older planner
  // lists everybody's and names no process: then there are none.
  absl::StatusOr<std::vector<v1::Lease>> LeasesOf(
      const ProcessIdentity& process);

  std::unique_ptr<Stub> stub_;
  const std::string holder_;
  const std::function<absl::Time()> clock_;
  const std::optional<ProcessIdentity> process_;  // this process
  const std::vector<ProcessIdentity> former_;     // HolderHistory has them
  // Proves that a lease is ours. All have the same one, so that a lease whose
  // Reserve was not answered can be released.
  const std::string secret_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_PLANNER_CLIENT_H_
