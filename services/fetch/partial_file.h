// A file that is being fetched. It keeps the received bytes if the transfer
// breaks off, belongs to one process at a time, and gets its name when it is
// complete.
#ifndef PLIMSOLL_SERVICES_FETCH_PARTIAL_FILE_H_
#define PLIMSOLL_SERVICES_FETCH_PARTIAL_FILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/fetch/digest.h"

namespace plimsoll::fetch {

// The origin of a partial file's bytes. It lies beside the partial file, as
// JSON.
struct PartialOrigin {
  std::string url;     // source of the bytes, without a query
  std::string etag;    // a strong ETag, or empty
  std::string sha256;  // expected digest of the whole file, or empty
  int64_t bytes = -1;  // size of the whole file; -1: unknown

  bool operator==(const PartialOrigin&) const = default;
};

// The file "folder/.NAME.part", and "folder/.NAME.part.json" with its origin.
// The lock is on the inode, so this process notices if another process renames
// or removes the partial file while this process waits. Not thread-safe.
class PartialFile {
 public:
  // Opens or creates the partial file of folder/name (`name` is checked), and
  // waits while another process has it. `wait` is called repeatedly during this
  // time; its error ends the wait and is the result. Errors:
  // kFailedPrecondition if the partial file cannot be made or is no plain file.
  static absl::StatusOr<std::unique_ptr<PartialFile>> Open(
      const std::string& folder, const std::string& name,
      const std::function<absl::Status()>& wait);
  // Keeps a partial file with bytes, and removes an empty one.
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::string& path() const { return path_; }
  const std::string& target() const { return target_; }
  int64_t size() const { return size_; }
  const PartialOrigin& origin() const { return origin_; }

  // Writes down the origin of the partial file. Errors: those of Append.
  absl::Status SetOrigin(PartialOrigin origin);
  // Reserves room for a file of `bytes`, if the file system can.
  // Errors: kResourceExhausted if there is no room.
  absl::Status Reserve(int64_t bytes);
  // Errors: kResourceExhausted if the disk is full; kDataLoss.
  absl::Status Append(absl::string_view bytes);
  // Forgets all bytes. Errors: kDataLoss.
  absl::Status Restart();
  // The SHA-256 of all bytes as hex. It reads the bytes that existed when the
  // file was opened, and calls `check` in between.
  // Errors: kDataLoss; those of `check`.
  absl::StatusOr<std::string> Digest(
      const std::function<absl::Status()>& check);
  // Removes the partial file.
  void Discard();
  // Waits until the bytes are on the disk, and gives the file its name.
  // Errors: kAlreadyExists if the name is taken and `overwrites` is false;
  // those of Append.
  absl::Status Commit(bool overwrites);

 private:
  PartialFile(std::string path, std::string target, int fd, int64_t size);

  void ReadOrigin();

  const std::string path_;
  const std::string target_;
  const int fd_;
  int64_t size_;
  PartialOrigin origin_;
  Sha256 hash_;
  int64_t n_hashed_ = 0;  // number of first bytes in hash_
  bool is_done_ = false;  // committed or discarded
};

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_PARTIAL_FILE_H_
