#include "worker/device/read_ahead.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "kernels/start_thread.h"

namespace plimsoll::worker {

ReadAhead::ReadAhead(ModelFile& file, std::vector<Piece> pieces,
                     bool has_thread)
    : file_(file), pieces_(std::move(pieces)), has_thread_(has_thread) {
  int64_t largest = 0;
  for (const Piece& piece : pieces_) largest = std::max(largest, piece.bytes);
  buffers_[0].resize(static_cast<size_t>(largest));
  if (!has_thread_) return;
  buffers_[1].resize(static_cast<size_t>(largest));
  auto thread = kernels::StartThread([this] { Loop(); });
  if (thread.ok()) {
    thread_ = *std::move(thread);
  } else {
    has_thread_ = false;  // not written where the thread reads it
  }
}

ReadAhead::~ReadAhead() {
  {
    absl::MutexLock lock(&mu_);
    is_stopping_ = true;
  }
  if (has_thread_) thread_.join();
}

std::span<std::byte> ReadAhead::BufferOf(size_t i) {
  std::vector<std::byte>& buffer = buffers_[has_thread_ ? i % 2 : 0];
  return std::span(buffer).first(static_cast<size_t>(pieces_[i].bytes));
}

absl::StatusOr<std::span<const std::byte>> ReadAhead::Next() {
  absl::MutexLock lock(&mu_);
  PLIMSOLL_CHECK(n_taken_ < pieces_.size(), "there is another piece");
  const size_t i = n_taken_++;
  if (!has_thread_) {
    if (error_.ok()) error_ = file_.Read(pieces_[i].offset, BufferOf(i));
    if (!error_.ok()) return error_;
    return BufferOf(i);
  }
  const auto is_there = [this, i]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return n_read_ > i || !error_.ok();
  };
  mu_.Await(absl::Condition(&is_there));
  if (n_read_ <= i) return error_;
  return BufferOf(i);
}

void ReadAhead::Loop() {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    {
      absl::MutexLock lock(&mu_);
      // The piece that was in this buffer is not in use any more.
      const auto is_free = [this, i]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return is_stopping_ || n_taken_ + 1 > i;
      };
      mu_.Await(absl::Condition(&is_free));
      if (is_stopping_) return;
    }
    const absl::Status status = file_.Read(pieces_[i].offset, BufferOf(i));
    absl::MutexLock lock(&mu_);
    if (!status.ok()) {
      error_ = status;
      return;
    }
    ++n_read_;
  }
}

}  // namespace plimsoll::worker
