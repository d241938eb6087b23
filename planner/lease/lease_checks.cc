#include "planner/lease/lease_checks.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

absl::Status CheckText(absl::string_view name, const std::string& text) {
  if (static_cast<int64_t>(text.size()) <= LeaseBook::kMaxIdBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(name, " has ", text.size(),
                                                 " bytes, more than ",
                                                 LeaseBook::kMaxIdBytes));
}

}  // namespace

absl::Status CheckId(absl::string_view name, const std::string& id) {
  if (!id.empty() &&
      static_cast<int64_t>(id.size()) <= LeaseBook::kMaxIdBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      name, " has ", id.size(), " bytes, not 1 to ", LeaseBook::kMaxIdBytes));
}

absl::Status CheckRequest(const LeaseBook::ReserveRequest& request) {
  RETURN_IF_ERROR(CheckId("lease_id", request.lease_id));
  RETURN_IF_ERROR(CheckId("device_id", request.device_id));
  RETURN_IF_ERROR(CheckId("holder", request.holder));
  RETURN_IF_ERROR(CheckText("purpose", request.purpose));
  RETURN_IF_ERROR(CheckText("process", request.process));
  if (request.bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("bytes must be positive, got ", request.bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckRecord(const LeaseRecord& record) {
  const Lease& lease = record.lease;
  RETURN_IF_ERROR(CheckRequest({.request_id = record.request_id,
                                .lease_id = lease.id,
                                .device_id = lease.device_id,
                                .holder = lease.holder,
                                .purpose = lease.purpose,
                                .bytes = lease.bytes,
                                .process = lease.process}));
  RETURN_IF_ERROR(CheckText("request_id", record.request_id));
  RETURN_IF_ERROR(CheckMeasured(lease.measured_bytes, lease));
  if (lease.epoch <= 0 || lease.epoch >= LeaseBook::kMaxEpoch) {
    return absl::InvalidArgumentError(absl::StrCat(
        "epoch is ", lease.epoch, ", not 1 to ", LeaseBook::kMaxEpoch - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckMeasured(int64_t bytes, const Lease& lease) {
  if (bytes >= 0 && bytes <= lease.bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "measured_bytes is ", bytes, ", not 0 to the granted ", lease.bytes));
}

absl::Status CheckPolicies(int64_t headroom_bytes, int64_t limit_bytes) {
  if (headroom_bytes >= 0 && limit_bytes >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "neither headroom_bytes nor limit_bytes may be negative");
}

absl::Status CheckFree(int64_t bytes) {
  if (bytes >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the free bytes must not be negative, got ", bytes));
}

}  // namespace plimsoll::planner
