// `plimsoll template`: renders a conversation with a chat template.
#include "worker/text/jinja/syntax/template.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "services/cli/commands/commands.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/input.h"
#include "services/host/clock.h"
#include "worker/text/jinja/json_value.h"
#include "worker/text/jinja/syntax/parser.h"

namespace plimsoll::cli {
namespace {

namespace jinja = worker::jinja;

constexpr char kTemplateDescription[] =
    "Render a conversation with a chat template\n"
    "The template is the model file's own, or the one of --template. It is run "
    "as transformers runs it, and its output is printed byte for byte, without "
    "an added line feed. No weights are read.";

constexpr char kTemplateFooter[] =
    "Examples:\n"
    "  plimsoll template model.gguf --messages chat.json\n"
    "  plimsoll template --template chat.jinja --messages chat.json \\\n"
    "      --tools tools.json --set enable_thinking=false\n"
    "\n"
    "The messages are what a template expects: an array of objects with role\n"
    "and content. Exit code 1 with the template's line if it fails.";

constexpr int64_t kMaxJsonBytes = int64_t{32} << 20;

struct TemplateFlags {
  std::string model;
  std::string file;
  std::string messages;
  std::string tools;
  std::vector<std::string> values;  // name=JSON
  bool no_generation_prompt = false;
};

// The JSON in a file as a value whose text is no template's.
absl::StatusOr<jinja::Value> ReadJson(const std::string& path,
                                      std::istream& in) {
  ASSIGN_OR_RETURN(const std::string json, ReadText(path, in, kMaxJsonBytes));
  auto value = jinja::FromJson(json, /*is_tainted=*/true);
  if (value.ok()) return value;
  return Prefixed(absl::StrCat(Printable(path), ": "), value.status());
}

absl::Status SetText(absl::string_view name, const worker::Tokenizer& tokenizer,
                     int32_t id, jinja::Dict& variables) {
  std::string text;
  tokenizer.AppendBytes(id, worker::RenderSpecial::kYes, text);
  return variables.Set(jinja::Value::String(name), jinja::Value::String(text));
}

// Adds what the model's file says, and returns its template, which is empty if
// it has none.
absl::StatusOr<std::string> UseModel(const std::string& model,
                                     jinja::Dict& variables) {
  ASSIGN_OR_RETURN(const auto tokenizer, OpenTokenizer(model));
  ASSIGN_OR_RETURN(const planner::GgufHeader header,
                   worker::ModelFile::ReadHeader(ResolveModel(model)));
  ASSIGN_OR_RETURN(const auto eos, header.Int("tokenizer.ggml.eos_token_id"));
  if (tokenizer->bos()) {
    RETURN_IF_ERROR(
        SetText("bos_token", *tokenizer, *tokenizer->bos(), variables));
  }
  if (eos && *eos >= 0 && *eos < tokenizer->vocab_size()) {
    RETURN_IF_ERROR(SetText("eos_token", *tokenizer, static_cast<int32_t>(*eos),
                            variables));
  }
  ASSIGN_OR_RETURN(const auto text, header.String("tokenizer.chat_template"));
  return text.value_or("");
}

// Adds the variable of `name=JSON`.
absl::Status SetValue(const std::string& text, jinja::Dict& variables) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return UsageError(
        absl::StrCat("--set takes name=JSON, not '", Printable(text), "'"));
  }
  auto value = jinja::FromJson(text.substr(equals + 1), /*is_tainted=*/false);
  if (!value.ok()) {
    return UsageError(absl::StrCat("--set ", Printable(text.substr(0, equals)),
                                   ": ", value.status().message()));
  }
  return variables.Set(jinja::Value::String(text.substr(0, equals)),
                       *std::move(value));
}

absl::Status RunTemplate(const TemplateFlags& flags, const Commands& commands) {
  if (flags.model.empty() && flags.file.empty()) {
    return UsageError(
        "there is no template; name a model's file, or give --template FILE");
  }
  if (flags.messages.empty()) {
    return UsageError(
        "there is no conversation; give --messages FILE (- for standard "
        "input)");
  }
  std::istream& in = commands.streams.in;
  jinja::Dict variables;
  std::string source;
  if (!flags.model.empty()) {
    ASSIGN_OR_RETURN(source, UseModel(flags.model, variables));
  }
  if (!flags.file.empty()) {
    ASSIGN_OR_RETURN(source,
                     ReadText(flags.file, in, jinja::kMaxTemplateBytes));
  } else if (source.empty()) {
    return absl::NotFoundError(
        absl::StrCat(Printable(flags.model),
                     " has no chat template; give one with --template FILE"));
  }
  const auto set = [&variables](absl::string_view name, jinja::Value value) {
    return variables.Set(jinja::Value::String(name), std::move(value));
  };
  ASSIGN_OR_RETURN(jinja::Value messages, ReadJson(flags.messages, in));
  RETURN_IF_ERROR(set("messages", std::move(messages)));
  if (!flags.tools.empty()) {
    ASSIGN_OR_RETURN(jinja::Value tools, ReadJson(flags.tools, in));
    RETURN_IF_ERROR(set("tools", std::move(tools)));
  }
  RETURN_IF_ERROR(
      set("add_generation_prompt", jinja::Value(!flags.no_generation_prompt)));
  for (const std::string& value : flags.values) {
    RETURN_IF_ERROR(SetValue(value, variables));
  }
  ASSIGN_OR_RETURN(const jinja::Template parsed,
                   jinja::Template::Parse(source));
  ASSIGN_OR_RETURN(
      const jinja::Text text,
      parsed.Render(variables,
                    {.now = absl::Now(), .time_zone = absl::LocalTimeZone()}));
  commands.streams.out << text.bytes();
  return absl::OkStatus();
}

}  // namespace

void AddTemplate(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("template", kTemplateDescription);
  command->footer(kTemplateFooter);
  auto flags = std::make_shared<TemplateFlags>();
  const auto add = [command](const std::string& name, std::string* out,
                             const std::string& help) {
    command->add_option(name, *out, help)->type_name("FILE");
  };
  add("MODEL,--model", &flags->model, "A GGUF file, or a name in the cache");
  add("--template", &flags->file, "The template, instead of the model's own");
  add("--messages", &flags->messages,
      "A JSON array of messages; - is standard input");
  add("--tools", &flags->tools, "A JSON array of tools");
  command
      ->add_option("--set", flags->values,
                   "One more variable for the template; may come again")
      ->type_name("NAME=JSON")
      ->allow_extra_args(false);
  command->add_flag("--no-generation-prompt", flags->no_generation_prompt,
                    "End with the last message, not with the opening of the "
                    "assistant's turn");
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunTemplate(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
