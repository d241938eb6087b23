// Sessions of a model whose chat is rendered by its own template.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/wire/errors.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

using Ids = std::vector<uint32_t>;

// No built-in format: roles have colons, and contents are trimmed.
constexpr char kTurns[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}:\n"
    "{{ m.content | trim }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant:\n{% endif %}";
std::unique_ptr<TestWorker> WorkerWith(const std::string& chat_template) {
  plimsoll::testing::RandomModel model =
      plimsoll::testing::FindRandomModel("llama_f32");
  model.chat_template = chat_template;
  auto worker = std::make_unique<TestWorker>(TestWorkerSetup{
      .model = model,
      .change = [](WorkerOptions& options) { options.chat_format.reset(); }});
  EXPECT_TRUE(worker->LoadWithContext("a", 512).ok());
  return worker;
}

struct Said {
  std::string message;
  Ids reply;
};

struct Reply {
  absl::Status status;
  std::string chat_format;
  Ids ids;
  std::vector<float> logprobs;
  bool was_cut_within = false;  // turns left when a token had come already
  uint32_t n_evictions = 0;
};

template <typename Part>
void AddTokens(const Part& part, Reply& reply) {
  for (const v1::GeneratedToken& token : part.tokens()) {
    reply.ids.push_back(token.id());
    reply.logprobs.push_back(token.logprob());
  }
}

class TemplateSessionTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { worker_ = WorkerWith(kTurns).release(); }
  static void TearDownTestSuite() {
    delete worker_;
    worker_ = nullptr;
  }
  void TearDown() override { worker_->CloseSession("s"); }

  static absl::StatusOr<v1::Session> Open(v1::OpenSessionRequest request) {
    grpc::ClientContext context;
    request.set_model("a");
    request.set_session_id("s");
    // So that what stays is computed as if nothing else had been said.
    request.set_roll_method(v1::ROLL_METHOD_RECOMPUTE);
    v1::OpenSessionResponse response;
    const absl::Status status =
        FromGrpc(worker_->sessions->OpenSession(&context, request, &response));
    if (!status.ok()) return status;
    return response.session();
  }
  static v1::Session Get() {
    grpc::ClientContext context;
    v1::GetSessionRequest request;
    request.set_model("a");
    request.set_session_id("s");
    v1::GetSessionResponse response;
    EXPECT_TRUE(
        worker_->sessions->GetSession(&context, request, &response).ok());
    return response.session();
  }
  template <typename Request>
  static void SetHow(Request& request) {
    request.set_model("a");
    request.mutable_sampling()->set_temperature(0);
    request.mutable_stopping()->set_max_tokens(6);
    request.mutable_response()->set_top_logprobs(0);
  }
  static Reply Say(const std::string& message) {
    grpc::ClientContext context;
    v1::ChatRequest request;
    SetHow(request);
    request.set_session_id("s");
    request.set_message(message);
    const auto reader = worker_->sessions->Chat(&context, request);
    Reply reply;
    v1::ChatResponse part;
    while (reader->Read(&part)) {
      if (part.has_prompt()) reply.chat_format = part.prompt().chat_format();
      if (part.evictions_size() > 0) {
        ++reply.n_evictions;
        reply.was_cut_within |= !reply.ids.empty() || part.tokens_size() > 1;
      }
      AddTokens(part, reply);
    }
    reply.status = FromGrpc(reader->Finish());
    return reply;
  }
  // A call with the same pages pinned as the open session has.
  static Reply Generate(const Ids& ids) {
    grpc::ClientContext context;
    v1::StreamGenerateRequest request;
    SetHow(request);
    request.set_context_policy(v1::CONTEXT_POLICY_ROLL);
    request.mutable_roll()->set_pin_tokens(Get().pinned_tokens());
    for (const uint32_t id : ids) request.mutable_tokens()->add_ids(id);
    const auto reader = worker_->generation->StreamGenerate(&context, request);
    Reply reply;
    v1::StreamGenerateResponse part;
    while (reader->Read(&part)) AddTokens(part, reply);
    reply.status = FromGrpc(reader->Finish());
    return reply;
  }

  // What the template makes of a conversation whose replies are texts.
  static Ids Render(const std::string* system,
                    const std::vector<std::string>& said) {
    grpc::ClientContext context;
    v1::ApplyChatTemplateRequest request;
    request.set_model("a");
    const auto add = [&request](v1::ChatRole role, const std::string& text) {
      v1::ChatMessage& message = *request.mutable_chat()->add_messages();
      message.set_role(role);
      message.set_content(text);
    };
    if (system != nullptr) add(v1::CHAT_ROLE_SYSTEM, *system);
    for (size_t i = 0; i < said.size(); ++i) {
      add(i % 2 == 0 ? v1::CHAT_ROLE_USER : v1::CHAT_ROLE_ASSISTANT, said[i]);
    }
    v1::ApplyChatTemplateResponse response;
    EXPECT_TRUE(
        worker_->tokenizer->ApplyChatTemplate(&context, request, &response)
            .ok());
    EXPECT_EQ(response.chat_format(), "template");
    return {response.ids().begin(), response.ids().end()};
  }
  // Now replies are given as tokens, and a last message follows.
  static Ids Whole(const std::string* system, const std::vector<Said>& turns,
                   const std::string& message) {
    Ids ids;
    for (size_t i = 0; i <= turns.size(); ++i) {
      const std::string& next = i < turns.size() ? turns[i].message : message;
      if (i == 0) {
        ids = Render(system, {next});
      } else {
        // A reply of one token shows what is around replies.
        const std::string& last = turns[i - 1].message;
        const size_t n_before = Render(nullptr, {last}).size() + 1;
        const Ids both = Render(nullptr, {last, "!", next});
        Ids reply = turns[i - 1].reply;
        if (!reply.empty() && reply.back() == kEnd) reply.pop_back();
        ids.insert(ids.end(), reply.begin(), reply.end());
        ids.insert(ids.end(), both.begin() + static_cast<ptrdiff_t>(n_before),
                   both.end());
      }
    }
    return ids;
  }

  static constexpr uint32_t kEnd = 2;  // <|im_end|>
  static TestWorker* worker_;
};

