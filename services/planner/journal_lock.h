// The journal lock identifies a journal's file, and keeps other processes from
// using it.
#ifndef PLIMSOLL_SERVICES_PLANNER_JOURNAL_LOCK_H_
#define PLIMSOLL_SERVICES_PLANNER_JOURNAL_LOCK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace plimsoll::services {

// Returns the path of the file that `path` means, without symbolic links. The
// folder must exist; the file need not exist. SQLite keeps the write-ahead log
// beside this path. Errors: kUnavailable (no such folder; links in a circle).
absl::StatusOr<std::string> ResolvedPath(const std::string& path);

// It locks a file's inode and not its name, so a symbolic link, a hard link or
// another name of the same file meets the same lock. flock does not conflict
// with the record locks of SQLite.
//
// The file stays open until the lock ends. It must outlive SQLite's handle:
// closing any descriptor of a file drops the record locks of the process on it.
class JournalLock {
 public:
  JournalLock() = default;  // holds no file
  ~JournalLock() { Release(); }
  JournalLock(const JournalLock&) = delete;
  JournalLock& operator=(const JournalLock&) = delete;

  // Locks the file at `path` (a resolved path), and creates a missing file.
  // Releases a lock that was held before. Errors: kAborted if another process
  // holds the file; kFailedPrecondition if it has a second name (a planner that
  // opens it by that name would look for the log beside that name);
  // kUnavailable if it cannot be opened.
  absl::Status Take(const std::string& path);
  // Returns an id of the held file that is unique in its folder; empty if none
  // is held.
  std::string FileId() const;
  // Returns whether Take found the file rather than made it.
  bool was_found() const { return was_found_; }
  // Checks that `path` still is the locked file. Errors: kUnavailable.
  absl::Status Verify(const std::string& path) const;
  void Release();

 private:
  int fd_ = -1;
  bool was_found_ = false;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_JOURNAL_LOCK_H_
