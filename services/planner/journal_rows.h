// The journal's tables, and a lease as rows of them.
#ifndef PLIMSOLL_SERVICES_PLANNER_JOURNAL_ROWS_H_
#define PLIMSOLL_SERVICES_PLANNER_JOURNAL_ROWS_H_

#include <sqlite3.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "planner/lease/lease.h"
#include "planner/lease/lease_journal.h"

namespace plimsoll::services {

inline constexpr int64_t kJournalSchema = 1;

inline constexpr char kJournalTables[] =
    "CREATE TABLE lease("
    "id TEXT PRIMARY KEY, device_uuid TEXT NOT NULL, bytes INTEGER NOT NULL,"
    "measured_bytes INTEGER NOT NULL, holder TEXT NOT NULL,"
    "purpose TEXT NOT NULL, process TEXT NOT NULL, epoch INTEGER NOT NULL,"
    "state TEXT NOT NULL, request_id TEXT NOT NULL,"
    "granted_wall INTEGER NOT NULL) STRICT;"
    "CREATE TABLE meta("
    "schema INTEGER NOT NULL, boot_nonce TEXT NOT NULL,"
    "next_epoch INTEGER NOT NULL, is_partial INTEGER NOT NULL) STRICT;"
    "INSERT INTO meta VALUES(1, '', 1, 1);";

// Files of earlier versions lack these tables. Earlier versions ignore them, so
// that they can use a newer file. Each grant deletes rows that were released
// long ago; without the index it would read every row. A released lease needs
// no secret.
inline constexpr char kLaterTables[] =
    "CREATE INDEX IF NOT EXISTS lease_released ON lease(epoch) "
    "WHERE state='RELEASED';"
    "CREATE TABLE IF NOT EXISTS lease_secret("
    "id TEXT PRIMARY KEY, sha256 TEXT NOT NULL) STRICT;"
    "DELETE FROM lease_secret WHERE id NOT IN "
    "(SELECT id FROM lease WHERE state<>'RELEASED');";

inline constexpr char kHasSecrets[] =
    "SELECT count(*) FROM sqlite_schema WHERE name='lease_secret'";

// A row that exists already keeps the fields that never change; a row whose id
// is used again is a new lease.
inline constexpr char kPutLease[] =
    "INSERT INTO lease VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)"
    "ON CONFLICT(id) DO UPDATE SET device_uuid=?2, bytes=?3,"
    "measured_bytes=?4, holder=?5, purpose=?6, process=?7, state=?9,"
    "request_id=iif(epoch=?8, request_id, ?10),"
    "granted_wall=iif(epoch=?8, granted_wall, ?11), epoch=?8";
inline constexpr char kPutSecret[] =
    "INSERT OR REPLACE INTO lease_secret VALUES(?1,?2)";
inline constexpr char kDropSecret[] = "DELETE FROM lease_secret WHERE id=?1";

// Both have the columns of LeaseOfRow.
inline constexpr char kSelectLeases[] =
    "SELECT lease.id, device_uuid, bytes, measured_bytes, holder, purpose,"
    "process, epoch, state, request_id, granted_wall,"
    "coalesce(sha256, '') FROM lease LEFT JOIN lease_secret "
    "ON lease_secret.id=lease.id ORDER BY epoch";
inline constexpr char kSelectLeasesWithoutSecrets[] =
    "SELECT id, device_uuid, bytes, measured_bytes, holder, purpose, process,"
    "epoch, state, request_id, granted_wall, '' FROM lease ORDER BY epoch";

// A statement that is finalised at the end of its scope. Column numbers begin
// at 0, numbers of bound values at 1.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void Bind(int at, const std::string& text);
  void Bind(int at, int64_t value);
  // Goes to the next row. Returns SQLite's code; if the statement or one of its
  // values could not be prepared, it runs nothing and returns why.
  int Step();
  std::string Text(int column);
  int64_t Int(int column);

 private:
  sqlite3_stmt* handle_ = nullptr;
  int code_;  // SQLite's
};

// Binds all values of kPutLease.
void BindLease(const planner::LeaseRecord& record, Statement& put);

// A lease of the journal, and the time of day of its grant in seconds.
struct LeaseRow {
  planner::LeaseRecord record;
  int64_t granted_wall;
};

// Reads the row at which `rows`, one of the two selections, stands.
// Errors: kDataLoss if its state is not known.
absl::StatusOr<LeaseRow> LeaseOfRow(Statement& rows);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_JOURNAL_ROWS_H_
