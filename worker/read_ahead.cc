#include "worker/read_ahead.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace plimsoll::worker {

ReadAhead::ReadAhead(ModelFile& file, std::vector<Piece> pieces)
    : file_(file), pieces_(std::move(pieces)) {
  int64_t largest = 0;
  for (const Piece& piece : pieces_) largest = std::max(largest, piece.bytes);
  for (auto& buffer : buffers_) buffer.resize(static_cast<size_t>(largest));
  thread_ = std::thread([this] { Loop(); });
}

ReadAhead::~ReadAhead() {
  {
    absl::MutexLock lock(&mu_);
    is_stopping_ = true;
  }
  thread_.join();
}

absl::StatusOr<std::span<const std::byte>> ReadAhead::Next() {
  absl::MutexLock lock(&mu_);
  PLIMSOLL_CHECK(n_taken_ < pieces_.size(), "there is another piece");
  const size_t i = n_taken_++;
  const auto is_there = [this, i]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return n_read_ > i || !error_.ok();
  };
  mu_.Await(absl::Condition(&is_there));
  if (n_read_ <= i) return error_;
  return std::span<const std::byte>(buffers_[i % 2])
      .first(static_cast<size_t>(pieces_[i].bytes));
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
    const std::span<std::byte> to =
        std::span(buffers_[i % 2]).first(static_cast<size_t>(pieces_[i].bytes));
    const absl::Status status = file_.Read(pieces_[i].offset, to);
    absl::MutexLock lock(&mu_);
    if (!status.ok()) {
      error_ = status;
      return;
    }
    ++n_read_;
  }
}

}  // namespace plimsoll::worker
