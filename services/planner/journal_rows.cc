#include "services/planner/journal_rows.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"

namespace plimsoll::services {
namespace {

// Returns a lease's state as the journal keeps it: RELEASED, CONFIRMED or
// RESERVED, but never SUSPECT.
absl::string_view KeptState(const planner::Lease& lease) {
  if (lease.state == planner::LeaseState::kReleased) return "RELEASED";
  return lease.was_confirmed ? "CONFIRMED" : "RESERVED";
}

absl::Status SetState(absl::string_view text, planner::Lease& lease) {
  using planner::LeaseState;
  lease.was_confirmed = text == "CONFIRMED";
  if (text == "RELEASED") {
    lease.state = LeaseState::kReleased;
  } else if (text == "CONFIRMED") {
    lease.state = LeaseState::kConfirmed;
  } else if (text == "RESERVED") {
    lease.state = LeaseState::kReserved;
  } else {
    return absl::DataLossError("a lease has no known state");
  }
  return absl::OkStatus();
}

}  // namespace

Statement::Statement(sqlite3* db, const char* sql)
    : code_(sqlite3_prepare_v2(db, sql, -1, &handle_, nullptr)) {}

Statement::~Statement() { sqlite3_finalize(handle_); }

void Statement::Bind(int at, const std::string& text) {
  if (code_ != SQLITE_OK) return;
  code_ = sqlite3_bind_text(handle_, at, text.data(),
                            static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

void Statement::Bind(int at, int64_t value) {
  if (code_ != SQLITE_OK) return;
  code_ = sqlite3_bind_int64(handle_, at, value);
}

int Statement::Step() {
  return code_ == SQLITE_OK ? sqlite3_step(handle_) : code_;
}

std::string Statement::Text(int column) {
  const auto* const text =
      static_cast<const char*>(sqlite3_column_blob(handle_, column));
  if (text == nullptr) return "";
  return {text, static_cast<size_t>(sqlite3_column_bytes(handle_, column))};
}

int64_t Statement::Int(int column) {
  return sqlite3_column_int64(handle_, column);
}

void BindLease(const planner::LeaseRecord& record, Statement& put) {
  const planner::Lease& lease = record.lease;
  put.Bind(1, lease.id);
  put.Bind(2, lease.device_id);
  put.Bind(3, lease.bytes);
  put.Bind(4, lease.measured_bytes);
  put.Bind(5, lease.holder);
  put.Bind(6, lease.purpose);
  put.Bind(7, lease.process);
  put.Bind(8, lease.epoch);
  put.Bind(9, std::string(KeptState(lease)));
  put.Bind(10, record.request_id);
  put.Bind(11, absl::ToUnixSeconds(absl::Now()));
}

absl::StatusOr<LeaseRow> LeaseOfRow(Statement& rows) {
  LeaseRow row;
  planner::Lease& lease = row.record.lease;
  lease.id = rows.Text(0);
  lease.device_id = rows.Text(1);
  lease.bytes = rows.Int(2);
  lease.measured_bytes = rows.Int(3);
  lease.holder = rows.Text(4);
  lease.purpose = rows.Text(5);
  lease.process = rows.Text(6);
  lease.epoch = rows.Int(7);
  RETURN_IF_ERROR(SetState(rows.Text(8), lease));
  row.record.request_id = rows.Text(9);
  row.granted_wall = rows.Int(10);
  lease.secret_hash = rows.Text(11);
  return row;
}

}  // namespace plimsoll::services
