// `plimsoll tokenize`: converts text to token ids and back.
#include <limits>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "plimsoll/v1/tokenizer.grpc.pb.h"
#include "services/cli/backends/remote.h"
#include "services/cli/commands/commands.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/input.h"
#include "services/cli/terminal/json.h"
#include "services/wire/to_proto.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::cli {
namespace {

constexpr char kTokenizeDescription[] =
    "Turn text into a model's token ids, or ids into text\n"
    "Reads the file's header only, no weights. The text may be any bytes. "
    "Without --special the text of control tokens stays text and no BOS is "
    "added; with it both are as the model's own rules say.";

constexpr char kTokenizeFooter[] =
    "Examples:\n"
    "  plimsoll tokenize --model model.gguf --text 'Hello, world'\n"
    "  plimsoll tokenize --model model.gguf --file - --special -o json < "
    "f.txt\n"
    "  echo 9259 1902 | plimsoll tokenize --model model.gguf --file - \\\n"
    "      --detokenize";

struct TokenizeFlags {
  std::string model;
  std::optional<std::string> text;
  std::string file;
  bool special = false;
  bool detokenize = false;
  std::string output;
};

absl::StatusOr<v1::TokenizeResponse> TokenizeHere(const TokenizeFlags& flags,
                                                  const std::string& text) {
  ASSIGN_OR_RETURN(const auto tokenizer, OpenTokenizer(flags.model));
  ASSIGN_OR_RETURN(
      const std::vector<int32_t> ids,
      flags.special ? tokenizer->EncodeWithBos(text, worker::ParseSpecial::kYes)
                    : tokenizer->Encode(text, worker::ParseSpecial::kNo));
  v1::TokenizeResponse response;
  for (int32_t id : ids) response.add_ids(services::ToUint32(id));
  return response;
}

absl::StatusOr<v1::TokenizeResponse> TokenizeThere(const TokenizeFlags& flags,
                                                   const std::string& text,
                                                   const Endpoint& address) {
  v1::TokenizeRequest request;
  request.set_model(flags.model);
  request.set_raw_text(text);
  request.set_add_bos(flags.special);
  request.set_parse_special(flags.special);
  const auto stub = v1::TokenizerService::NewStub(Connect(address));
  v1::TokenizeResponse response;
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub->async()->Tokenize(context, &request, &response, std::move(done));
      },
      address));
  return response;
}

absl::StatusOr<std::vector<int32_t>> ParseIds(const std::string& text) {
  std::vector<int32_t> ids;
  for (absl::string_view word :
       absl::StrSplit(text, absl::ByAnyChar(" ,\t\r\n[]"), absl::SkipEmpty())) {
    ASSIGN_OR_RETURN(const int64_t id,
                     ParseCount(word, 0, std::numeric_limits<int32_t>::max()));
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

absl::StatusOr<v1::DetokenizeResponse> DetokenizeHere(
    const TokenizeFlags& flags, const std::vector<int32_t>& ids) {
  ASSIGN_OR_RETURN(const auto tokenizer, OpenTokenizer(flags.model));
  for (int32_t id : ids) {
    if (id >= tokenizer->vocab_size()) {
      return absl::InvalidArgumentError(absl::StrCat("there is no token ", id,
                                                     "; the vocabulary has ",
                                                     tokenizer->vocab_size()));
    }
  }
  v1::DetokenizeResponse response;
  response.set_text(
      tokenizer->Decode(ids, worker::RenderSpecialIf(flags.special)));
  return response;
}

absl::StatusOr<v1::DetokenizeResponse> DetokenizeThere(
    const TokenizeFlags& flags, const std::vector<int32_t>& ids,
    const Endpoint& address) {
  v1::DetokenizeRequest request;
  request.set_model(flags.model);
  for (int32_t id : ids) request.add_ids(services::ToUint32(id));
  request.set_render_special(flags.special);
  const auto stub = v1::TokenizerService::NewStub(Connect(address));
  v1::DetokenizeResponse response;
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub->async()->Detokenize(context, &request, &response,
                                  std::move(done));
      },
      address));
  return response;
}

absl::Status PrintText(const TokenizeFlags& flags, const std::string& input,
                       const Commands& commands) {
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, ParseIds(input));
  const Endpoint& address = commands.globals.address;
  ASSIGN_OR_RETURN(const v1::DetokenizeResponse response,
                   address.empty() ? DetokenizeHere(flags, ids)
                                   : DetokenizeThere(flags, ids, address));
  if (flags.output == "json") {
    return PrintJson(response, commands.streams.out, JsonForm::kLine);
  }
  commands.streams.out << response.text() << "\n";
  return absl::OkStatus();
}

absl::Status RunTokenize(const TokenizeFlags& flags, const Commands& commands) {
  if (flags.text.has_value() == !flags.file.empty()) {
    return UsageError(
        "give the text by --text TEXT or by --file FILE (- for standard "
        "input)");
  }
  const Endpoint& address = commands.globals.address;
  if (flags.model.empty() && address.empty()) {
    return UsageError("there is no model; give --model FILE");
  }
  std::string text = flags.text.value_or("");
  if (!flags.file.empty()) {
    ASSIGN_OR_RETURN(text, ReadText(flags.file, commands.streams.in,
                                    worker::Tokenizer::kMaxTextBytes));
  }
  if (flags.detokenize) return PrintText(flags, text, commands);
  ASSIGN_OR_RETURN(const v1::TokenizeResponse response,
                   address.empty() ? TokenizeHere(flags, text)
                                   : TokenizeThere(flags, text, address));
  if (flags.output == "json") {
    return PrintJson(response, commands.streams.out, JsonForm::kLine,
                     EmptyLists::kPrinted);
  }
  commands.streams.out << absl::StrJoin(response.ids(), " ") << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddTokenize(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("tokenize", kTokenizeDescription);
  command->footer(kTokenizeFooter);
  auto flags = std::make_shared<TokenizeFlags>();
  command
      ->add_option("--model", flags->model,
                   "A GGUF file, a name in the cache, or with --address a "
                   "configured model")
      ->type_name("FILE");
  command->add_option("--text", flags->text, "The text")->type_name("TEXT");
  command
      ->add_option("--file", flags->file,
                   "The text is in this file; - is standard input")
      ->type_name("FILE");
  command->add_flag("--special", flags->special,
                    "BOS as the model's rule says; control tokens are parsed "
                    "(or written out)");
  command->add_flag("--detokenize", flags->detokenize,
                    "The text is ids; print what they stand for");
  AddOutput(*command, &flags->output, {"table", "json"});
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunTokenize(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
