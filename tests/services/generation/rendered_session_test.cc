// Sessions that keep texts, over real sockets: a model whose own template looks
// back, and one whose session has tools.
#include "services/generation/rendered_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "services/wire/errors.h"
#include "tests/services/worker/worker_fixture.h"
#include "worker/text/chat/chat_segments.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

// Only the newest user's message has its role, and earlier replies are short.
constexpr char kForgetful[] =
    "{% for m in messages %}<|im_start|>"
    "{{ m.role if loop.last or m.role != 'user' }}:\n"
    "{{ m.content if m.role != 'assistant' else m.content[:4] }}<|im_end|>"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant:\n{% endif %}";
// Shows the newest message of the user only.
constexpr char kNewestOnly[] =
    "{% if messages[-1].role == 'user' %}<|im_start|>user\n"
    "{{ messages[-1].content }}<|im_end|>{% endif %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

std::unique_ptr<TestWorker> Serve(plimsoll::testing::RandomModel model,
                                  uint32_t n_ctx) {
  auto worker = std::make_unique<TestWorker>(TestWorkerSetup{
      .model = model,
      .change = [](WorkerOptions& options) { options.chat_format.reset(); }});
  EXPECT_TRUE(worker->LoadWithContext("a", n_ctx).ok());
  return worker;
}

std::unique_ptr<TestWorker> ServeTemplate(const std::string& chat_template,
                                          const char* name) {
  plimsoll::testing::RandomModel model =
      plimsoll::testing::FindRandomModel(name);
  model.chat_template = chat_template;
  return Serve(std::move(model), /*n_ctx=*/512);
}

absl::StatusOr<v1::Session> OpenIn(TestWorker& worker,
                                   v1::OpenSessionRequest request) {
  grpc::ClientContext context;
  request.set_model("a");
  request.set_session_id("s");
  v1::OpenSessionResponse response;
  const absl::Status status =
      FromGrpc(worker.sessions->OpenSession(&context, request, &response));
  if (!status.ok()) return status;
  return response.session();
}

v1::Session SessionIn(TestWorker& worker) {
  grpc::ClientContext context;
  v1::GetSessionRequest request;
  request.set_model("a");
  request.set_session_id("s");
  v1::GetSessionResponse response;
  EXPECT_TRUE(worker.sessions->GetSession(&context, request, &response).ok());
  return response.session();
}

// A whole reply, of a session or not.
struct WholeReply {
  absl::Status status;
  v1::GenerateResponse reply;
  bool said_what_left_first = true;

  std::vector<uint32_t> ids() const {
    std::vector<uint32_t> ids;
    for (const v1::GeneratedToken& token : reply.tokens()) {
      ids.push_back(token.id());
    }
    return ids;
  }
  std::vector<float> logprobs() const {
    std::vector<float> logprobs;
    for (const v1::GeneratedToken& token : reply.tokens()) {
      logprobs.push_back(token.logprob());
    }
    return logprobs;
  }
};

template <typename Request>
void SetGreedy(Request& request) {
  request.set_model("a");
  request.mutable_sampling()->set_temperature(0);
  request.mutable_response()->set_top_logprobs(0);
  if (!request.stopping().has_max_tokens()) {
    request.mutable_stopping()->set_max_tokens(6);
  }
}

WholeReply ChatIn(TestWorker& worker, v1::ChatRequest request) {
  grpc::ClientContext context;
  SetGreedy(request);
  request.set_session_id("s");
  const auto reader = worker.sessions->Chat(&context, request);
  WholeReply whole;
  v1::ChatResponse part;
  while (reader->Read(&part)) {
    v1::GenerateResponse& reply = whole.reply;
    if (part.has_prompt()) {
      *reply.mutable_prompt_ids() = part.prompt().prompt_ids();
    }
    if (part.evictions_size() > 0 && reply.tokens_size() > 0) {
      whole.said_what_left_first = false;
    }
    reply.mutable_text()->append(part.text());
    reply.mutable_reasoning()->append(part.reasoning());
    reply.mutable_tokens()->MergeFrom(part.tokens());
    reply.mutable_tool_calls()->MergeFrom(part.tool_calls());
    reply.mutable_evictions()->MergeFrom(part.evictions());
    if (!part.has_finish()) continue;
    reply.set_finish_reason(part.finish().finish_reason());
    *reply.mutable_usage() = part.finish().usage();
  }
  whole.status = FromGrpc(reader->Finish());
  return whole;
}

