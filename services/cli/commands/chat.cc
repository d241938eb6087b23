// `plimsoll chat`: holds a conversation in a session, which goes on without
// limit.
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/cli/backends/embedded.h"
#include "services/cli/backends/remote.h"
#include "services/cli/commands/commands.h"
#include "services/cli/flags/request.h"
#include "services/cli/flags/roll_flags.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/input.h"
#include "services/cli/terminal/interrupt.h"
#include "worker/text/utf8.h"

namespace plimsoll::cli {
namespace {

constexpr char kChatDescription[] =
    "Talk with a model\n"
    "A line is a message; the answer comes as it is made. When the context is "
    "full the oldest messages leave with their answers, --system never does, "
    "so a chat may go on for ever.\n"
    "With --address the worker keeps the chat; --session names it, so that it "
    "stays there and can be taken up again.\n"
    "/reset starts anew, /info says what is kept, /exit or end of input ends "
    "it.";

constexpr char kChatFooter[] =
    "Examples:\n"
    "  plimsoll chat --model model.gguf\n"
    "  plimsoll chat --model model.gguf --system 'Answer in one sentence.'\n"
    "  printf 'hello\\nand again\\n' | plimsoll chat --model model.gguf\n"
    "  plimsoll chat --address localhost:7071 --session tuesday";

struct ChatFlags {
  std::string model;
  std::string system;
  std::string chat_format;
  std::string session;
  LoadFlags load;
  SamplingFlags sampling;
  SessionRollFlags roll;
};

// A session that is closed at the end, unless the user named it.
class Conversation {
 public:
  Conversation(const ChatFlags& flags, Generator& generator, Streams& streams)
      : flags_(flags), generator_(generator), streams_(streams) {}
  ~Conversation() {
    if (flags_.session.empty()) Close().IgnoreError();
  }
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  // Opens the session, or continues the one with the user's name.
  absl::Status Open() {
    v1::OpenSessionRequest request;
    request.set_model(flags_.model);
    request.set_session_id(flags_.session);
    if (!flags_.system.empty()) request.set_system(flags_.system);
    if (!flags_.chat_format.empty()) {
      request.set_chat_format(flags_.chat_format);
    }
    SetRoll(flags_.roll, request);
    const auto opened = generator_.OpenSession(request);
    if (absl::IsAlreadyExists(opened.status())) return TakeUp();
    RETURN_IF_ERROR(opened.status());
    id_ = opened->session_id();
    return absl::OkStatus();
  }

  absl::Status Close() {
    if (id_.empty()) return absl::OkStatus();
    v1::CloseSessionRequest request;
    request.set_model(flags_.model);
    request.set_session_id(std::exchange(id_, ""));
    return generator_.CloseSession(request);
  }

  absl::Status Reset() {
    RETURN_IF_ERROR(Close());
    return Open();
  }

  // Sends one message and prints the reply.
  absl::Status Say(std::string message) {
    const InterruptScope interrupts;
    const v1::StreamGenerateRequest wanted =
        ToRequest(flags_.sampling, flags_.load.draft_tokens);
    v1::ChatRequest request;
    request.set_model(flags_.model);
    request.set_session_id(id_);
    request.set_message(std::move(message));
    *request.mutable_sampling() = wanted.sampling();
    *request.mutable_stopping() = wanted.stopping();
    *request.mutable_response() = wanted.response();
    ASSIGN_OR_RETURN(const auto stream, generator_.Chat(request));
    const auto response = Collect(*stream, [this](const auto& part) {
      if (!part.text().empty()) streams_.out << part.text() << std::flush;
    });
    RETURN_IF_ERROR(response.status());
    streams_.out << "\n" << std::flush;
    for (const v1::Eviction& eviction : response->evictions()) {
      streams_.err << Paint(streams_.err_style, Color::kDim,
                            EvictionText(eviction))
                   << "\n";
    }
    return absl::OkStatus();
  }

