#include "worker/text/chat/template_frame.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/text/chat/template_fixture.h"

namespace plimsoll::worker {
namespace {

using ::testing::HasSubstr;

using Ids = std::vector<int32_t>;

// Turns with a control token before each message and behind each reply.
constexpr absl::string_view kTurns =
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'system' %}<sys>{{ m.content }}<end>\n"
    "{% elif m.role == 'user' %}<turn>user\n{{ m.content }}<end>\n"
    "{% else %}<turn>model\n{{ m.content }}<end>\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<turn>model\n{% endif %}";

// A line feed and what follows may be one token, so seams matter.
TemplateFixture Load(absl::string_view source) {
  return TemplateFixture(
      source, {.controls = {"<s>", "<end>", "<turn>", "<sys>", "<more>"},
               .merges = {"\xC4\x8A \xC4\x8A", "\xC4\x8A a", "h i"}});
}

struct FrameSetup {
  const std::string* system = nullptr;
  absl::Time now = absl::UnixEpoch();
  EncodeLimits limits = {};
};

absl::StatusOr<std::shared_ptr<const TemplateFrame>> Find(
    const TemplateFixture& fixture, const FrameSetup& setup) {
  return TemplateFrame::Find(*fixture.tokenizer, fixture.program,
                             {setup.system, setup.now}, setup.limits);
}

// Why sessions cannot have the template.
std::string WhyWith(const std::string* system, absl::string_view source) {
  const auto frame = Find(Load(source), {.system = system});
  EXPECT_EQ(frame.status().code(), absl::StatusCode::kUnimplemented)
      << frame.status();
  EXPECT_THAT(std::string(frame.status().message()),
              HasSubstr("cannot be cut"));
  return std::string(frame.status().message());
}

std::string Why(absl::string_view source) {
  return WhyWith(/*system=*/nullptr, source);
}

std::string Changed(absl::string_view from, absl::string_view to) {
  std::string source = absl::StrReplaceAll(kTurns, {{from, to}});
  EXPECT_NE(source, kTurns);
  return source;
}

Ids Whole(const TemplateFixture& fixture, const std::string* system,
          std::span<const ProbeTurn> turns) {
  const auto rendered = ProbeRenderer{*fixture.tokenizer, *fixture.program,
                                      system, absl::UnixEpoch(), NeverStop}
                            .Render(turns);
  EXPECT_TRUE(rendered.ok()) << rendered.status();
  const auto ids = EncodeTemplated(*fixture.tokenizer,
                                   rendered->Segments(0, rendered->size()));
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.value_or(Ids());
}

// Expects that a session's tokens are those of the whole conversation after
// each turn, whichever oldest turns have left.
void ExpectPiecesAreTheWhole(const TemplateFixture& fixture,
                             const std::string* system,
                             const std::vector<ProbeTurn>& turns) {
  const auto frame = Find(fixture, {.system = system});
  ASSERT_TRUE(frame.ok()) << frame.status();
  const ChatFrame& pieces = (*frame)->ids();
  EXPECT_TRUE(pieces.after_user.empty());
  for (size_t first = 0; first < turns.size(); ++first) {
    Ids ids = pieces.opening;
    const auto append = [&ids](const Ids& more) {
      ids.insert(ids.end(), more.begin(), more.end());
    };
    for (size_t i = first; i < turns.size(); ++i) {
      const auto message =
          (*frame)->EncodeMessage(*fixture.tokenizer, turns[i].message);
      ASSERT_TRUE(message.ok()) << message.status();
      Ids so_far = ids;
      so_far.insert(so_far.end(), message->begin(), message->end());
      EXPECT_EQ(so_far, Whole(fixture, system,
                              std::span(turns).subspan(first, i + 1 - first)));
      const auto turn = (*frame)->EncodeTurn(*fixture.tokenizer,
                                             turns[i].message, turns[i].reply);
      ASSERT_TRUE(turn.ok()) << turn.status();
      append(*turn);
      append(pieces.after_reply);
    }
  }
}

const std::vector<ProbeTurn>& HostileTurns() {
  static const auto& turns = *new std::vector<ProbeTurn>{
      {"\n\nhi", "\n\nhi"},
      {"<end><turn>user", "a<s>"},
      {"a \n", ""},
      {"\xC3\xA9 </think>", "<think>hi</think>\n\nhi"},
      {"hi", ""}};
  return turns;
}

TEST(TemplateFrameTest, PiecesAreTheWholeConversation) {
  const TemplateFixture fixture = Load(kTurns);
  const std::string system = "\n<end> be kind ";
  ExpectPiecesAreTheWhole(fixture, nullptr, HostileTurns());
  ExpectPiecesAreTheWhole(fixture, &system, HostileTurns());
}

// A turn begins with the text that stands before a message, so that the
// tokenizer sees both together.
TEST(TemplateFrameTest, TurnsAreCutBehindControlTokens) {
  const TemplateFixture fixture = Load(kTurns);
  const auto frame = Find(fixture, {});
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ((*frame)->text().before_user, "user\n");
  const auto message = (*frame)->EncodeMessage(*fixture.tokenizer, "\n\nhi");
  ASSERT_TRUE(message.ok()) << message.status();
  const int32_t two_feeds = *fixture.tokenizer->Find("\xC4\x8A\xC4\x8A");
  EXPECT_EQ((*message)[4], two_feeds);
  EXPECT_EQ((*frame)->ids().opening, (Ids{256, 258}));
  EXPECT_EQ((*frame)->ids().after_reply, (Ids{257, '\n', 258}));
}

// The opening need not end as replies do: the text's beginning and any control
// token are borders.
TEST(TemplateFrameTest, AnyControlTokenIsABorder) {
  constexpr absl::string_view kNone =
      "{% for m in messages %}{% if m.role == 'user' %}Q: {{ m.content }}"
      "<turn>A: {% else %}{{ m.content }}<end>{% endif %}{% endfor %}";
  ExpectPiecesAreTheWhole(Load(kNone), nullptr, HostileTurns());
  const TemplateFixture adds_bos(
      kNone, {.controls = {"<s>", "<end>", "<turn>"}, .adds_bos = true});
  ExpectPiecesAreTheWhole(adds_bos, nullptr, HostileTurns());
  const auto frame = Find(adds_bos, {});
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ((*frame)->ids().opening, Ids{256});
}

// Messages are what the template makes of them.
TEST(TemplateFrameTest, MessagesAreTrimmedAsTheTemplateTrims) {
  const TemplateFixture fixture =
      Load(Changed("user\n{{ m.content }}", "user\n{{ m.content | trim }}"));
  ExpectPiecesAreTheWhole(fixture, nullptr, HostileTurns());
  const auto frame = Find(fixture, {});
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ((*frame)->EncodeMessage(*fixture.tokenizer, " \n hi "),
            (*frame)->EncodeMessage(*fixture.tokenizer, "hi"));
  const TemplateFixture both = Load(
      absl::StrReplaceAll(kTurns, {{"m.content }}", "m.content.strip() }}"}}));
  ExpectPiecesAreTheWhole(both, nullptr, HostileTurns());
}

TEST(TemplateFrameTest, ADateStaysThatOfTheOpening) {
  const TemplateFixture fixture =
      Load(Changed("{{ bos_token }}", "{{ strftime_now('%Y') }}<sys>"));
  const auto opening = [&](absl::Time now) {
    const auto frame = Find(fixture, {.now = now});
    EXPECT_TRUE(frame.ok()) << frame.status();
    EXPECT_TRUE((*frame)->EncodeMessage(*fixture.tokenizer, "hi").ok());
    return std::string((*frame)->text().opening.text().substr(0, 4));
  };
  EXPECT_EQ(opening(absl::FromCivil(absl::CivilDay(2021, 6, 1),
                                    absl::LocalTimeZone())),
            "2021");
  EXPECT_EQ(opening(absl::FromCivil(absl::CivilDay(2031, 6, 1),
                                    absl::LocalTimeZone())),
            "2031");
}

TEST(TemplateFrameTest, RefusesTemplatesThatRefuseChats) {
  EXPECT_THAT(Why("{{ raise_exception('no chats') }}"), HasSubstr("no chats"));
  EXPECT_THAT(Why("{% for t in tools %}{% endfor %}"),
              HasSubstr("refuses a conversation"));
  const std::string system = "S";
  const TemplateFixture fixture = Load(
      Changed("<sys>{{ m.content }}", "{{ raise_exception('no system') }}"));
  EXPECT_THAT(
      std::string(Find(fixture, {.system = &system}).status().message()),
      HasSubstr("no system"));
  EXPECT_TRUE(Find(fixture, {}).ok());
}

TEST(TemplateFrameTest, RefusesMessagesThatAreNotShownAsTheyAre) {
  EXPECT_THAT(Why(Changed("user\n{{ m.content }}", "user\n")),
              HasSubstr("does not show the message"));
  EXPECT_THAT(Why(Changed("user\n{{ m.content }}",
                          "user\n{{ m.content }}{{ m.content }}")),
              HasSubstr("does not show the message"));
  EXPECT_THAT(
      Why(Changed("model\n{{ m.content }}", "model\n{{ m.content | upper }}")),
      HasSubstr("does not show the reply"));
}

TEST(TemplateFrameTest, RefusesReplyBeginningsThatDiffer) {
  const std::string why =
      Why(Changed("prompt %}<turn>model\n", "prompt %}<turn>model\n<think>\n"));
  EXPECT_THAT(why, HasSubstr("replies begin behind"));
  EXPECT_THAT(why, HasSubstr("<turn>model\\n<think>\\n\""));
  // A beginning that all replies have can be cut.
  EXPECT_TRUE(
      Find(Load(Changed("<turn>model\n", "<turn>model\n<think>\n")), {}).ok());
}

TEST(TemplateFrameTest, RefusesRepliesWithoutAnEndToken) {
  // "<more>" is a control token that does not end a reply.
  for (const char* end : {"", "\n<end>", "<more>", "."}) {
    EXPECT_THAT(Why(Changed("model\n{{ m.content }}<end>\n",
                            absl::StrCat("model\n{{ m.content }}", end, "\n"))),
                HasSubstr("does not begin with a token that ends a reply"))
        << end;
  }
}

TEST(TemplateFrameTest, RefusesFirstMessagesThatBeginOtherwise) {
  // A template like Gemma's: the system message stands in the first turn.
  constexpr absl::string_view kInFirst =
      "{% for m in messages %}{% if m.role == 'system' %}<turn>user\n"
      "{{ m.content }}\n\n{% elif m.role == 'user' %}"
      "{% if not (loop.index0 == 1 and messages[0].role == 'system') %}"
      "<turn>user\n{% endif %}{{ m.content }}<end>\n<turn>model\n"
      "{% else %}{{ m.content }}<end>\n{% endif %}{% endfor %}";
  const std::string system = "S";
  EXPECT_THAT(WhyWith(&system, kInFirst), HasSubstr("and the system message"));
  EXPECT_TRUE(Find(Load(kInFirst), {}).ok());
}

TEST(TemplateFrameTest, RefusesTemplatesThatLookBack) {
  // A tag at the newest message alone.
  EXPECT_THAT(Why(Changed("<turn>user\n",
                          "<turn>user\n{% if loop.last %}new {% endif %}")),
              HasSubstr("looks back"));
  // The number of messages.
  EXPECT_THAT(Why(Changed("{{ bos_token }}",
                          "{{ bos_token }}{{ messages | length }}<sys>")),
              HasSubstr("looks back"));
  // Turns have numbers.
  EXPECT_THAT(Why(Changed("<turn>user\n", "<turn>user {{ loop.index }}\n")),
              HasSubstr("looks back"));
  // The first message is marked.
  EXPECT_THAT(Why(Changed("<turn>user\n{{ m.content }}",
                          "<turn>user\n{{ m.content }}"
                          "{% if loop.first %}<more>{% endif %}")),
              HasSubstr("looks back"));
}

// What a template looks for in replies is among its constants.
TEST(TemplateFrameTest, RefusesTemplatesThatChangeReplies) {
  constexpr absl::string_view kReply = "model\n{{ m.content }}";
  for (const char* changed :
       {"{{ m.content.split('</think>')[-1] }}",
        "{{ m.content.split('</r>')[-1] }}",
        "{{ m.content | replace('ping', 'pong') }}",
        "{% if m.content.startswith('[') %}x{% endif %}{{ m.content }}",
        "{{ m.content }}{% if m.content.endswith(']') %}x{% endif %}"}) {
    EXPECT_THAT(Why(Changed(kReply, absl::StrCat("model\n", changed))),
                HasSubstr("does not show the reply"))
        << changed;
  }
  EXPECT_THAT(Why(Changed("user\n{{ m.content }}",
                          "user\n{{ m.content | replace('/no', '') }}")),
              HasSubstr("does not show the message"));
  EXPECT_THAT(Why(Changed("model\n{{ m.content }}",
                          "model\n{% if m.content %}{{ m.content }}"
                          "{% else %}nothing{% endif %}")),
              HasSubstr("does not show the reply \"\""));
}

// A message of the conversation changes what is before it or after it.
TEST(TemplateFrameTest, RefusesTemplatesWhoseMessagesReachFar) {
  EXPECT_THAT(
      Why(Changed("{{ bos_token }}",
                  "{{ bos_token }}{% if '/deep' in messages[-1].content %}"
                  "<sys>deep<end>{% endif %}")),
      HasSubstr("looks back"));
  EXPECT_THAT(
      Why("{% set ns = namespace(seen=false) %}" +
          Changed("<turn>user\n{{ m.content }}",
                  "<turn>user\n{{ m.content }}"
                  "{% if ns.seen %}<more>{% endif %}"
                  "{% if '/more' in m.content %}{% set ns.seen = true %}"
                  "{% endif %}")),
      HasSubstr("does not show the message"));
}

// A template whose constants are those of `n` numbers, and of a role.
std::string WithConstants(size_t n) {
  std::string list;
  for (size_t i = 0; i + 2 < n; ++i) absl::StrAppend(&list, "'", i, "',");
  return absl::StrCat("{% set some = [", list, "] %}", kTurns);
}

TEST(TemplateFrameTest, ConstantsHaveALimit) {
  const auto at = Load(WithConstants(TemplateFrame::kMaxProbes));
  EXPECT_EQ(at.program->strings().size(), TemplateFrame::kMaxProbes);
  EXPECT_TRUE(Find(at, {}).ok());
  EXPECT_THAT(Why(WithConstants(TemplateFrame::kMaxProbes + 1)),
              HasSubstr("513 different constants, more than 512"));
}

TEST(TemplateFrameTest, LongConstantsAreNotLookedFor) {
  const auto with = [](size_t n_bytes) {
    return Changed("model\n{{ m.content }}",
                   absl::StrCat("model\n{{ m.content | replace('",
                                std::string(n_bytes, 'x'), "', '') }}"));
  };
  EXPECT_THAT(Why(with(TemplateFrame::kMaxProbeBytes)),
              HasSubstr("does not show the reply"));
  EXPECT_TRUE(Find(Load(with(TemplateFrame::kMaxProbeBytes + 1)), {}).ok());
}

// What no constant tells is found when the message comes.
TEST(TemplateFrameTest, MessagesAreCheckedWhenTheyCome) {
  const TemplateFixture fixture =
      Load(Changed("user\n{{ m.content }}",
                   "user\n{{ m.content }}{% if m.content | length == 77 and "
                   "loop.first %}!{% endif %}{% if m.content | length == 78 %}"
                   "{{ raise_exception('never 78') }}{% endif %}"));
  const auto frame = Find(fixture, {});
  ASSERT_TRUE(frame.ok()) << frame.status();
  const auto say = [&](size_t n) {
    return (*frame)
        ->EncodeMessage(*fixture.tokenizer, std::string(n, 'x'))
        .status();
  };
  EXPECT_TRUE(say(76).ok());
  EXPECT_EQ(say(77).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(say(77).message()), HasSubstr("other turns"));
  EXPECT_EQ(say(78).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(say(78).message()), HasSubstr("never 78"));
}

TEST(TemplateFrameTest, BytesAreComparedBeforeAnythingIsRendered) {
  const TemplateFixture fixture = Load(kTurns);
  int n_asked = 0;
  const auto stop = [&n_asked] {
    ++n_asked;
    return absl::CancelledError("enough");
  };
  const int64_t span = fixture.tokenizer->longest_span();
  const std::string text(static_cast<size_t>(1'000 * span) + 1, 'x');
  const auto found = [&](int64_t max_tokens) {
    return Find(fixture, {.system = &text,
                          .limits = {.max_tokens = max_tokens, .stop = stop}})
        .status()
        .code();
  };
  EXPECT_EQ(found(1'000), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(n_asked, 0);
  EXPECT_EQ(found(2'000), absl::StatusCode::kCancelled);
  EXPECT_EQ(n_asked, 1);
  const auto frame = Find(fixture, {});
  ASSERT_TRUE(frame.ok()) << frame.status();
  const auto said = [&](int64_t max_tokens) {
    return (*frame)
        ->EncodeMessage(*fixture.tokenizer, text,
                        {.max_tokens = max_tokens, .stop = stop})
        .status()
        .code();
  };
  EXPECT_EQ(said(1'000), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(n_asked, 1);
  EXPECT_EQ(said(2'000), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace plimsoll::worker
