// A chat in a session of a generator. Its turns can be taken back.
#ifndef PLIMSOLL_SERVICES_CLI_CHAT_CONVERSATION_H_
#define PLIMSOLL_SERVICES_CLI_CHAT_CONVERSATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "plimsoll/v1/generation.pb.h"
#include "plimsoll/v1/session.pb.h"
#include "services/cli/backends/generator.h"
#include "services/cli/chat/transcript.h"
#include "services/cli/flags/roll_flags.h"

namespace plimsoll::cli {

// How a chat's session is opened.
struct ConversationOptions {
  std::string model;
  // The user's name for the session; empty: ends with the chat.
  std::string session;
  std::string chat_format;
  SessionRollFlags roll;
};

// The kind of a piece of a reply.
enum class ReplyPiece { kReasoning, kAnswer };
using OnReplyPiece = absl::FunctionRef<void(ReplyPiece, absl::string_view)>;

// The answer to a message.
struct ChatReply {
  absl::Status status;     // how the call ended
  bool was_taken = false;  // the message and its reply are in the chat
  v1::GenerateResponse response = {};  // set if status is ok
};

// A session cannot be cut. To take turns back, it is closed and opened again
// with the turns that stay, each reply with its own tokens. So the context
// equals that of a chat without the other turns. Not thread-safe.
class Conversation {
 public:
  // `generator` outlives the object.
  Conversation(ConversationOptions options, Generator& generator)
      : options_(std::move(options)), generator_(generator) {}
  // Closes the session, unless the user has named it.
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  // Opens the session with this system message and no turns, or continues the
  // session with the user's name, which keeps its own instructions.
  absl::Status Begin(std::optional<std::string> system);

  // Sends a message. `how` has the options of a request. `on_piece` gets the
  // pieces of the reply as they arrive, with the reasoning if the worker
  // separates it. A session that the worker has closed meanwhile is opened
  // again.
  ChatReply Say(const std::string& message,
                const v1::StreamGenerateRequest& how, OnReplyPiece on_piece);

  // Opens a session with the turns of `next` in place of the present session.
  // Errors: those of OpenSession; the chat is then unchanged.
  absl::Status Replace(Transcript next);
  // The turns since the chat began here.
  const Transcript& transcript() const { return transcript_; }
  // True if the session with the user's name existed before. Its instructions
  // and earlier turns are not known here and not in transcript().
  bool was_taken_up() const { return was_taken_up_; }
  int64_t n_unknown_turns() const { return n_unknown_; }

  absl::StatusOr<v1::Session> Info();
  const std::string& model() const { return options_.model; }
  // The model's name as the generator knows it.
  const std::string& model_name() const { return model_name_; }
  // Returns the messages for the user since the last call, and forgets them.
  std::vector<std::string> TakeNotes() { return std::exchange(notes_, {}); }

 private:
  // The longest time that a cancelled call of the session may take to end.
  static constexpr absl::Duration kMaxCancel = absl::Seconds(10);

  absl::Status Open();
  absl::Status Close();
  absl::Status Reopen();
  // Waits until the session has no call.
  void AwaitIdle();
  ChatReply SayOnce(const std::string& message,
                    const v1::StreamGenerateRequest& how,
                    OnReplyPiece on_piece);
  void Keep(ChatTurn turn);
  // Adds a note that a session recomputes, with the reason, unless it was
  // shown.
  void NoteRecompute(const v1::Session& session);

  const ConversationOptions options_;
  Generator& generator_;
  Transcript transcript_;
  bool was_taken_up_ = false;
  int64_t n_unknown_ = 0;
  std::string id_;  // empty while no session is open
  // The call that opens a session broke off. The session may exist
  // nevertheless.
  bool may_be_open_ = false;
  bool was_cut_ = false;  // the last call was not read to its end
  std::string model_name_;
  std::string recompute_reason_;  // reason of the newest session
  std::vector<std::string> notes_;
};

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_CHAT_CONVERSATION_H_
