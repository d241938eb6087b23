// `plimsoll generate`: generates text from a prompt and prints it at once or as
// it comes.
#include "services/cli/commands/generate.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "services/cli/backends/embedded.h"
#include "services/cli/backends/embedded_generator.h"
#include "services/cli/backends/remote_generator.h"
#include "services/cli/commands/commands.h"
#include "services/cli/flags/request.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/input.h"
#include "services/cli/terminal/interrupt.h"
#include "services/cli/terminal/json.h"
#include "worker/text/utf8.h"

namespace plimsoll::cli {
namespace {

constexpr char kGenerateDescription[] =
    "Generate text from a prompt\n"
    "The prompt is one user message in the model's chat format; with --raw it "
    "is the text itself. Without --n-ctx the context is what the model was "
    "trained for, at most 4096 tokens. Exit code 3 if the model does not fit.";

constexpr char kGenerateFooter[] =
    "Examples:\n"
    "  plimsoll generate --model model.gguf --prompt 'Why is the sea salty?'\n"
    "  echo 'Once upon a time' | plimsoll generate --model model.gguf \\\n"
    "      --file - --raw --max-tokens 64 --temperature 0 -o json\n"
    "  plimsoll generate --model model.gguf --batch prompts.jsonl --slots 4\n"
    "  plimsoll generate --address localhost:7071 --prompt hello\n"
    "  plimsoll generate --model model.gguf --prompt 'Name a port city.' \\\n"
    "      --json-schema city.json\n"
    "  plimsoll generate --model functiongemma.gguf --tools lamps.json \\\n"
    "      --prompt 'Light in the hall, please.'\n"
    "\n"
    "A line of prompts.jsonl is {\"prompt\": \"...\"}; other fields are "
    "ignored.";

absl::Status CheckFlags(const GenerateFlags& flags,
                        const GlobalFlags& globals) {
  const int n_prompts = (flags.prompt.has_value() ? 1 : 0) +
                        (flags.file.empty() ? 0 : 1) +
                        (flags.batch.empty() ? 0 : 1);
  if (n_prompts != 1) {
    return UsageError(absl::StrCat(
        n_prompts == 0 ? "there is no prompt" : "there is more than one prompt",
        "; give one of --prompt TEXT, --file FILE (- for standard input) or "
        "--batch PROMPTS.jsonl"));
  }
  if (flags.model.empty() && globals.address.empty()) {
    return UsageError(
        "there is no model; give --model FILE, or --address HOST:PORT of a "
        "worker");
  }
  if (flags.raw && !(flags.system.empty() && flags.chat_format.empty() &&
                     flags.tool_flags.file.empty() &&
                     !flags.sampling.max_reasoning_tokens.has_value())) {
    return UsageError(
        "--raw has no chat format, so --system, --chat-format, --tools and "
        "--max-reasoning-tokens mean nothing with it; leave out one or the "
        "other");
  }
  if (flags.tool_flags.must && flags.tool_flags.file.empty()) {
    return UsageError("--must-call needs --tools FILE");
  }
  RETURN_IF_ERROR(
      CheckConstraintFlags(flags.constraint, flags.sampling.ignore_eos));
  const int n_inputs = (flags.file == "-" ? 1 : 0) +
                       (flags.batch == "-" ? 1 : 0) +
                       (flags.tool_flags.file == "-" ? 1 : 0) +
                       (flags.constraint.json_schema == "-" ? 1 : 0) +
                       (flags.constraint.grammar == "-" ? 1 : 0);
  if (n_inputs > 1) {
    return UsageError("standard input can be read once; give one - only");
  }
  return CheckRollFlags(flags.roll);
}

absl::StatusOr<std::unique_ptr<Generator>> MakeGenerator(
    const GenerateFlags& flags, const Commands& commands) {
  if (!commands.globals.address.empty()) {
    return NewRemoteGenerator(commands.globals.address);
  }
  ASSIGN_OR_RETURN(
      LoadedModel model,
      LoadHere(flags.model,
               {.flags = flags.load,
                .chat = {.wanted = !flags.raw, .name = flags.chat_format}},
               commands.streams));
  return NewEmbeddedGenerator(std::move(model));
}

// Prints one line about the reply's speed, for users who watch.
void PrintSummary(const v1::GenerateResponse& response, Streams& streams) {
  const v1::TokenUsage& usage = response.usage();
  if (response.finish_reason() == v1::FINISH_REASON_LENGTH) {
    streams.err << "note: the context is full after " << usage.prompt_tokens()
                << " + " << usage.generated_tokens()
                << " tokens; --n-ctx makes it longer, --context-policy roll "
                   "goes on without the oldest\n";
  }
  if (!streams.err_style.is_tty) return;
  std::string line = absl::StrCat(usage.prompt_tokens(), " + ",
                                  usage.generated_tokens(), " tokens");
  if (response.timing().has_decode_tokens_per_s()) {
    absl::StrAppend(&line,
                    absl::StrFormat(", %.1f tokens/s",
                                    response.timing().decode_tokens_per_s()));
  }
  if (usage.evicted_tokens() > 0) {
    absl::StrAppend(&line, ", ", usage.evicted_tokens(),
                    " tokens left the context");
  }
  streams.err << Paint(streams.err_style, Color::kDim, line) << "\n";
}

absl::Status RunOne(Generator& generator, std::string prompt,
                    const GenerateFlags& flags, Streams& streams) {
  ASSIGN_OR_RETURN(const v1::StreamGenerateRequest request,
                   RequestFor(std::move(prompt), flags));
  ASSIGN_OR_RETURN(const auto stream, generator.Start(request));
  const bool is_json = flags.output == "json";
  // A reply that was cut also ends its line before the error is printed.
  bool is_line_open = false;
  const auto response =
      Collect(*stream, [&](const v1::StreamGenerateResponse& part) {
        if (is_json) return;
        if (!part.reasoning().empty()) {
          streams.err << Paint(streams.err_style, Color::kDim, part.reasoning())
                      << std::flush;
        }
        if (!part.text().empty()) {
          streams.out << part.text() << std::flush;
          is_line_open = !absl::EndsWith(part.text(), "\n");
        }
        for (const v1::ToolCall& call : part.tool_calls()) {
          if (std::exchange(is_line_open, false)) streams.out << "\n";
          streams.out << ToolCallLine(call) << std::flush;
        }
      });
  if (is_json) {
    RETURN_IF_ERROR(response.status());
    return PrintJson(*response, streams.out);
  }
  if (is_line_open) streams.out << "\n" << std::flush;
  RETURN_IF_ERROR(response.status());
  PrintSummary(*response, streams);
  return absl::OkStatus();
}

absl::Status RunGenerate(const GenerateFlags& given, Commands& commands) {
  RETURN_IF_ERROR(CheckFlags(given, commands.globals));
  Streams& streams = commands.streams;
  std::string prompt;
  if (given.prompt.has_value()) {
    prompt = *given.prompt;
  } else if (!given.file.empty()) {
    ASSIGN_OR_RETURN(prompt, ReadText(given.file, streams.in,
                                      worker::Tokenizer::kMaxTextBytes));
  }
  GenerateFlags flags = given;
  ASSIGN_OR_RETURN(flags.output_constraint,
                   ReadConstraint(flags.constraint, streams.in));
  ASSIGN_OR_RETURN(flags.tools, ReadTools(flags.tool_flags.file, streams.in));
  const InterruptScope interrupts;
  ASSIGN_OR_RETURN(const auto generator, MakeGenerator(flags, commands));
  if (!flags.batch.empty()) return RunBatch(*generator, flags, streams);
  return RunOne(*generator, std::move(prompt), flags, streams);
}

}  // namespace

absl::StatusOr<v1::StreamGenerateRequest> RequestFor(
    std::string prompt, const GenerateFlags& flags) {
  v1::StreamGenerateRequest request =
      ToRequest(flags.sampling, flags.load.draft_tokens);
  request.set_model(flags.model);
  SetRoll(flags.roll, request);
  if (flags.output_constraint.has_value()) {
    *request.mutable_constraint() = *flags.output_constraint;
  }
  if (flags.raw) {
    SetRawPrompt(std::move(prompt), request);
    return request;
  }
  if (!worker::IsValidUtf8(prompt) || !worker::IsValidUtf8(flags.system)) {
    return absl::InvalidArgumentError(
        "the prompt is not UTF-8, as chat messages must be; --raw takes any "
        "bytes");
  }
  v1::ChatPrompt& chat = *request.mutable_chat();
  if (!flags.chat_format.empty()) chat.set_chat_format(flags.chat_format);
  if (!flags.system.empty()) {
    AddMessage(v1::CHAT_ROLE_SYSTEM, flags.system, chat);
  }
  AddMessage(v1::CHAT_ROLE_USER, std::move(prompt), chat);
  if (flags.tool_flags.must) chat.set_tool_choice(v1::TOOL_CHOICE_REQUIRED);
  // Without tools, people read what the model wrote.
  chat.set_split_reply(!flags.tools.empty());
  *chat.mutable_tools() = {flags.tools.begin(), flags.tools.end()};
  return request;
}

void AddGenerate(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("generate", kGenerateDescription);
  command->footer(kGenerateFooter);
  auto flags = std::make_shared<GenerateFlags>();
  const auto add = [&](const char* name, std::string* out, const char* type,
                       const char* help) {
    command->add_option(name, *out, help)->type_name(type);
  };
  add("--model", &flags->model, "FILE",
      "A GGUF file, a name in the cache, or with --address a configured model");
  command->add_option("--prompt", flags->prompt, "The prompt")
      ->type_name("TEXT");
  add("--file", &flags->file, "FILE",
      "The prompt is in this file; - is standard input");
  add("--batch", &flags->batch, "FILE",
      "A prompt a line, as {\"prompt\": ...}; prints a JSON object a line, in "
      "order");
  command->add_flag("--raw", flags->raw,
                    "No chat format: the text itself, with BOS if the model "
                    "wants it; special tokens are parsed");
  add("--system", &flags->system, "TEXT", "Instructions before the prompt");
  add("--chat-format", &flags->chat_format, "NAME",
      "smollm2, chatml, gemma3 or functiongemma, instead of the model's own");
  AddOutput(*command, &flags->output, {"text", "json"});
  AddLoadFlags(*command, &flags->load);
  AddSamplingFlags(*command, &flags->sampling);
  AddCount(
      *command, &flags->sampling.max_reasoning_tokens,
      {.name = "--max-reasoning-tokens",
       .max = std::numeric_limits<int32_t>::max(),
       .help =
           "Tokens of reasoning before it is ended; 0: no reasoning; default: "
           "as many as the model likes"})
      ->group("Sampling");
  AddRollFlags(*command, &flags->roll);
  AddConstraintFlags(*command, &flags->constraint);
  AddToolFlags(*command, &flags->tool_flags);
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunGenerate(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
