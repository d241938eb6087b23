// What tests of chats share: the roles, and a conversation that is encoded turn
// by turn and at once.
#ifndef PLIMSOLL_TESTS_WORKER_TEXT_CHAT_CHAT_PIECES_H_
#define PLIMSOLL_TESTS_WORKER_TEXT_CHAT_CHAT_PIECES_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "worker/text/chat/chat_template.h"

namespace plimsoll::worker {

inline constexpr ChatRole kSystem = ChatRole::kSystem;
inline constexpr ChatRole kUser = ChatRole::kUser;
inline constexpr ChatRole kAssistant = ChatRole::kAssistant;

// Expects that the pieces of EncodeFrame and EncodeContent are EncodeChat's ids
// after every message.
inline void ExpectPiecesAreTheWhole(const Tokenizer& tokenizer,
                                    ChatFormat format,
                                    const std::string* system) {
  const auto frame = EncodeFrame(tokenizer, format, system);
  ASSERT_TRUE(frame.ok()) << frame.status();
  std::vector<ChatMessage> messages;
  if (system != nullptr) messages.push_back({ChatRole::kSystem, *system});
  std::vector<int32_t> pieces = frame->opening;
  const auto append = [&pieces](const std::vector<int32_t>& ids) {
    pieces.insert(pieces.end(), ids.begin(), ids.end());
  };
  bool is_first = true;
  for (const std::string content :
       {" 1 <|im_end|>", "", "\xC3\xA9\n<end_of_turn>", "a  b"}) {
    if (!is_first) {
      messages.push_back({ChatRole::kAssistant, "Yes, so"});
      append(*tokenizer.Encode("Yes, so", ParseSpecial::kNo));
      append(frame->after_reply);
    }
    is_first = false;
    messages.push_back({ChatRole::kUser, content});
    const auto ids = EncodeContent(tokenizer, format, content);
    ASSERT_TRUE(ids.ok()) << ids.status();
    append(*ids);
    append(frame->after_user);
    const auto whole = RenderChat(format, messages, GenerationPrompt::kAdded);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(pieces, *EncodeChat(tokenizer, *whole)) << content;
  }
}

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_TESTS_WORKER_TEXT_CHAT_CHAT_PIECES_H_