WholeReply SayIn(TestWorker& worker, const std::string& message) {
  v1::ChatRequest request;
  request.set_message(message);
  return ChatIn(worker, request);
}

// The reply to a whole conversation, of a tenant who shares nothing.
WholeReply FreshReply(TestWorker& worker, v1::GenerateRequest request) {
  static int n_tenants = 0;
  grpc::ClientContext context;
  context.AddMetadata("x-tenant", absl::StrCat("fresh", n_tenants++));
  SetGreedy(request);
  WholeReply whole;
  whole.status =
      FromGrpc(worker.generation->Generate(&context, request, &whole.reply));
  return whole;
}

void AddTo(v1::ChatPrompt& chat, v1::ChatRole role, const std::string& text) {
  v1::ChatMessage& message = *chat.add_messages();
  message.set_role(role);
  message.set_content(text);
}

void ExpectSame(const WholeReply& expected, const WholeReply& reply) {
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(std::vector<uint32_t>(expected.reply.prompt_ids().begin(),
                                  expected.reply.prompt_ids().end()),
            std::vector<uint32_t>(reply.reply.prompt_ids().begin(),
                                  reply.reply.prompt_ids().end()));
  EXPECT_EQ(expected.ids(), reply.ids());
  EXPECT_EQ(expected.logprobs(), reply.logprobs());
}

// Models with pages alone, with rings of windows, and with states.
class RenderedSessionBits : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Models, RenderedSessionBits,
                         ::testing::Values("llama_f32", "gemma_q5_0",
                                           "granitehybrid_q8_0"));

// Each message is answered as a call with what is left of the conversation is.
TEST_P(RenderedSessionBits, AreThoseOfTheWholeConversation) {
  const auto worker = ServeTemplate(kForgetful, GetParam());
  v1::OpenSessionRequest request;
  request.set_system("Be brief.");
  request.set_evict_to(320);
  const auto opened = OpenIn(*worker, request);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->chat_format(), "template");
  EXPECT_THAT(opened->recompute_reason(), HasSubstr("cannot be cut"));
  EXPECT_EQ(opened->capacity_tokens(), 512u);
  EXPECT_EQ(opened->reserved_bytes(), 0u);
  std::vector<std::pair<std::string, std::string>> turns;
  uint64_t n_left = 0;
  uint64_t n_evictions = 0;
  for (int i = 0; i < 16; ++i) {
    const std::string message =
        absl::StrCat(i, std::string(50, 'a'), "<|im_end|> as");
    const WholeReply reply = SayIn(*worker, message);
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_TRUE(reply.said_what_left_first);
    const v1::Session session = SessionIn(*worker);
    EXPECT_EQ(session.turns(), static_cast<uint64_t>(i + 1));
    ASSERT_GE(session.live_turns(), 1u);
    ASSERT_LE(session.live_turns(), turns.size() + 1);
    const size_t n_kept = session.live_turns() - 1;
    v1::GenerateRequest whole;
    v1::ChatPrompt& chat = *whole.mutable_chat();
    AddTo(chat, v1::CHAT_ROLE_SYSTEM, "Be brief.");
    for (size_t k = turns.size() - n_kept; k < turns.size(); ++k) {
      AddTo(chat, v1::CHAT_ROLE_USER, turns[k].first);
      AddTo(chat, v1::CHAT_ROLE_ASSISTANT, turns[k].second);
    }
    AddTo(chat, v1::CHAT_ROLE_USER, message);
    ExpectSame(FreshReply(*worker, whole), reply);
    for (const v1::Eviction& eviction : reply.reply.evictions()) {
      EXPECT_EQ(eviction.method(), v1::ROLL_METHOD_RECOMPUTE);
      EXPECT_EQ(eviction.kept_tokens(),
                static_cast<uint32_t>(reply.reply.prompt_ids_size()));
      EXPECT_LE(eviction.kept_tokens(), 320u);
      EXPECT_GE(eviction.turns(), 1u);
      n_left += eviction.turns();
      ++n_evictions;
    }
    EXPECT_EQ(session.turns() - session.live_turns(), n_left);
    EXPECT_EQ(session.evictions(), n_evictions);
    turns.emplace_back(message, reply.reply.text());
  }
  EXPECT_GT(n_evictions, 2u);
  EXPECT_LT(n_evictions, 10u);  // each leaves room for further messages
}

class RenderedSessionTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    worker_ = ServeTemplate(kForgetful, "llama_f32").release();
  }
  static void TearDownTestSuite() {
    delete worker_;
    worker_ = nullptr;
  }
  void TearDown() override { worker_->CloseSession("s"); }
  static TestWorker* worker_;
};

TestWorker* RenderedSessionTest::worker_ = nullptr;

TEST_F(RenderedSessionTest, TurnsThatWereSaidBeforeArePartOfTheChat) {
  v1::GenerateRequest first;
  AddTo(*first.mutable_chat(), v1::CHAT_ROLE_USER, "one");
  const WholeReply said = FreshReply(*worker_, first);
  v1::GenerateRequest whole = first;
  AddTo(*whole.mutable_chat(), v1::CHAT_ROLE_ASSISTANT, said.reply.text());
  AddTo(*whole.mutable_chat(), v1::CHAT_ROLE_USER, "two");
  AddTo(*whole.mutable_chat(), v1::CHAT_ROLE_ASSISTANT, "as it is");
  AddTo(*whole.mutable_chat(), v1::CHAT_ROLE_USER, "three");
  v1::OpenSessionRequest request;
  request.add_turns()->set_message("one");
  for (const uint32_t id : said.ids()) {
    request.mutable_turns(0)->mutable_tokens()->add_ids(id);
  }
  request.add_turns()->set_message("two");
  request.mutable_turns(1)->set_text("as it is");
  const auto opened = OpenIn(*worker_, request);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->turns(), 2u);
  ExpectSame(FreshReply(*worker_, whole), SayIn(*worker_, "three"));
}

TEST_F(RenderedSessionTest, TurnsThatDoNotFitAreLeftOutTheOldestFirst) {
  v1::OpenSessionRequest request;
  for (int i = 0; i < 10; ++i) {
    v1::SessionTurn& turn = *request.add_turns();
    turn.set_message(std::string(100, 'a'));
  }
  const auto opened = OpenIn(*worker_, request);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->turns(), opened->live_turns());
  EXPECT_GE(opened->turns(), 1u);
  EXPECT_LT(opened->turns(), 5u);
}

TEST_F(RenderedSessionTest, AMessageThatCannotFitIsRefusedWithBothNumbers) {
  ASSERT_TRUE(OpenIn(*worker_, {}).ok());
  const absl::Status refused = SayIn(*worker_, std::string(600, 'a')).status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kOutOfRange) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("512"));
  EXPECT_EQ(SayIn(*worker_, "").status.code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SessionIn(*worker_).turns(), 0u);
  EXPECT_TRUE(SayIn(*worker_, "a").status.ok());
}

