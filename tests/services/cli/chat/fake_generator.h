// A worker of sessions for tests: it remembers what it was asked, and its
// replies say what they answer.
#ifndef PLIMSOLL_TESTS_SERVICES_CLI_CHAT_FAKE_GENERATOR_H_
#define PLIMSOLL_TESTS_SERVICES_CLI_CHAT_FAKE_GENERATOR_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cli/backends/generator.h"
#include "services/cli/terminal/failure.h"
#include "services/generation/call_errors.h"
#include "services/generation/generation.h"

namespace plimsoll::cli {

class FakeGenerator final : public Generator {
 public:
  // One turn in the context of a session.
  struct Turn {
    std::string message;
    std::string reply;  // as text, or "ids: ..."
  };
  struct OpenChat {
    std::optional<std::string> system;
    std::vector<Turn> turns;
  };

  // Sessions by id. Tests may change them.
  std::map<std::string, OpenChat> sessions;
  std::vector<uint64_t> seeds;  // seeds of all calls
  int64_t max_turns = 1'000;    // turns that a new session has room for
  // If set, the next call to open a session, or the next reply, fails with it;
  // a reply after its first part.
  absl::Status open_error;
  bool open_reply_is_lost = false;  // the next session is opened nevertheless
  absl::Status reply_error;
  // After so many sessions one is not opened; negative: all are.
  int64_t fails_to_open_after = -1;
  std::string refuses_second;    // a message that is taken only once
  std::string recompute_reason;  // all sessions have it
  std::string reasoning;         // at the beginning of each reply

  absl::StatusOr<std::unique_ptr<ReplyStream>> Start(
      const v1::StreamGenerateRequest&) override {
    return absl::UnimplementedError("a chat needs none");
  }

  absl::StatusOr<v1::Session> OpenSession(
      const v1::OpenSessionRequest& request) override {
    if (!open_error.ok()) return std::exchange(open_error, absl::OkStatus());
    if (fails_to_open_after-- == 0) {
      return absl::ResourceExhaustedError("no room");
    }
    const std::string id = request.session_id().empty()
                               ? absl::StrCat("made-", ++n_made_)
                               : request.session_id();
    if (sessions.contains(id)) {
      return absl::AlreadyExistsError("there is a session with this id");
    }
    OpenChat& chat = sessions[id];
    if (request.has_system()) chat.system = request.system();
    for (const v1::SessionTurn& turn : request.turns()) {
      std::string reply = turn.text();
      for (const uint32_t token : turn.tokens().ids()) {
        reply = absl::StrCat(reply.empty() ? "ids:" : reply, " ", token);
      }
      chat.turns.push_back({turn.message(), reply});
    }
    while (static_cast<int64_t>(chat.turns.size()) > max_turns) {
      chat.turns.erase(chat.turns.begin());
    }
    if (std::exchange(open_reply_is_lost, false)) {
      return absl::UnavailableError("no reply came");
    }
    return Described(id);
  }

  absl::StatusOr<v1::Session> GetSession(
      const v1::GetSessionRequest& request) override {
    if (!sessions.contains(request.session_id())) return Gone();
    return Described(request.session_id());
  }

  absl::StatusOr<std::unique_ptr<ReplyStream>> Chat(
      const v1::ChatRequest& request) override {
    const auto session = sessions.find(request.session_id());
    if (session == sessions.end()) return Gone();
    if (request.message() == "too long") {
      return absl::OutOfRangeError("the message does not fit");
    }
    if (request.message() == refuses_second && !seeds.empty()) {
      return absl::UnavailableError("refused");
    }
    seeds.push_back(request.sampling().seed());
    const std::string reply = absl::StrCat("re: ", request.message());
    session->second.turns.push_back({request.message(), reply});
    return std::make_unique<Reply>(
        reasoning, reply, std::exchange(reply_error, absl::OkStatus()));
  }

  absl::Status CloseSession(const v1::CloseSessionRequest& request) override {
    return sessions.erase(request.session_id()) > 0 ? absl::OkStatus() : Gone();
  }

  absl::StatusOr<v1::GetMemoryResponse> GetMemory(
      const v1::GetMemoryRequest&) override {
    v1::GetMemoryResponse response;
    response.set_model("fake.gguf");
    response.mutable_measured()->set_planned_bytes(1'234);
    return response;
  }

 private:
  // Two parts of text with one token each, 7 and 8.
  class Reply final : public ReplyStream {
   public:
    Reply(const std::string& reasoning, const std::string& text,
          absl::Status error)
        : reasoning_(reasoning), text_(text), error_(std::move(error)) {}

    absl::StatusOr<std::optional<v1::StreamGenerateResponse>> Next() override {
      v1::StreamGenerateResponse part;
      const int step = step_++;
      if (step == 0) {
        part.mutable_prompt()->set_model("fake.gguf");
        part.set_reasoning(reasoning_);
      }
      if (step == 1 && !error_.ok()) return error_;
      if (step > 1) return std::nullopt;
      const size_t half = text_.size() / 2;
      part.set_text(step == 0 ? text_.substr(0, half) : text_.substr(half));
      part.add_tokens()->set_id(static_cast<uint32_t>(7 + step));
      if (step == 1) {
        part.mutable_finish()->mutable_usage()->set_generated_tokens(2);
        part.mutable_finish()->mutable_timing()->set_decode_tokens_per_s(12.5);
      }
      return part;
    }

   private:
    const std::string reasoning_;
    const std::string text_;
    const absl::Status error_;
    int step_ = 0;
  };

  static absl::Status Gone() {
    return services::SessionStatus(absl::NotFoundError("no such session"));
  }

  v1::Session Described(const std::string& id) {
    v1::Session session;
    session.set_session_id(id);
    session.set_model("fake.gguf");
    const auto n = static_cast<uint32_t>(sessions[id].turns.size());
    session.set_turns(n);
    session.set_live_turns(n);
    session.set_live_tokens(100 * n);
    session.set_capacity_tokens(4'096);
    session.set_reserved_bytes(1 << 20);
    session.set_recompute_reason(recompute_reason);
    return session;
  }

  int n_made_ = 0;
};

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_TESTS_SERVICES_CLI_CHAT_FAKE_GENERATOR_H_
