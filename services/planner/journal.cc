#include "services/planner/journal.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "planner/lease/lease_book.h"
#include "services/host/log.h"
#include "services/host/random_id.h"
#include "services/planner/journal_rows.h"
#include "services/planner/use_mark.h"

namespace plimsoll::services {
namespace {

using planner::JournalFound;

constexpr int kBusyMillis = 1'000;
// This many released rows are deleted at once if there are too many.
constexpr int64_t kPrunedRows = 4'096;

constexpr char kBadSuffix[] = ".bad-";

// Returns true if a journal that was not sound lies beside `path`.
bool HasBadOne(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string prefix = file.filename().string() + kBadSuffix;
  std::error_code error;
  std::filesystem::directory_iterator it(file.parent_path(), error);
  for (; !error && it != std::filesystem::directory_iterator();
       it.increment(error)) {
    if (absl::StartsWith(it->path().filename().string(), prefix)) return true;
  }
  return static_cast<bool>(error);
}

constexpr char kOpen[] = "open";
constexpr char kClosed[] = "closed";

// Returns true if SQLite's log lies beside `path` and is not empty.
bool HasLog(const std::string& path) {
  std::error_code error;
  return std::filesystem::file_size(path + "-wal", error) > 0 && !error;
}

bool IsTransient(int code) {
  const int primary = code & 0xff;
  return primary == SQLITE_FULL || primary == SQLITE_BUSY ||
         primary == SQLITE_LOCKED || primary == SQLITE_NOMEM;
}

}  // namespace

Journal::Journal(std::string path, std::function<absl::Time()> clock,
                 const char* vfs)
    : given_path_(std::move(path)), clock_(std::move(clock)), vfs_(vfs) {}

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(
    const std::string& path, std::function<absl::Time()> clock,
    const char* vfs) {
  auto journal =
      std::unique_ptr<Journal>(new Journal(path, std::move(clock), vfs));
  const absl::Status status = journal->Start();
  if (absl::IsAborted(status) || absl::IsFailedPrecondition(status)) {
    return status;
  }
  if (!status.ok()) {
    journal->history_.found = JournalFound::kUnusable;
    Log(LogLevel::kError,
        "THE JOURNAL CANNOT BE USED, so nothing is granted until it can",
        {{"error", std::string(status.message())}});
  }
  return journal;
}

Journal::~Journal() {
  Flush().IgnoreError();
  const bool is_marked = is_open_ && !has_failed_ && has_mark_;
  Close();
  // If its log is gone, all data is in the file itself.
  if (is_marked && !HasLog(path_) && lock_.Verify(path_).ok()) {
    WriteMark(MarkPath(path_), About(kClosed)).IgnoreError();
  }
}

std::string Journal::About(absl::string_view state) const {
  return absl::StrCat("journal ", lock_.FileId(), " ", nonce_, " ", state);
}

absl::Status Journal::PutMark() {
  absl::Status status = WriteMark(MarkPath(path_), About(kOpen));
  has_mark_ = status.ok();
  return status;
}

bool Journal::IsTheLatest(bool has_log) {
  const std::string about = AboutOfMark(MarkPath(path_));
  if (about == About(kClosed)) return true;
  return about == About(kOpen) && has_log;
}

void Journal::Close() {
  sqlite3_close(db_);
  db_ = nullptr;
}

absl::Status Journal::Start() {
  absl::Status status = Load();
  const bool is_bad = absl::IsDataLoss(status);
  if (is_bad) {
    status = RenameAside(status);
    if (status.ok()) status = Load();
  }
  if (is_bad) history_.found = JournalFound::kBad;
  is_open_ = status.ok();
  if (!is_open_) {
    Close();
    image_ = {};
    image_.is_partial = true;
    return status;
  }
  // The nonce distinguishes this run of the planner from the next one in the
  // file, and shows that the file can be written. If there is no room for it,
  // what was read is valid all the same.
  // A partial journal stays partial until it is whole, even if this run ends
  // before.
  status = Transact([this] {
    RETURN_IF_ERROR(ReadAgainIfChanged());
    RETURN_IF_ERROR(BeginRun());
    if (!image_.is_partial) return absl::OkStatus();
    return Run("UPDATE meta SET is_partial=1");
  });
  was_good_ = status.ok();
  if (was_good_) {
    // A mark that cannot be written now is written before the next grant.
    if (has_mark_) PutMark().IgnoreError();
    return absl::OkStatus();
  }
  has_mark_ = false;
  if (IsTransient(last_code_)) {
    Log(LogLevel::kError,
        "the journal cannot be written, so nothing is granted",
        {{"error", std::string(status.message())}});
    return absl::OkStatus();
  }
  is_open_ = false;
  Close();
  image_ = {};
  image_.is_partial = true;
  return absl::UnavailableError(status.message());
}

bool Journal::Resume() {
  if (is_open_ || has_failed_) return false;
  const absl::Status status = Start();
  if (absl::IsAborted(status) || absl::IsFailedPrecondition(status)) {
    Fail(status);
  }
  if (!status.ok()) return false;
  Log(LogLevel::kInfo, "the journal can be used now");
  image_.is_partial = false;  // the book has recovered since its own start
  std::erase_if(image_.records, [this](const planner::LeaseRecord& record) {
    return noted_.count(record.lease.id) > 0;
  });
  return true;
}

void Journal::Fail(const absl::Status& why) {
  has_failed_ = true;
  noted_.clear();
  Log(LogLevel::kError,
      "THE JOURNAL HAS FAILED; nothing is granted until the planner is "
      "restarted",
      {{"error", std::string(why.message())}});
}

absl::Status Journal::RenameAside(const absl::Status& why) {
  Close();
  std::string aside =
      absl::StrCat(path_, kBadSuffix, absl::ToUnixSeconds(absl::Now()));
  // A file that was set aside is never overwritten.
  while (Exists(aside)) aside += "-again";
  if (std::rename(path_.c_str(), aside.c_str()) != 0) {
    return absl::UnavailableError(absl::StrCat(
        path_, " is not sound and cannot be renamed: ", why.message()));
  }
  Log(LogLevel::kError, "THE JOURNAL IS NOT SOUND and is kept aside",
      {{"file", aside}, {"error", std::string(why.message())}});
  for (const char* suffix : {"-wal", "-shm"}) {
    std::rename((path_ + suffix).c_str(), (aside + suffix).c_str());
  }
  return absl::OkStatus();
}

absl::Status Journal::Check(int code) {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) {
    return absl::OkStatus();
  }
  last_code_ = db_ == nullptr ? code : sqlite3_extended_errcode(db_);
  const std::string text =
      absl::StrCat("SQLite: ", sqlite3_errstr(code), " (", last_code_, ")");
  const int primary = code & 0xff;
  if (primary == SQLITE_NOTADB || primary == SQLITE_CORRUPT ||
      primary == SQLITE_ERROR || primary == SQLITE_CONSTRAINT) {
    return absl::DataLossError(text);
  }
  return absl::UnavailableError(text);
}