// The rest of the context is a reply's, and the next message has room again.
TEST_F(RenderedSessionTest, AReplyThatFillsTheContextEndsThere) {
  ASSERT_TRUE(OpenIn(*worker_, {}).ok());
  v1::ChatRequest request;
  request.set_message("a");
  request.mutable_stopping()->set_max_tokens(2'000);
  request.mutable_stopping()->set_ignore_eos(true);
  const WholeReply reply = ChatIn(*worker_, request);
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(reply.reply.finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(reply.reply.prompt_ids_size() + reply.reply.tokens_size(), 513);
  EXPECT_TRUE(SayIn(*worker_, "b").status.ok());
}

// A short message may have a long chat rendered.
TEST_F(RenderedSessionTest, MessagesAreRenderedOnThePool) {
  ASSERT_TRUE(OpenIn(*worker_, {}).ok());
  WorkPool& pool = *worker_->pool;
  const auto release = std::make_shared<absl::Notification>();
  for (int i = 0; i < pool.n_threads(); ++i) {
    ASSERT_TRUE(pool.Submit({absl::StrCat("hold", i), WorkCost::kQuick,
                             std::make_shared<CallStop>(),
                             [release](const absl::Status&) {
                               release->WaitForNotification();
                             }})
                    .ok());
  }
  std::thread client([] { EXPECT_TRUE(SayIn(*worker_, "a").status.ok()); });
  while (pool.n_queued() < 1) std::this_thread::yield();
  release->Notify();
  client.join();
}

TEST_F(RenderedSessionTest, ResponsesAreForTheCallsOfTheLastReply) {
  ASSERT_TRUE(OpenIn(*worker_, {}).ok());
  v1::ChatRequest request;
  request.add_tool_responses()->set_tool_name("light");
  const absl::Status refused = ChatIn(*worker_, request).status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has 0 calls"));
}

TEST_F(RenderedSessionTest, EvictToIsAtLeastOneAndAtMostTheContext) {
  v1::OpenSessionRequest request;
  for (const uint32_t wrong : {0u, 513u}) {
    request.set_evict_to(wrong);
    const auto refused = OpenIn(*worker_, request);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  }
  request.set_evict_to(512);
  EXPECT_TRUE(OpenIn(*worker_, request).ok());
}

TEST(RenderedTemplateTest, ATemplateThatRefusesTheChatSaysSoAtOnce) {
  const auto worker = ServeTemplate(
      absl::StrCat("{% if messages[0].role == 'system' %}"
                   "{{ raise_exception('no system') }}{% endif %}",
                   kForgetful),
      "llama_f32");
  EXPECT_TRUE(OpenIn(*worker, {}).ok());
  v1::OpenSessionRequest request;
  request.set_system("Be brief.");
  const auto refused = OpenIn(*worker, request);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("no system"));
}

// A template that shows one message does not bound what a session keeps.
TEST(RenderedTemplateTest, ASessionKeepsOnlySoManyBytes) {
  for (const size_t n_over : {0u, 1u}) {
    const auto worker = ServeTemplate(kNewestOnly, "llama_f32");
    v1::OpenSessionRequest request;
    const size_t n_filler = worker::SessionChat::kMaxBytes - 2'000;
    request.add_turns()->set_message("a");
    request.add_turns()->set_message("b");
    request.mutable_turns(1)->set_text(std::string(n_filler, 'x'));
    const auto opened = OpenIn(*worker, request);
    ASSERT_TRUE(opened.ok()) << opened.status();
    ASSERT_EQ(opened->turns(), 2u);
    size_t n_bytes = n_filler + 2;
    while (worker::SessionChat::kMaxBytes - n_bytes > 400) {
      const WholeReply reply = SayIn(*worker, std::string(300, 'm'));
      ASSERT_TRUE(reply.status.ok()) << reply.status;
      n_bytes += 300 + reply.reply.text().size();
    }
    const uint32_t n_turns = SessionIn(*worker).live_turns();
    const size_t n_rest = worker::SessionChat::kMaxBytes - n_bytes;
    const WholeReply last = SayIn(*worker, std::string(n_rest + n_over, 'm'));
    ASSERT_TRUE(last.status.ok()) << last.status;
    EXPECT_EQ(SessionIn(*worker).live_turns(), n_turns + 1 - n_over);
    EXPECT_EQ(last.reply.evictions_size(), static_cast<int>(n_over));
  }
}

// A conversation has at most worker::kMaxChatMessages, one of them the
// system's.
TEST(RenderedTemplateTest, ASessionKeepsOnlySoManyMessages) {
  const auto worker = ServeTemplate(kNewestOnly, "llama_f32");
  v1::OpenSessionRequest request;
  constexpr uint32_t kMost = worker::kMaxChatMessages / 2;
  for (uint32_t i = 0; i + 1 < kMost; ++i)
    request.add_turns()->set_message("a");
  const auto opened = OpenIn(*worker, request);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->turns(), kMost - 1);
  const WholeReply most = SayIn(*worker, "b");
  ASSERT_TRUE(most.status.ok()) << most.status;
  EXPECT_EQ(most.reply.evictions_size(), 0);
  EXPECT_EQ(SessionIn(*worker).live_turns(), kMost);
  const WholeReply more = SayIn(*worker, "c");
  ASSERT_TRUE(more.status.ok()) << more.status;
  EXPECT_EQ(more.reply.evictions_size(), 1);
  EXPECT_EQ(SessionIn(*worker).live_turns(), kMost);
}

// FunctionGemma's marks and words are the last tokens of a random model, whose
// calls are held to the only one that there is.
class SessionToolsTest : public ::testing::Test {
 protected:
  static constexpr const char* kPieces[] = {
      "call:", "set_light", "{", "room:", "hall", ",", "on:", "true", "}"};

