// The messages of a stream that wait to be sent.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_PENDING_MESSAGES_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_PENDING_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "services/generation/message_bytes.h"

namespace plimsoll::services {

// The front is being sent, and the rest wait behind it. A message does not move
// until it is popped. Not thread-safe.
template <typename Message>
class PendingMessages {
 public:
  // They have at most kMaxPendingBytes together.
  static constexpr size_t kMaxMessages = 16;

  // Returns whether one more message, of `bytes` bytes on the wire, may wait.
  // One of any size may be the front.
  bool HasRoom(int64_t bytes) const {
    return messages_.empty() || (messages_.size() < kMaxMessages &&
                                 bytes_ + bytes <= kMaxPendingBytes);
  }

  // Adds a message; the last one of a stream needs no room.
  void Push(Message message) {
    const auto bytes = static_cast<int64_t>(message.ByteSizeLong());
    messages_.push_back({std::move(message), bytes});
    bytes_ += bytes;
  }
  void PopFront() {
    bytes_ -= messages_.front().bytes;
    messages_.pop_front();
  }
  void Clear() {
    messages_.clear();
    bytes_ = 0;
  }

  const Message& front() const { return messages_.front().message; }
  bool empty() const { return messages_.empty(); }
  size_t size() const { return messages_.size(); }
  // The bytes of all messages on the wire.
  int64_t bytes() const { return bytes_; }

 private:
  struct Pending {
    Message message;
    int64_t bytes;  // on the wire
  };

  std::deque<Pending> messages_;
  int64_t bytes_ = 0;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_PENDING_MESSAGES_H_
