// Puts a message together from the lines that a user types.
#ifndef PLIMSOLL_SERVICES_CLI_CHAT_MESSAGE_LINES_H_
#define PLIMSOLL_SERVICES_CLI_CHAT_MESSAGE_LINES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::cli {

// A message is one line. A line that ends with a backslash continues in the
// next line. A line that begins with three quotation marks begins a block. A
// block takes all lines unchanged, up to a line that ends with three quotation
// marks.
class MessageLines {
 public:
  // The most bytes of one message.
  static constexpr int64_t kMaxBytes = int64_t{16} << 20;

  // Adds a line, without its line feed. Returns true if the message is whole.
  // Errors: kInvalidArgument beyond kMaxBytes; the message is dropped.
  absl::StatusOr<bool> Add(absl::string_view line);

  // True if a message has begun and is not whole yet.
  bool IsOpen() const { return state_ != State::kNone; }
  void Clear();

  struct Message {
    std::string text;  // without blanks around it, unless it is a block
    bool is_block;     // the text is for the model, even if it begins with "/"
  };
  // Takes the complete message.
  Message Take();

 private:
  enum class State { kNone, kGoesOn, kBlock };

  // Appends to the message, on a line of its own if it is not the first.
  void Append(absl::string_view line);
  bool AddToBlock(absl::string_view line);

  std::string text_;
  State state_ = State::kNone;
  bool has_lines_ = false;
  bool is_block_ = false;
};

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_CHAT_MESSAGE_LINES_H_
