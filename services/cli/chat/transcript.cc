#include "services/cli/chat/transcript.h"

#include <algorithm>
#include <utility>

namespace plimsoll::cli {
namespace {

// What an id takes in memory.
constexpr int64_t kIdBytes = sizeof(uint32_t);

int64_t TurnBytes(const ChatTurn& turn) {
  return static_cast<int64_t>(sizeof(ChatTurn) + turn.message.size() +
                              turn.reply.size()) +
         kIdBytes * static_cast<int64_t>(turn.reply_ids.size());
}

void AddTurn(const ChatTurn& turn, v1::SessionTurn& added) {
  added.set_message(turn.message);
  if (turn.reply_ids.empty()) {
    added.set_text(turn.reply);
    return;
  }
  *added.mutable_tokens()->mutable_ids() = {turn.reply_ids.begin(),
                                            turn.reply_ids.end()};
}

}  // namespace

int64_t Transcript::Add(ChatTurn turn) {
  turns.push_back(std::move(turn));
  int64_t bytes = 0;
  for (const ChatTurn& one : turns) bytes += TurnBytes(one);
  int64_t n_forgotten = 0;
  while (turns.size() > 1 && (turns.size() > kMaxTurns || bytes > kMaxBytes)) {
    bytes -= TurnBytes(turns.front());
    turns.pop_front();
    ++n_forgotten;
  }
  return n_forgotten;
}

void AddTurns(const Transcript& transcript, v1::OpenSessionRequest& request) {
  if (transcript.system.has_value()) request.set_system(*transcript.system);
  std::vector<v1::SessionTurn> turns;
  int64_t bytes = 0;
  for (auto turn = transcript.turns.rbegin();
       turn != transcript.turns.rend() &&
       turns.size() < Transcript::kMaxSentTurns;
       ++turn) {
    v1::SessionTurn added;
    AddTurn(*turn, added);
    bytes += static_cast<int64_t>(added.ByteSizeLong());
    if (bytes > Transcript::kMaxSentBytes) break;
    turns.push_back(std::move(added));
  }
  std::reverse(turns.begin(), turns.end());
  for (v1::SessionTurn& turn : turns) *request.add_turns() = std::move(turn);
}

}  // namespace plimsoll::cli