absl::Status Journal::FailLike(int code) {
  last_code_ = code;
  return absl::UnavailableError(absl::StrCat("SQLite: ", sqlite3_errstr(code)));
}

absl::Status Journal::Run(const char* sql) {
  return Check(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr));
}

absl::StatusOr<std::string> Journal::QueryText(const char* sql) {
  Statement statement(db_, sql);
  const int code = statement.Step();
  RETURN_IF_ERROR(Check(code));
  if (code != SQLITE_ROW) return absl::DataLossError("a row is missing");
  return statement.Text(0);
}

absl::StatusOr<int64_t> Journal::QueryInt(const char* sql) {
  Statement statement(db_, sql);
  const int code = statement.Step();
  RETURN_IF_ERROR(Check(code));
  if (code != SQLITE_ROW) return absl::DataLossError("a row is missing");
  return statement.Int(0);
}

absl::Status Journal::Load() {
  image_ = {};
  ASSIGN_OR_RETURN(path_, ResolvedPath(given_path_));
  RETURN_IF_ERROR(lock_.Take(path_));
  has_mark_ = Exists(MarkPath(path_));
  const bool has_log = HasLog(path_);
  history_.has_mark |= has_mark_;
  RETURN_IF_ERROR(Check(sqlite3_open_v2(
      path_.c_str(), &db_,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, vfs_)));
  sqlite3_busy_timeout(db_, kBusyMillis);
  // Nothing in a file of unknown origin may run.
  sqlite3_db_config(db_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  ASSIGN_OR_RETURN(const std::string mode,
                   QueryText("PRAGMA journal_mode=WAL"));
  if (mode != "wal") {
    return absl::UnavailableError("the file system has no write-ahead log");
  }
  RETURN_IF_ERROR(Run("PRAGMA synchronous=FULL"));
  ASSIGN_OR_RETURN(const std::string sound, QueryText("PRAGMA quick_check(1)"));
  if (sound != "ok") return absl::DataLossError(sound);
  ASSIGN_OR_RETURN(const int64_t n_tables,
                   QueryInt("SELECT count(*) FROM sqlite_schema"));
  if (n_tables == 0) RETURN_IF_ERROR(Begin());
  ASSIGN_OR_RETURN(read_version_, QueryInt("PRAGMA data_version"));
  RETURN_IF_ERROR(Read());
  if (!image_.is_partial && !IsTheLatest(has_log)) {
    Log(LogLevel::kWarning,
        "the journal is not the one that was last used here, or its log is "
        "lost: there may be leases that it does not know",
        {{"file", path_}});
    image_.is_partial = true;
  }
  if (!image_.is_partial) {
    history_.found = JournalFound::kWhole;
  } else if (HasBadOne(path_)) {
    history_.found = JournalFound::kBad;
  } else {
    // A journal has its tables from the beginning, so an empty file was
    // emptied.
    history_.found =
        lock_.was_found() ? JournalFound::kPartial : JournalFound::kNew;
  }
  // The opened file must be the locked one.
  return lock_.Verify(path_);
}

absl::Status Journal::Begin() {
  return Transact([this] { return Run(kJournalTables); });
}

absl::Status Journal::Read() {
  ASSIGN_OR_RETURN(const int64_t schema, QueryInt("SELECT schema FROM meta"));
  if (schema != kJournalSchema) {
    return absl::DataLossError(absl::StrCat("its schema is ", schema));
  }
  ASSIGN_OR_RETURN(nonce_, QueryText("SELECT boot_nonce FROM meta"));
  file_nonce_ = nonce_;
  ASSIGN_OR_RETURN(image_.next_epoch, QueryInt("SELECT next_epoch FROM meta"));
  ASSIGN_OR_RETURN(const int64_t is_partial,
                   QueryInt("SELECT is_partial FROM meta"));
  image_.is_partial = is_partial != 0;
  ASSIGN_OR_RETURN(const int64_t n_rows,
                   QueryInt("SELECT count(*) FROM lease"));
  if (n_rows > kMaxRows || image_.next_epoch < 1 ||
      image_.next_epoch > planner::LeaseBook::kMaxEpoch) {
    return absl::DataLossError("its numbers make no sense");
  }
  n_rows_ = n_rows;
  RETURN_IF_ERROR(ReadRows());
  return planner::LeaseBook().Restore(image_, clock_());
}

absl::Status Journal::ReadAgainIfChanged() {
  ASSIGN_OR_RETURN(const int64_t version, QueryInt("PRAGMA data_version"));
  if (version == read_version_) return absl::OkStatus();
  const bool was_partial = image_.is_partial;
  image_ = {};
  RETURN_IF_ERROR(Read());
  image_.is_partial |= was_partial;
  return absl::OkStatus();
}

absl::Status Journal::ReadRows() {
  const absl::Time now = clock_();
  const absl::Time wall = absl::Now();
  ASSIGN_OR_RETURN(const int64_t has_secrets, QueryInt(kHasSecrets));
  Statement rows(
      db_, has_secrets != 0 ? kSelectLeases : kSelectLeasesWithoutSecrets);
  while (true) {
    const int code = rows.Step();
    RETURN_IF_ERROR(Check(code));
    if (code == SQLITE_DONE) return absl::OkStatus();
    ASSIGN_OR_RETURN(LeaseRow row, LeaseOfRow(rows));
    const absl::Time granted = absl::FromUnixSeconds(row.granted_wall);
    row.record.lease.granted =
        now - std::max(wall - granted, absl::ZeroDuration());
    image_.records.push_back(std::move(row.record));
  }
}

absl::Status Journal::BeginRun() {
  RETURN_IF_ERROR(Run(kLaterTables));
  const std::string nonce = RandomId();
  RETURN_IF_ERROR(
      Run(absl::StrCat("UPDATE meta SET boot_nonce='", nonce, "'").c_str()));
  nonce_ = nonce;
  return absl::OkStatus();
}

absl::Status Journal::VerifyNonce() {
  ASSIGN_OR_RETURN(const std::string found,
                   QueryText("SELECT boot_nonce FROM meta"));
  if (found == nonce_ || found == file_nonce_) {
    file_nonce_ = found;
    return absl::OkStatus();
  }
  is_taken_over_ = true;
  last_code_ = SQLITE_OK;  // no write will ever succeed
  return absl::AbortedError("another planner has taken the journal over");
}

void Journal::CheckOwner() {
  if (has_failed_ || !is_open_) return;
  const absl::Status status = VerifyNonce();
  if (absl::IsAborted(status)) Fail(status);
}

absl::Status Journal::Prune() {
  if (PLIMSOLL_FAULT("journal.prune")) return FailLike(SQLITE_FULL);
  if (n_rows_ <= kMaxRows) return absl::OkStatus();
  Statement oldest(db_,
                   "DELETE FROM lease WHERE rowid IN (SELECT rowid FROM lease "
                   "WHERE state='RELEASED' ORDER BY epoch, rowid LIMIT max(0, "
                   "(SELECT count(*) FROM lease) - ?1))");
  oldest.Bind(1, kMaxRows - kPrunedRows);
  RETURN_IF_ERROR(Check(oldest.Step()));
  ASSIGN_OR_RETURN(n_rows_, QueryInt("SELECT count(*) FROM lease"));
  return absl::OkStatus();
}

absl::Status Journal::Put(const planner::LeaseRecord& record) {
  if (PLIMSOLL_FAULT("journal.append")) return FailLike(SQLITE_FULL);
  const planner::Lease& lease = record.lease;
  Statement put(db_, kPutLease);
  ++n_rows_;
  BindLease(record, put);
  RETURN_IF_ERROR(Check(put.Step()));
  const bool is_over = lease.state == planner::LeaseState::kReleased;
  if (lease.secret_hash.empty()) return absl::OkStatus();
  Statement secret(db_, is_over ? kDropSecret : kPutSecret);
  secret.Bind(1, lease.id);
  if (!is_over) secret.Bind(2, lease.secret_hash);
  return Check(secret.Step());
}

absl::Status Journal::PutNoted() {
  for (const auto& [id, lease] : noted_) {
    RETURN_IF_ERROR(Put({.lease = lease, .request_id = ""}));
  }
  return absl::OkStatus();
}

absl::Status Journal::Transact(absl::FunctionRef<absl::Status()> work) {
  // An exception of `work` ends the transaction, too.
  absl::Cleanup roll_back = [this] {
    const int code = last_code_;
    sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
    last_code_ = code;
  };
  absl::Status status = Run("BEGIN IMMEDIATE");
  if (status.ok()) status = work();
  if (status.ok() && PLIMSOLL_FAULT("journal.sync")) {
    status = FailLike(SQLITE_IOERR_FSYNC);
  }
  if (status.ok()) status = Run("COMMIT");
  if (status.ok()) std::move(roll_back).Cancel();
  return status;
}

void Journal::Note(const planner::Lease& lease) {
  if (has_failed_) return;
  noted_[lease.id] = lease;
  if (noted_.size() > kMaxNoted) {
    Fail(absl::ResourceExhaustedError("too much waits to be written"));
  }
}

absl::Status Journal::PutWhole(int64_t next_epoch) {
  // Read() would refuse an epoch that is larger.
  if (next_epoch > planner::LeaseBook::kMaxEpoch) {
    return absl::UnavailableError("the epochs are used up");
  }
  Statement meta(
      db_, "UPDATE meta SET is_partial=0, next_epoch=max(next_epoch, ?1)");
  meta.Bind(1, next_epoch);
  RETURN_IF_ERROR(Check(meta.Step()));
  Statement prune(db_, "DELETE FROM lease WHERE state='RELEASED' AND epoch<?1");
  prune.Bind(1, next_epoch - kKeptEpochs);
  return Check(prune.Step());
}

absl::Status Journal::Write(const planner::LeaseRecord& record,
                            int64_t next_epoch) {
  return Save([&] {
    RETURN_IF_ERROR(Put(record));
    return PutWhole(next_epoch);
  });
}

absl::Status Journal::MarkWhole(int64_t next_epoch) {
  return Save([&] { return PutWhole(next_epoch); });
}

absl::Status Journal::Flush() {
  if (has_failed_ || (noted_.empty() && was_good_)) return absl::OkStatus();
  return Save([] { return absl::OkStatus(); });
}

absl::Status Journal::Save(absl::FunctionRef<absl::Status()> work) {
  if (has_failed_ || !is_open_) {
    return absl::UnavailableError("the journal cannot be used");
  }
  absl::Status status = lock_.Verify(path_);
  if (!status.ok()) {
    Fail(status);
    return status;
  }
  last_code_ = SQLITE_FULL;  // the mark's errors pass, as those of a full disk
  if (!was_good_) {
    status = Transact([this] {
      RETURN_IF_ERROR(VerifyNonce());
      return BeginRun();
    });
    has_mark_ = false;
  }
  if (status.ok() && !has_mark_) {
    last_code_ = SQLITE_FULL;
    status = PutMark();
  }
  if (status.ok()) {
    status = Transact([&] {
      RETURN_IF_ERROR(VerifyNonce());
      RETURN_IF_ERROR(PutNoted());
      RETURN_IF_ERROR(work());
      return Prune();
    });
  }
  return FinishSave(status);
}

absl::Status Journal::FinishSave(const absl::Status& status) {
  if (status.ok()) {
    if (!was_good_) Log(LogLevel::kInfo, "the journal can be written again");
    was_good_ = true;
    noted_.clear();
    return status;
  }
  if (!IsTransient(last_code_)) {
    Fail(status);
  } else if (was_good_) {
    Log(LogLevel::kError,
        "the journal cannot be written, so nothing is granted",
        {{"error", std::string(status.message())}});
  }
  was_good_ = false;
  return absl::UnavailableError("the journal cannot be written");
}

}  // namespace plimsoll::services
