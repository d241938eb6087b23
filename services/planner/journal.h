// The lease book's journal: one SQLite file, written before anything is
// answered.
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

// What a start found in a journal's place.
struct JournalHistory {
  planner::JournalFound found = planner::JournalFound::kNew;
  bool has_mark = false;  // an earlier planner has used this place
};

// Tables `lease` (a row a lease, released ones for a while) and `meta` (one
// row), in WAL mode with synchronous=FULL. One planner at a time: it holds a
// lock on the file, whatever its name. A mark beside it (MarkPath) says that it
// was used.
//
// Once a write has failed for another reason than a full or busy disk, nothing
// is written any more until the next start: after a failed fsync nobody knows
// what is on the disk. The same if the file is moved away. Not thread-safe.
class Journal final : public planner::LeaseJournal {
 public:
  // Released leases that are kept, counted in epochs, so that late calls about
  // them are answered after a restart too.
  static constexpr int64_t kKeptEpochs = 4'096;
  // Rows that are read at most; a file with more is not ours.
  static constexpr int64_t kMaxRows = 131'072;
  // Leases that wait to be written while that is not possible. One more, and
  // nothing is written until the next start.
  static constexpr size_t kMaxNoted = 131'072;

  // Opens or makes the file at `path`. What is not a sound journal is renamed
  // to PATH.bad-SECONDS, with a loud log line, and a new one is begun. If no
  // journal can be had, its Write refuses until Resume finds one. `clock` is
  // that of the book; `vfs` is SQLite's file system, null = its default.
  // Errors: kFailedPrecondition if another process uses the journal, or if it
  // has several names.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(
      const std::string& path, std::function<absl::Time()> clock,
      const char* vfs = nullptr);
  ~Journal() override;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // What it held when it was opened. Partial if it is new.
  const planner::LeaseImage& image() const { return image_; }
  const JournalHistory& history() const { return history_; }
  // Where the file is, without symbolic links; empty if there is no folder.
  const std::string& path() const { return path_; }
  // Whether the last write was one.
  bool can_write() const { return !has_failed_ && is_open_ && was_good_; }

  // If it could not be opened: tries again. True if it is open from now on, and
  // image() then is what it holds of leases of which nothing was noted.
  bool Resume();
  // Nothing is written any more until the next start, because of `why`.
  void Fail(const absl::Status& why);
  // The recovery of a partial journal is over: from here on it is whole, with
  // epochs from `next_epoch` on. Errors: kUnavailable.
  absl::Status MarkWhole(int64_t next_epoch);

  absl::Status Write(const planner::LeaseRecord& record,
                     int64_t next_epoch) override;
  void Note(const planner::Lease& lease) override;
  // Writes what was noted. Errors: kUnavailable; it stays noted.
  absl::Status Flush();

 private:
  Journal(std::string path, std::function<absl::Time()> clock, const char* vfs);

  // Locks the file and loads it, or a new one in its place.
  // Errors: kFailedPrecondition, as Open; kUnavailable if it cannot be used.
  absl::Status Start();
  // Opens, checks and reads. Errors: kDataLoss if the file is not a sound
  // journal; kUnavailable if it cannot be used.
  absl::Status Load();
  absl::Status Begin();  // a new file
  absl::Status Read();
  absl::Status ReadRows();
  absl::Status RenameAside(const absl::Status& why);
  void Close();

  // The outcome of a call of SQLite.
  absl::Status Check(int code);
  absl::Status Run(const char* sql);
  absl::StatusOr<int64_t> QueryInt(const char* sql);
  absl::StatusOr<std::string> QueryText(const char* sql);
  absl::Status Put(const planner::Lease& lease, const std::string& request_id);
  absl::Status PutNoted();
  absl::Status PutNonce();
  // What the mark says of the journal that was last used here, and in which
  // state its planner left it.
  std::string About(absl::string_view state) const;
  absl::Status PutMark();
  // Whether it is the journal that was last used here, with its log.
  bool IsTheLatest(bool has_log);
  // Deletes the oldest released leases, if there are too many rows.
  absl::Status Prune();
  absl::Status PutWhole(int64_t next_epoch);
  // `work` and what was noted in one transaction. Errors: kUnavailable.
  absl::Status Save(absl::FunctionRef<absl::Status()> work);
  absl::Status Transact(absl::FunctionRef<absl::Status()> work);
  // After a transaction: forgets what was noted, or says how it failed.
  absl::Status Settle(const absl::Status& status);

  const std::string given_path_;
  const std::function<absl::Time()> clock_;
  const char* const vfs_;
  std::string path_;  // without symbolic links
  JournalLock lock_;
  JournalHistory history_;
  sqlite3* db_ = nullptr;
  int last_code_ = SQLITE_OK;
  int64_t n_rows_ = 0;  // at most so many
  bool is_open_ = false;
  bool has_mark_ = false;  // as it is to be
  std::string nonce_;      // of the last run that is in the file
  bool has_failed_ = false;
  bool was_good_ = true;  // the last write
  planner::LeaseImage image_;
  std::map<std::string, planner::Lease> noted_;  // by id
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_JOURNAL_H_