TestWorker* TemplateSessionTest::worker_ = nullptr;

// After each turn, the session goes on as a call that sends what is left of the
// whole conversation.
TEST_F(TemplateSessionTest, AreBitForBitTheWholeConversation) {
  const std::string system = " Be brief. ";
  v1::OpenSessionRequest request;
  request.set_system(system);
  const auto opened = Open(request);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->chat_format(), "template");
  std::vector<Said> turns;
  uint32_t n_compared = 0;
  uint32_t n_compared_cut = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string message =
        absl::StrCat("\n", i, std::string(60, 'a'), "<|im_end|> as");
    const Reply reply = Say(message);
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.chat_format, "template");
    ASSERT_FALSE(reply.ids.empty());
    const v1::Session session = Get();
    EXPECT_EQ(session.turns(), static_cast<uint64_t>(i + 1));
    const size_t n_kept = session.live_turns() - 1;
    const std::vector<Said> kept(turns.end() - static_cast<ptrdiff_t>(n_kept),
                                 turns.end());
    if (!reply.was_cut_within) {
      const Reply whole = Generate(Whole(&system, kept, message));
      ASSERT_TRUE(whole.status.ok()) << whole.status;
      EXPECT_EQ(whole.ids, reply.ids) << i;
      EXPECT_EQ(whole.logprobs, reply.logprobs) << i;
      ++n_compared;
      n_compared_cut += reply.n_evictions > 0 ? 1 : 0;
    }
    turns.push_back({message, reply.ids});
  }
  EXPECT_GT(n_compared, 15u);
  EXPECT_GT(n_compared_cut, 2u);
  EXPECT_GT(Get().evictions(), 2u);
}

// Turns that were said before are those of the template, whether their replies
// are texts or tokens.
TEST_F(TemplateSessionTest, TurnsThatWereSaidBeforeAreTheTemplates) {
  const std::vector<std::string> said = {" one ", " hello as ", "two",
                                         "<|im_end|>", "three"};
  const Ids whole = Render(nullptr, said);
  v1::OpenSessionRequest request;
  for (size_t i = 0; i + 1 < said.size(); i += 2) {
    v1::SessionTurn& turn = *request.add_turns();
    turn.set_message(said[i]);
    turn.set_text(said[i + 1]);
  }
  ASSERT_TRUE(Open(request).ok());
  const Reply expected = Generate(whole);
  const Reply reply = Say(said.back());
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(reply.ids, expected.ids);
  EXPECT_EQ(reply.logprobs, expected.logprobs);
  EXPECT_EQ(Get().tokens(), whole.size() + reply.ids.size());

  const Said before = {"one", Generate(Render(nullptr, {"one"})).ids};
  const Reply more = Generate(Whole(nullptr, {before}, "two"));
  TearDown();
  request.clear_turns();
  v1::SessionTurn& turn = *request.add_turns();
  turn.set_message(before.message);
  for (const uint32_t id : before.reply) turn.mutable_tokens()->add_ids(id);
  ASSERT_TRUE(Open(request).ok());
  const Reply again = Say("two");
  EXPECT_EQ(again.ids, more.ids);
  EXPECT_EQ(again.logprobs, more.logprobs);
}

TEST_F(TemplateSessionTest, AnEmptyMessageIsRefused) {
  ASSERT_TRUE(Open({}).ok());
  const absl::Status empty = Say("").status;
  EXPECT_EQ(empty.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(empty.message()), HasSubstr("message"));
  EXPECT_EQ(Get().turns(), 0u);
}

TEST_F(TemplateSessionTest, ARequestMayNameABuiltInFormat) {
  v1::OpenSessionRequest request;
  request.set_chat_format("chatml");
  const auto opened = Open(request);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->chat_format(), "chatml");
  EXPECT_EQ(Say("hello").chat_format, "chatml");
}

}  // namespace
}  // namespace plimsoll::services