  absl::Status Info() {
    ASSIGN_OR_RETURN(const v1::Session session, Get());
    streams_.err << InfoText(session) << "\n";
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<v1::Session> Get() {
    v1::GetSessionRequest request;
    request.set_model(flags_.model);
    request.set_session_id(id_);
    return generator_.GetSession(request);
  }

  absl::Status TakeUp() {
    id_ = flags_.session;
    ASSIGN_OR_RETURN(const v1::Session session, Get());
    streams_.err << "going on with " << InfoText(session) << "\n";
    return absl::OkStatus();
  }

  static std::string EvictionText(const v1::Eviction& eviction) {
    return absl::StrCat("(the context was full: ",
                        eviction.has_turns()
                            ? absl::StrCat(eviction.turns(), " oldest turns, ")
                            : "",
                        eviction.tokens(), " tokens, left it)");
  }

  static std::string InfoText(const v1::Session& session) {
    return absl::StrCat("session ", Printable(session.session_id()), ": ",
                        session.turns(), " turns, ", session.live_turns(),
                        " of them in the context, ", session.live_tokens(),
                        " of ", session.capacity_tokens(), " tokens");
  }

  const ChatFlags& flags_;
  Generator& generator_;
  Streams& streams_;
  std::string id_;  // empty while there is none
};

absl::StatusOr<std::unique_ptr<Generator>> MakeGenerator(
    const ChatFlags& flags, const Commands& commands) {
  if (!commands.globals.address.empty()) {
    return NewRemoteGenerator(commands.globals.address);
  }
  if (!flags.session.empty()) {
    return UsageError(
        "--session names a chat that a worker keeps; give --address HOST:PORT");
  }
  if (flags.model.empty()) {
    return UsageError(
        "there is no model; give --model FILE, or --address HOST:PORT of a "
        "worker");
  }
  const InterruptScope interrupts;
  ASSIGN_OR_RETURN(
      LoadedModel model,
      LoadHere(flags.model, flags.load,
               {.wanted = true, .name = flags.chat_format, .is_session = true},
               commands.streams));
  return NewEmbeddedGenerator(std::move(model));
}

absl::Status RunChat(const ChatFlags& flags, const Commands& commands) {
  Streams& streams = commands.streams;
  if (!worker::IsValidUtf8(flags.system)) {
    return UsageError("--system is not UTF-8");
  }
  ASSIGN_OR_RETURN(const auto generator, MakeGenerator(flags, commands));
  Conversation conversation(flags, *generator, streams);
  RETURN_IF_ERROR(conversation.Open());
  while (true) {
    if (streams.err_style.is_tty && streams.out_style.is_tty) {
      streams.err << Paint(streams.err_style, Color::kBold, "> ") << std::flush;
    }
    ASSIGN_OR_RETURN(const auto line, ReadLine(streams.in, kMaxLineBytes));
    if (!line.has_value()) return absl::OkStatus();
    const absl::string_view text = absl::StripAsciiWhitespace(*line);
    if (text.empty()) continue;
    if (text == "/exit") return absl::OkStatus();
    if (text == "/reset") {
      RETURN_IF_ERROR(conversation.Reset());
      continue;
    }
    if (text == "/info") {
      RETURN_IF_ERROR(conversation.Info());
      continue;
    }
    if (!worker::IsValidUtf8(text)) {
      streams.err << "that line is not UTF-8 and was left out\n";
      continue;
    }
    const absl::Status said = conversation.Say(std::string(text));
    if (absl::IsOutOfRange(said)) {
      streams.err << Printable(said.message()) << "\n";
      continue;
    }
    RETURN_IF_ERROR(said);
  }
}

}  // namespace

void AddChat(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("chat", kChatDescription);
  command->footer(kChatFooter);
  auto flags = std::make_shared<ChatFlags>();
  const auto add = [&](const char* name, std::string* out, const char* type,
                       const char* help) {
    command->add_option(name, *out, help)->type_name(type);
  };
  add("--model", &flags->model, "FILE",
      "A GGUF file, a name in the cache, or with --address a configured model");
  add("--system", &flags->system, "TEXT", "Instructions to the model");
  add("--chat-format", &flags->chat_format, "NAME",
      "smollm2, chatml, gemma3 or functiongemma, instead of the model's own");
  add("--session", &flags->session, "ID",
      "With --address: a chat of this name, which stays when the command ends");
  AddLoadFlags(*command, &flags->load);
  AddSamplingFlags(*command, &flags->sampling);
  AddSessionRollFlags(*command, &flags->roll);
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunChat(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