  void SetUp() override {
    plimsoll::testing::RandomModel model =
        plimsoll::testing::FindRandomModel("gemma_q5_0");
    constexpr int32_t kUserDefinedType = 4;
    constexpr int32_t kNormalType = 1;
    for (const absl::string_view mark : worker::kToolMarkers) {
      model.last_tokens.emplace_back(std::string(mark), kUserDefinedType);
    }
    for (const char* piece : kPieces) {
      model.last_tokens.emplace_back(piece, kNormalType);
    }
    n_marks_ = model.last_tokens.size();
    worker_ = Serve(std::move(model), /*n_ctx=*/1'024);
  }

  static void AddLight(google::protobuf::RepeatedPtrField<v1::Tool>& tools) {
    v1::Tool& tool = *tools.Add();
    tool.set_name("set_light");
    tool.set_parameters(R"({"type": "object", "properties": {
        "room": {"enum": ["hall"]}, "on": {"const": true}},
        "required": ["room", "on"]})");
  }
  // The model writes the longest tokens.
  template <typename Request>
  void PreferMarks(Request& request) const {
    for (size_t i = 0; i < n_marks_; ++i) {
      v1::LogitBias& bias = *request.mutable_sampling()->add_logit_bias();
      bias.set_id(plimsoll::testing::kRandomVocab - 1 -
                  static_cast<uint32_t>(i));
      bias.set_bias(1'000);
    }
    request.mutable_stopping()->set_max_tokens(40);
  }

  size_t n_marks_ = 0;
  std::unique_ptr<TestWorker> worker_;
};

TEST_F(SessionToolsTest, CallsAreHeldAndTheirResponsesAreSentBack) {
  v1::OpenSessionRequest open;
  open.set_chat_format("functiongemma");
  AddLight(*open.mutable_tools());
  const auto opened = OpenIn(*worker_, open);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->recompute_reason(), "it has tools");
  EXPECT_EQ(opened->chat_format(), "functiongemma");
  v1::ChatRequest say;
  say.set_message("hi");
  say.set_tool_choice(v1::TOOL_CHOICE_REQUIRED);
  say.set_parallel_tool_calls(false);
  PreferMarks(say);
  const WholeReply called = ChatIn(*worker_, say);
  ASSERT_TRUE(called.status.ok()) << called.status;
  ASSERT_EQ(called.reply.tool_calls_size(), 1);
  EXPECT_EQ(called.reply.tool_calls(0).name(), "set_light");
  EXPECT_EQ(called.reply.tool_calls(0).arguments(),
            R"({"on":true,"room":"hall"})");
  EXPECT_EQ(called.reply.text(), "");
  EXPECT_EQ(called.reply.finish_reason(), v1::FINISH_REASON_TOOL_CALL);

  // The responses continue the turn, as in a call with all messages.
  v1::GenerateRequest whole;
  v1::ChatPrompt& chat = *whole.mutable_chat();
  chat.set_chat_format("functiongemma");
  AddLight(*chat.mutable_tools());
  AddTo(chat, v1::CHAT_ROLE_USER, "hi");
  AddTo(chat, v1::CHAT_ROLE_ASSISTANT, "");
  *chat.mutable_messages(1)->add_tool_calls() = called.reply.tool_calls(0);
  AddTo(chat, v1::CHAT_ROLE_TOOL, R"({"done":true})");
  chat.mutable_messages(2)->set_tool_name("set_light");
  v1::ChatRequest respond;
  v1::ToolResponse& response = *respond.add_tool_responses();
  response.set_content(R"({"done":true})");
  response.set_tool_name("other");
  EXPECT_THAT(std::string(ChatIn(*worker_, respond).status.message()),
              HasSubstr("tool_name"));
  response.set_tool_name("set_light");
  respond.set_message("and");
  EXPECT_THAT(std::string(ChatIn(*worker_, respond).status.message()),
              HasSubstr("message"));
  respond.clear_message();
  ExpectSame(FreshReply(*worker_, whole), ChatIn(*worker_, respond));
  EXPECT_EQ(SessionIn(*worker_).turns(), 1u);
}

TEST_F(SessionToolsTest, ASessionWithoutToolsHasNone) {
  v1::OpenSessionRequest open;
  open.set_chat_format("functiongemma");
  const auto opened = OpenIn(*worker_, open);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->recompute_reason(), "");
  v1::ChatRequest say;
  say.set_message("hi");
  say.set_tool_choice(v1::TOOL_CHOICE_REQUIRED);
  EXPECT_THAT(std::string(ChatIn(*worker_, say).status.message()),
              HasSubstr("without tools"));
  open.set_chat_format("gemma3");
  AddLight(*open.mutable_tools());
  EXPECT_EQ(OpenIn(*worker_, open).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace plimsoll::services
