// Reads a file's pieces. For a device, a thread of its own reads one piece
// ahead of the user.
#ifndef PLIMSOLL_WORKER_DEVICE_READ_AHEAD_H_
#define PLIMSOLL_WORKER_DEVICE_READ_AHEAD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/model_file.h"

namespace plimsoll::worker {

// With a thread there are two buffers, each as large as the largest piece: one
// is filled while the other is in use, so that copying to a device takes no
// time beside the reading. Without a thread, a piece is read when it is asked
// for: threads that pack weights leave a reader no CPU (measured: a reader
// costs 10 of 90 ms of a small model's start on two CPUs). Used from one
// thread.
class ReadAhead {
 public:
  struct Piece {
    int64_t offset;  // in the file
    int64_t bytes;
  };

  // Begins to read if `has_thread`. If the system gives no thread, the object
  // works without one. `file` outlives this object, and only this object reads
  // it meanwhile.
  ReadAhead(ModelFile& file, std::vector<Piece> pieces, bool has_thread);
  // Does not wait for pieces that were not asked for.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Returns the next piece, which must exist. It is valid until the next call.
  // Errors: those of ModelFile::Read, for this and all further pieces.
  absl::StatusOr<std::span<const std::byte>> Next() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  // The buffer of piece i.
  std::span<std::byte> BufferOf(size_t i);

  ModelFile& file_;
  const std::vector<Piece> pieces_;
  bool has_thread_;
  std::array<std::vector<std::byte>, 2> buffers_;
  absl::Mutex mu_;
  size_t n_read_ ABSL_GUARDED_BY(mu_) = 0;
  size_t n_taken_ ABSL_GUARDED_BY(mu_) = 0;  // the last is in use
  absl::Status error_ ABSL_GUARDED_BY(mu_);
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_READ_AHEAD_H_
