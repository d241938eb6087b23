// A buffer of pinned memory is written again only after it has been copied.
#include "kernels/cuda/staging.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

Staging::~Staging() {
  for (const Event event : left_) DestroyEvent(event);
  FreePinned(host_);
}

absl::Status Staging::Open(std::byte* device, Stream stream) {
  device_ = device;
  stream_ = stream;
  ASSIGN_OR_RETURN(host_, AllocatePinned(kBytes));
  for (Event& event : left_) {
    ASSIGN_OR_RETURN(event, NewEvent());
  }
  return absl::OkStatus();
}

absl::Status Staging::EnterNextBuffer() {
  RETURN_IF_ERROR(Record(left_[static_cast<size_t>(buffer_)], stream_));
  buffer_ = (buffer_ + 1) % kBuffers;
  used_ = 0;
  return WaitFor(left_[static_cast<size_t>(buffer_)]);
}

absl::StatusOr<const std::byte*> Staging::Put(std::span<const std::byte> host) {
  const auto bytes = static_cast<int64_t>(host.size());
  if (bytes > kBufferBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "an operation's table of ", bytes, " bytes; at most ", kBufferBytes));
  }
  if (bytes == 0) return device_;
  if (used_ + bytes > kBufferBytes) RETURN_IF_ERROR(EnterNextBuffer());
  const int64_t at = buffer_ * kBufferBytes + used_;
  std::memcpy(host_ + at, host.data(), host.size());
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  RETURN_IF_ERROR(CopyToDevice(host_ + at, device_ + at, bytes, stream_));
  return device_ + at;
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
