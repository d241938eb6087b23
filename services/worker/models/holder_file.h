// A file by which the next process of a worker proves that this one has ended,
// where nobody else can see that, as between two containers.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_HOLDER_FILE_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_HOLDER_FILE_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/host/process_identity.h"

namespace plimsoll::services {

// What a worker knows of its earlier processes.
struct HolderHistory {
  std::string secret;  // secret of the leases of all of them; empty: a new one
  // They have ended for certain, and may have left leases. The oldest is first.
  std::vector<ProcessIdentity> former;
};

// A file with the secret of a worker's leases and the processes that used it.
// A process locks the file for its whole life, and the kernel undoes the lock
// when the last of its threads has ended. So whoever has the lock knows that
// every process in the file has ended, whatever the namespaces and containers
// of these processes are.
//
// The proof does not depend on anybody's good conduct with the file:
// - a file that was removed takes its secret along;
// - a copy is another file, which does not count: it says which file it was;
// - processes of another boot do not count: the file may have moved to another
//   host, whose kernel cannot see the lock of the first one.
class HolderFile {
 public:
  // The file has the last processes; older ones are forgotten.
  static constexpr size_t kMaxFormer = 8;
  static constexpr size_t kMaxBytes = 4'096;

  // Locks the file, makes it if there is none, and adds the process `own`, if
  // it is known. A file that makes no sense is written anew.
  // Errors: kAborted if another process has it locked;
  // kInvalidArgument if it cannot be opened, or is no regular file;
  // kUnavailable if it cannot be read or written.
  static absl::StatusOr<std::unique_ptr<HolderFile>> Open(
      const std::string& path, const std::optional<ProcessIdentity>& own);
  // Unlocks the file. The process must hold no lease's memory any more, or be
  // about to end.
  ~HolderFile();
  HolderFile(const HolderFile&) = delete;
  HolderFile& operator=(const HolderFile&) = delete;

  const HolderHistory& history() const { return history_; }

 private:
  explicit HolderFile(std::string path) : path_(std::move(path)) {}
  absl::Status Lock();
  // Reads what earlier processes wrote; nothing if it does not count here.
  absl::Status Read(const std::optional<ProcessIdentity>& own);
  absl::Status Write(const std::optional<ProcessIdentity>& own);

  const std::string path_;
  int fd_ = -1;
  std::string file_id_;  // the file's device and inode
  HolderHistory history_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_HOLDER_FILE_H_
