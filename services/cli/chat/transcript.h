// The turns of a chat, as the user knows them.
#ifndef PLIMSOLL_SERVICES_CLI_CHAT_TRANSCRIPT_H_
#define PLIMSOLL_SERVICES_CLI_CHAT_TRANSCRIPT_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/v1/session.pb.h"

namespace plimsoll::cli {

// A user's message with its reply.
struct ChatTurn {
  std::string message;
  std::string reply;
  // The reply's own tokens; empty if only its text is known.
  std::vector<uint32_t> reply_ids = {};
};

struct Transcript {
  // A chat has no limit, but its transcript has these limits. Beyond them the
  // oldest turns are forgotten.
  static constexpr size_t kMaxTurns = 16'384;
  static constexpr int64_t kMaxBytes = int64_t{64} << 20;
  // The most turns, and their most bytes, that one request repeats. A message
  // of gRPC has 4 MiB.
  static constexpr size_t kMaxSentTurns = 2'048;
  static constexpr int64_t kMaxSentBytes = int64_t{3} << 20;

  std::optional<std::string> system;  // absent: the chat format's own
  std::deque<ChatTurn> turns;         // the oldest first

  // Adds a turn. Returns the number of oldest turns that were forgotten.
  int64_t Add(ChatTurn turn);
};

// Adds to `request` the system message, and as many of the newest turns as a
// request may have.
void AddTurns(const Transcript& transcript, v1::OpenSessionRequest& request);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_CHAT_TRANSCRIPT_H_
