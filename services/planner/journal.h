// The lease book's journal is one SQLite file. Each change is written to it
// before the call is answered.
#ifndef PLIMSOLL_SERVICES_PLANNER_JOURNAL_H_
#define PLIMSOLL_SERVICES_PLANNER_JOURNAL_H_

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "planner/lease/lease_journal.h"
#include "planner/lease/lease_start.h"
#include "services/planner/journal_lock.h"

namespace plimsoll::services {

// The state in which a start found a journal's place.
struct JournalHistory {
  planner::JournalFound found = planner::JournalFound::kNew;
  bool has_mark = false;  // an earlier planner has used this place
};

// The file has the tables `lease` (a row for each live lease and for each
// recently released one), `lease_secret` (the hash of each live lease's secret)
// and `meta` (one row), in WAL mode with synchronous=FULL. One planner at a
// time uses the file and holds a lock on it, even if it has several names.
//
// A mark beside the file (MarkPath) says that a planner was here, and which
// journal it used: the file's inode, the name of the last run, which is in the
// file too, and whether that run closed the file. This shows an older copy, and
// a file whose log was lost; both count as partial.
//
// Once a write has failed for another reason than a full or busy disk, nothing
// is written any more until the next start: after a failed fsync nobody knows
// what is on the disk. The same happens if the file is moved away. Not
// thread-safe.
class Journal final : public planner::LeaseJournal {
 public:
  // Released leases are kept for this many epochs, so that late calls about
  // them are answered after a restart too.
  static constexpr int64_t kKeptEpochs = 4'096;
  // At most this many rows are read; a file with more is not a planner's.
  static constexpr int64_t kMaxRows = 262'144;
  // This many leases may wait to be written while writing fails. After one
  // more, nothing is written until the next start.
  static constexpr size_t kMaxNoted = 131'072;

  // Opens or makes the file at `path`. A file that is not a sound journal is
  // renamed to PATH.bad-SECONDS, with a loud log line, and a new one is begun.
  // If no journal can be opened, Write refuses until Resume opens one. `clock`
  // is the book's clock; `vfs` is SQLite's file system, null = its default.
  // Errors: kAborted if another process uses the journal; kFailedPrecondition
  // if it has several names.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(
      const std::string& path, std::function<absl::Time()> clock,
      const char* vfs = nullptr);
  ~Journal() override;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Returns the leases that the journal held when it was opened. A new journal
  // is partial.
  const planner::LeaseImage& image() const { return image_; }
  const JournalHistory& history() const { return history_; }
  // Returns the file's path without symbolic links; empty if its folder does
  // not exist.
  const std::string& path() const { return path_; }
  // Checks whether another planner has written its name into the file. This can
  // happen only if this planner has lost the lock. Then nothing is written any
  // more, and is_taken_over() is true. Write does this check by itself.
  void CheckOwner();
  bool is_taken_over() const { return is_taken_over_; }
  // Returns whether the last write reached the disk.
  bool can_write() const { return !has_failed_ && is_open_ && was_good_; }

  // Tries again to open a journal that could not be opened. Returns true if it
  // is open now; image() then has the leases of the file that were not noted
  // meanwhile.
  bool Resume();
  // Stops all writing until the next start, because of `why`.
  void Fail(const absl::Status& why);
  // Ends the recovery of a partial journal: it is whole from now on, with
  // epochs from `next_epoch` on. Errors: kUnavailable.
  absl::Status MarkWhole(int64_t next_epoch);

  absl::Status Write(const planner::LeaseRecord& record,
                     int64_t next_epoch) override;
  void Note(const planner::Lease& lease) override;
  // Writes what was noted. Errors: kUnavailable; the leases stay noted.
  absl::Status Flush();

 private:
  Journal(std::string path, std::function<absl::Time()> clock, const char* vfs);

  // Locks the file and loads it, or a new one in its place.
  // Errors: kAborted and kFailedPrecondition, as Open; kUnavailable if it
  // cannot be used.
  absl::Status Start();
  // Opens, checks and reads. Errors: kDataLoss if the file is not a sound
  // journal; kUnavailable if it cannot be used.
  absl::Status Load();
  absl::Status Begin();  // makes the tables of a new file
  absl::Status Read();
  // In a transaction: reads once more if another planner, which has lost its
  // lock, has written since Load read.
  absl::Status ReadAgainIfChanged();
  absl::Status ReadRows();
  absl::Status RenameAside(const absl::Status& why);
  void Close();

  // The status of a write that fails as if SQLite had returned `code`. It is
  // for failures that SQLite did not report.
  absl::Status FailLike(int code);
  // Converts the result of an SQLite call to a status.
  absl::Status Check(int code);
  absl::Status Run(const char* sql);
  absl::StatusOr<int64_t> QueryInt(const char* sql);
  absl::StatusOr<std::string> QueryText(const char* sql);
  absl::Status Put(const planner::LeaseRecord& record);
  absl::Status PutNoted();
  // Writes a new name for this run, and creates the tables that files of
  // earlier versions lack.
  absl::Status BeginRun();
  // Errors: kAborted if the file has the name of another planner's run.
  absl::Status VerifyNonce();
  // Returns the line of the mark for this journal in state `state`.
  std::string About(absl::string_view state) const;
  // Writes the mark of a journal that is in use.
  absl::Status PutMark();
  // Returns whether this is the journal that was last used here, with its log.
  bool IsTheLatest(bool has_log);
  // Deletes the oldest released leases, if there are too many rows.
  absl::Status Prune();
  absl::Status PutWhole(int64_t next_epoch);
  // Does `work` and writes what was noted, in one transaction.
  // Errors: kUnavailable.
  absl::Status Save(absl::FunctionRef<absl::Status()> work);
  absl::Status Transact(absl::FunctionRef<absl::Status()> work);
  // Forgets the noted leases after a transaction that succeeded, else reports
  // why it failed.
  absl::Status FinishSave(const absl::Status& status);

  const std::string given_path_;
  const std::function<absl::Time()> clock_;
  const char* const vfs_;
  std::string path_;  // without symbolic links
  JournalLock lock_;
  JournalHistory history_;
  sqlite3* db_ = nullptr;
  int last_code_ = SQLITE_OK;
  int64_t n_rows_ = 0;  // an upper bound
  bool is_open_ = false;
  bool has_mark_ = false;     // the mark has its current text
  std::string nonce_;         // the name of this run, for the file
  std::string file_nonce_;    // the name last found in the file
  int64_t read_version_ = 0;  // SQLite's data version when Load read
  bool is_taken_over_ = false;
  bool has_failed_ = false;
  bool was_good_ = true;  // the last write reached the disk
  planner::LeaseImage image_;
  std::map<std::string, planner::Lease> noted_;  // by id
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_JOURNAL_H_
