// `plimsoll convert`: makes a GGUF file of a checkpoint's folder.
#include "services/convert/convert.h"

#include <google/protobuf/struct.pb.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "kernels/quant/quantize.h"
#include "services/cli/commands/commands.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/cli/terminal/json.h"
#include "services/cli/terminal/progress.h"
#include "services/cli/terminal/table.h"
#include "services/host/clock.h"
#include "worker/device/host_resources.h"

namespace plimsoll::cli {
namespace {

constexpr char kConvertDescription[] =
    "Convert a checkpoint of safetensors to one GGUF file\n"
    "FOLDER is what Hugging Face's libraries save: config.json, "
    "model.safetensors (or several, with an index) and tokenizer.json; a chat "
    "template and the tokens that end a reply are taken from "
    "tokenizer_config.json, chat_template.jinja and generation_config.json. "
    "Dense models of Llama, Mistral, SmolLM, Qwen 2 and 3, Gemma 1 to 3, Phi "
    "3, Granite 3, OLMo 2 and GLM 4 can be converted.\n"
    "Norms and biases become f32, matrices --type. Some bits a weight: q8_0 "
    "8.5 and hardly any loss, q6_k 6.6, q4_k 4.5, q4_0 4.5 and more loss; with "
    "the last two the embedding and the output become q6_k. Rows that are no "
    "whole blocks of a type become q8_0 or f16.\n"
    "The file appears under its name when it is whole. A conversion that fails "
    "leaves nothing behind.";

constexpr char kConvertFooter[] =
    "Examples:\n"
    "  plimsoll convert Qwen3-0.6B --type q8_0\n"
    "  plimsoll convert Llama-3.2-1B --type q4_k --to llama.gguf\n"
    "  plimsoll verify llama.gguf      # is it what it should be?\n"
    "  plimsoll convert MODEL --type keep --overwrite\n"
    "  plimsoll convert MODEL --pre qwen2   # if its way to cut text is "
    "unknown";

// --type TYPE|keep.
struct TypeFlag {
  std::string name = "q8_0";
  std::optional<DType> dtype = DType::kQ8_0;
};

struct ConvertFlags {
  services::ConvertOptions options;
  TypeFlag type;
  int64_t threads = 0;
  std::string output;
};

absl::StatusOr<TypeFlag> ParseType(absl::string_view text) {
  TypeFlag flag = {absl::AsciiStrToLower(text), std::nullopt};
  if (flag.name == "keep") return flag;
  std::string known;
  for (const DTypeInfo& info : kDTypes) {
    if (!kernels::IsQuantizable(info.dtype)) continue;
    if (absl::EqualsIgnoreCase(info.name, text)) {
      flag.dtype = info.dtype;
      return flag;
    }
    absl::StrAppend(&known, absl::AsciiStrToLower(info.name), ", ");
  }
  return absl::InvalidArgumentError(absl::StrCat("'", text.substr(0, 40),
                                                 "' is not one of ", known,
                                                 "keep (as they are)"));
}

// Fills in what follows from the folder.
void SetDefaults(ConvertFlags& flags) {
  services::ConvertOptions& options = flags.options;
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::canonical(options.folder, error);
  if (options.name.empty()) options.name = folder.filename().string();
  if (options.target.empty()) {
    options.target = absl::StrCat(options.name, "-", flags.type.name, ".gguf");
  }
  options.dtype = flags.type.dtype;
  options.n_threads = flags.threads > 0 ? static_cast<int>(flags.threads)
                                        : worker::UsableThreads();
}

std::string ReportTable(const services::ConvertReport& report,
                        const std::string& target, const Style& style) {
  Table facts({{"converted"}, {Printable(target)}});
  facts.AddRow({"size", FormatBytes(report.file_bytes)});
  facts.AddRow({"architecture", report.architecture});
  facts.AddRow({"tokenizer", Printable(report.tokenizer)});
  facts.AddRow({"chat template", report.has_chat_template
                                     ? "the checkpoint's"
                                     : "none; chat needs --chat-format"});
  for (const auto& [dtype, total] : report.types) {
    facts.AddRow({absl::AsciiStrToLower(DTypeName(dtype)),
                  absl::StrCat(FormatBytes(total.bytes), " in ",
                               FormatCount(total.n_tensors),
                               total.n_tensors == 1 ? " tensor" : " tensors")});
  }
  if (report.n_left_out > 0) {
    facts.AddRow(
        {"left out", absl::StrCat(FormatCount(report.n_left_out),
                                  " tensors that a text model does not need")});
  }
  if (report.n_unused_tokens > 0) {
    facts.AddRow({"unused tokens",
                  absl::StrCat(FormatCount(report.n_unused_tokens),
                               " rows of the embedding have no token")});
  }
  if (report.n_dropped_ends > 0) {
    facts.AddRow({"ends", absl::StrCat(FormatCount(report.n_dropped_ends),
                                       " more tokens end a reply than the file "
                                       "has keys for")});
  }
  return facts.Render(style);
}

google::protobuf::Struct ReportObject(const services::ConvertReport& report,
                                      const std::string& target) {
  google::protobuf::Struct object;
  auto& fields = *object.mutable_fields();
  const auto number = [&fields](const char* name, int64_t value) {
    fields[name].set_number_value(static_cast<double>(value));
  };
  fields["file"].set_string_value(target);
  fields["architecture"].set_string_value(report.architecture);
  fields["tokenizer"].set_string_value(report.tokenizer);
  fields["has_chat_template"].set_bool_value(report.has_chat_template);
  number("bytes", report.file_bytes);
  number("left_out", report.n_left_out);
  number("unused_tokens", report.n_unused_tokens);
  number("dropped_ends", report.n_dropped_ends);
  auto& types = *fields["tensors"].mutable_struct_value()->mutable_fields();
  for (const auto& [dtype, total] : report.types) {
    types[std::string(DTypeName(dtype))].set_number_value(
        static_cast<double>(total.n_tensors));
  }
  return object;
}

absl::Status RunConvert(ConvertFlags flags, const Commands& commands) {
  if (flags.options.folder.empty()) {
    return UsageError(
        "there is no checkpoint; name its folder: plimsoll convert FOLDER");
  }
  const GlobalFlags& globals = commands.globals;
  if (!globals.address.empty() || !globals.planner.empty()) {
    return UsageError(
        "convert works in this process; leave out --address and --planner");
  }
  SetDefaults(flags);
  const services::ConvertOptions& options = flags.options;
  Streams& streams = commands.streams;
  const InterruptScope interrupts;
  Progress progress({.name = options.name, .verb = "converting"},
                    services::BootTime(), streams);
  const auto report = services::Convert(
      options, [&progress](int64_t bytes_done, int64_t bytes_total) {
        if (Interrupted()) return InterruptedError();
        progress.Update(bytes_done, bytes_total, services::BootTime());
        return absl::OkStatus();
      });
  if (absl::IsAlreadyExists(report.status())) {
    return absl::AlreadyExistsError(
        absl::StrCat(report.status().message(),
                     "; --overwrite replaces it, --to names another"));
  }
  if (!report.ok()) return report.status();
  return Show({.message = ReportObject(*report, options.target),
               .text = ReportTable(*report, options.target, streams.out_style)},
              flags.output, streams);
}

}  // namespace

void AddConvert(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("convert", kConvertDescription);
  command->footer(kConvertFooter);
  auto flags = std::make_shared<ConvertFlags>();
  command
      ->add_option("FOLDER", flags->options.folder, "The checkpoint's folder")
      ->type_name("FOLDER");
  command
      ->add_option("--to", flags->options.target,
                   "The GGUF file (the folder's name and the type, here)")
      ->type_name("FILE");
  AddParsed(
      *command, &flags->type, ParseType,
      {.name = "--type",
       .type = "TYPE",
       .help =
           "Type of matrices: f32, f16, bf16, q8_0, q6_k, q4_k, q4_0, or keep "
           "(q8_0)"});
  command->add_flag("--overwrite", flags->options.overwrites,
                    "Replace the file if it exists");
  command
      ->add_option("--name", flags->options.name,
                   "The model's name in the file (the folder's)")
      ->type_name("TEXT");
  command
      ->add_option("--pre", flags->options.pre,
                   "The pre-tokenizer, as tokenizer.ggml.pre names it, where "
                   "tokenizer.json has an expression that is not known")
      ->type_name("NAME");
  AddCount(
      *command, &flags->threads,
      {.name = "--threads",
       .max = worker::EngineOptions::kMaxThreads,
       .type = "T",
       .help =
           "Threads that quantise; 0: as many as this process may use (0)"});
  AddOutput(*command, &flags->output, {"table", "json"});
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunConvert(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
