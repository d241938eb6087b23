// `plimsoll chat`: a conversation, prefilled again every turn, until its
// context is full.
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/cli/commands.h"
#include "services/cli/embedded.h"
#include "services/cli/failure.h"
#include "services/cli/input.h"
#include "services/cli/interrupt.h"
#include "services/cli/remote.h"
#include "services/cli/request.h"
#include "worker/utf8.h"

namespace plimsoll::cli {
namespace {

constexpr char kDescription[] =
    "Talk with a model\n"
    "A line is a message; the answer comes as it is made. The conversation "
    "ends when its context is full.\n"
    "/reset starts anew, /exit or end of input ends it.";

constexpr char kFooter[] =
    "Examples:\n"
    "  plimsoll chat --model model.gguf\n"
    "  plimsoll chat --model model.gguf --system 'Answer in one sentence.'\n"
    "  printf 'hello\\nand again\\n' | plimsoll chat --model model.gguf";

struct ChatFlags {
  std::string model;
  std::string system;
  std::string chat_format;
  LoadFlags load;
  SamplingFlags sampling;
};

class Conversation {
 public:
  Conversation(const ChatFlags& flags, Generator& generator, Streams& streams)
      : flags_(flags), generator_(generator), streams_(streams) {
    Reset();
  }

  void Reset() {
    chat_.Clear();
    if (!flags_.chat_format.empty()) {
      chat_.set_chat_format(flags_.chat_format);
    }
    if (!flags_.system.empty()) {
      AddMessage(v1::CHAT_ROLE_SYSTEM, flags_.system, chat_);
    }
  }

  // One turn. True if the conversation can go on.
  absl::StatusOr<bool> Say(std::string message) {
    const InterruptScope interrupts;
    AddMessage(v1::CHAT_ROLE_USER, std::move(message), chat_);
    const auto response = Answer();
    if (response.status().code() == absl::StatusCode::kOutOfRange) {
      streams_.err << "the context is full: "
                   << Printable(response.status().message()) << "\n";
      return false;
    }
    RETURN_IF_ERROR(response.status());
    streams_.out << "\n" << std::flush;
    if (response->finish_reason() == v1::FINISH_REASON_LENGTH) {
      const v1::TokenUsage& usage = response->usage();
      streams_.err << "the context is full after " << usage.prompt_tokens()
                   << " + " << usage.generated_tokens()
                   << " tokens; --n-ctx makes it longer\n";
      return false;
    }
    AddMessage(v1::CHAT_ROLE_ASSISTANT, response->text(), chat_);
    return true;
  }

 private:
  absl::StatusOr<v1::GenerateResponse> Answer() {
    v1::StreamGenerateRequest request = ToRequest(flags_.sampling);
    request.set_model(flags_.model);
    *request.mutable_chat() = chat_;
    ASSIGN_OR_RETURN(const auto stream, generator_.Start(request));
    return Collect(*stream, [this](const v1::StreamGenerateResponse& part) {
      if (!part.text().empty()) streams_.out << part.text() << std::flush;
    });
  }

  const ChatFlags& flags_;
  Generator& generator_;
  Streams& streams_;
  v1::ChatPrompt chat_;
};

absl::StatusOr<std::unique_ptr<Generator>> MakeGenerator(
    const ChatFlags& flags, const Commands& commands) {
  if (!commands.globals.address.empty()) {
    return NewRemoteGenerator(commands.globals.address);
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
               {.wanted = true, .name = flags.chat_format}, commands.streams));
  return NewEmbeddedGenerator(std::move(model));
}

absl::Status RunChat(const ChatFlags& flags, const Commands& commands) {
  Streams& streams = commands.streams;
  if (!worker::IsValidUtf8(flags.system)) {
    return UsageError("--system is not UTF-8");
  }
  ASSIGN_OR_RETURN(const auto generator, MakeGenerator(flags, commands));
  Conversation conversation(flags, *generator, streams);
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
      conversation.Reset();
      continue;
    }
    if (!worker::IsValidUtf8(text)) {
      streams.err << "that line is not UTF-8 and was left out\n";
      continue;
    }
    ASSIGN_OR_RETURN(const bool go_on, conversation.Say(std::string(text)));
    if (!go_on) return absl::OkStatus();
  }
}

}  // namespace

void AddChat(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("chat", kDescription);
  command->footer(kFooter);
  auto flags = std::make_shared<ChatFlags>();
  const auto add = [&](const char* name, std::string* out, const char* type,
                       const char* help) {
    command->add_option(name, *out, help)->type_name(type);
  };
  add("--model", &flags->model, "FILE",
      "A GGUF file, a name in the cache, or with --address a configured model");
  add("--system", &flags->system, "TEXT", "Instructions to the model");
  add("--chat-format", &flags->chat_format, "NAME",
      "smollm2, chatml or gemma3, instead of the model's own");
  AddLoadFlags(*command, &flags->load);
  AddSamplingFlags(*command, &flags->sampling);
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunChat(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
