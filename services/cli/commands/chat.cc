// `plimsoll chat`: holds a conversation in a session, which goes on without
// limit.
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "services/cli/backends/embedded.h"
#include "services/cli/backends/embedded_generator.h"
#include "services/cli/backends/remote_generator.h"
#include "services/cli/chat/chat_console.h"
#include "services/cli/chat/history_file.h"
#include "services/cli/chat/line_editor.h"
#include "services/cli/commands/commands.h"
#include "services/cli/flags/roll_flags.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/cli/terminal/terminal.h"
#include "worker/text/utf8.h"

namespace plimsoll::cli {
namespace {

constexpr char kChatDescription[] =
    "Talk with a model\n"
    "A line is a message, and the answer streams. When the context is full, "
    "the oldest messages leave with their answers, but --system never does, so "
    "a chat may go on for ever.\n"
    "Lines that begin with / are commands, and /help lists them: /regenerate "
    "and /undo take back what was said, /system changes the instructions, /set "
    "changes how replies are drawn, /save and /load keep the chat in a file, "
    "/memory shows the model's memory, /info shows what is kept, /reset begins "
    "anew, and /exit or the end of input ends the chat. A message that begins "
    "with a slash is written with two.\n"
    "A line that ends with \\ goes on in the next one. \"\"\" begins and ends "
    "a message of several lines. At a terminal, lines can be edited, the up "
    "key brings earlier ones back, and Ctrl-C stops a reply.\n"
    "With --address the worker keeps the chat; --session names it, so that it "
    "stays there and can be taken up again.";

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
      LoadHere(flags.model,
               {.flags = flags.load,
                .chat = {.wanted = true, .name = flags.chat_format}},
               commands.streams));
  return NewEmbeddedGenerator(std::move(model));
}

absl::Status RunChat(const ChatFlags& flags, const Commands& commands) {
  Streams& streams = commands.streams;
  if (!worker::IsValidUtf8(flags.system)) {
    return UsageError("--system is not UTF-8");
  }
  ASSIGN_OR_RETURN(const auto generator, MakeGenerator(flags, commands));
  ChatConsoleOptions options = {
      .conversation = {.model = flags.model,
                       .session = flags.session,
                       .chat_format = flags.chat_format,
                       .roll = flags.roll},
      .system = std::nullopt,
      .sampling = flags.sampling,
      .draft_tokens = flags.load.draft_tokens,
      .columns = [&streams] {
        return WindowColumns(STDOUT_FILENO).value_or(streams.out_style.width);
      }};
  if (!flags.system.empty()) options.system = flags.system;
  std::unique_ptr<LineReader> reader;
  if (streams.in_is_tty && streams.err_style.is_tty) {
    reader = NewLineEditor(HistoryPath(), streams.err_style);
  }
  if (reader == nullptr) reader = NewPlainReader(streams);
  return ChatConsole(std::move(options), *generator, *reader, streams).Run();
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
