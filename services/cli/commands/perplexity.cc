// `plimsoll perplexity`: measures how well a model predicts a text, with a
// context that may be much shorter than the text.
#include <google/protobuf/struct.pb.h>

#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "services/cli/backends/embedded.h"
#include "services/cli/backends/embedded_generator.h"
#include "services/cli/backends/remote_generator.h"
#include "services/cli/commands/commands.h"
#include "services/cli/flags/roll_flags.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/input.h"
#include "services/cli/terminal/interrupt.h"
#include "services/cli/terminal/json.h"
#include "services/cli/terminal/table.h"

namespace plimsoll::cli {
namespace {

constexpr char kPerplexityDescription[] =
    "Measure how well a model predicts a text\n"
    "Perplexity is exp of the mean negative log-probability of every token "
    "after the first, each given all that the context still holds. The text is "
    "taken as it is, without a chat format; control tokens are not parsed. It "
    "must fit the context unless that rolls.";

constexpr char kPerplexityFooter[] =
    "Examples:\n"
    "  plimsoll perplexity --model model.gguf --file book.txt --n-ctx 1024 \\\n"
    "      --context-policy roll\n"
    "  cat *.txt | plimsoll perplexity --model model.gguf --file - \\\n"
    "      --n-ctx 1024 --context-policy roll --roll-method recompute -o json";

struct PerplexityFlags {
  std::string model;
  std::string file;
  LoadFlags load;
  RollFlags roll;
  std::string output;
};

// The result of a measurement. Its memory does not grow with the text.
struct Score {
  double logprob = 0;  // sum over all scored tokens
  int64_t n_tokens = 0;
  int64_t n_evictions = 0;
  int64_t n_evicted = 0;

  double perplexity() const {
    return std::exp(-logprob / static_cast<double>(n_tokens));
  }
};

v1::StreamGenerateRequest RequestFor(std::string text,
                                     const PerplexityFlags& flags) {
  v1::StreamGenerateRequest request;
  request.set_model(flags.model);
  request.mutable_text()->set_raw_text(std::move(text));
  request.mutable_text()->set_add_bos(true);
  request.mutable_text()->set_parse_special(false);
  request.mutable_sampling()->set_temperature(0);
  // Only the prompt matters, but one token must follow it.
  request.mutable_stopping()->set_max_tokens(1);
  request.mutable_response()->set_prompt_logprobs(true);
  SetRoll(flags.roll, request);
  return request;
}

// Prints a line on a terminal for every percent of the text.
class ScoreProgress {
 public:
  explicit ScoreProgress(Streams& streams) : streams_(streams) {}
  ~ScoreProgress() { Clear(); }
  ScoreProgress(const ScoreProgress&) = delete;
  ScoreProgress& operator=(const ScoreProgress&) = delete;

  void Update(const Score& score, int64_t total) {
    if (!streams_.err_style.is_tty || total == 0) return;
    const int64_t percent = score.n_tokens * 100 / total;
    if (percent == last_percent_) return;
    last_percent_ = percent;
    streams_.err << "\r\033[K"
                 << absl::StrFormat("  %d %%, %d of %d tokens, perplexity %.4g",
                                    percent, score.n_tokens, total,
                                    score.perplexity())
                 << std::flush;
  }

 private:
  void Clear() {
    if (last_percent_ >= 0) streams_.err << "\r\033[K" << std::flush;
  }

  Streams& streams_;
  int64_t last_percent_ = -1;
};

absl::StatusOr<Score> Measure(ReplyStream& stream, Streams& streams) {
  Score score;
  ScoreProgress progress(streams);
  int64_t total = 0;
  bool is_finished = false;
  while (true) {
    ASSIGN_OR_RETURN(const auto part, stream.Next());
    if (!part.has_value()) break;
    if (part->has_prompt()) total = part->prompt().prompt_ids_size() - 1;
    for (const float logprob : part->prompt_logprobs()) {
      score.logprob += static_cast<double>(logprob);
      ++score.n_tokens;
    }
    if (score.n_tokens > 0) progress.Update(score, total);
    if (!part->has_finish()) continue;
    is_finished = true;
    const v1::TokenUsage& usage = part->finish().usage();
    score.n_evictions = static_cast<int64_t>(usage.evictions());
    score.n_evicted = static_cast<int64_t>(usage.evicted_tokens());
  }
  if (!is_finished) {
    return absl::UnavailableError(
        "the stream broke off before its end; the text is not all measured");
  }
  if (score.n_tokens == 0) {
    return absl::InvalidArgumentError(
        "the text has one token; perplexity needs two or more");
  }
  return score;
}

absl::Status Print(const Score& score, const std::string& output,
                   Streams& streams) {
  if (output == "json") {
    google::protobuf::Struct object;
    auto& fields = *object.mutable_fields();
    fields["perplexity"].set_number_value(score.perplexity());
    fields["tokens"].set_number_value(static_cast<double>(score.n_tokens));
    fields["evictions"].set_number_value(
        static_cast<double>(score.n_evictions));
    fields["evicted_tokens"].set_number_value(
        static_cast<double>(score.n_evicted));
    ASSIGN_OR_RETURN(const std::string json, ToJson(object, JsonForm::kPretty));
    streams.out << json;
    return absl::OkStatus();
  }
  Table table({{"perplexity"}, {absl::StrFormat("%.4f", score.perplexity())}});
  table.AddRow({"tokens", absl::StrCat(score.n_tokens)});
  table.AddRow({"evictions", absl::StrCat(score.n_evictions)});
  table.AddRow({"evicted tokens", absl::StrCat(score.n_evicted)});
  streams.out << table.Render(streams.out_style);
  return absl::OkStatus();
}

absl::Status RunPerplexity(const PerplexityFlags& flags, Commands& commands) {
  Streams& streams = commands.streams;
  const Endpoint& address = commands.globals.address;
  if (flags.file.empty()) {
    return UsageError(
        "there is no text; give --file FILE (- for standard input)");
  }
  if (flags.model.empty() && address.empty()) {
    return UsageError(
        "there is no model; give --model FILE, or --address HOST:PORT of a "
        "worker");
  }
  RETURN_IF_ERROR(CheckRollFlags(flags.roll));
  ASSIGN_OR_RETURN(
      std::string text,
      ReadText(flags.file, streams.in, worker::Tokenizer::kMaxTextBytes));
  const InterruptScope interrupts;
  std::unique_ptr<Generator> generator;
  if (address.empty()) {
    ASSIGN_OR_RETURN(LoadedModel model,
                     LoadHere(flags.model, {.flags = flags.load}, streams));
    generator = NewEmbeddedGenerator(std::move(model));
  } else {
    generator = NewRemoteGenerator(address);
  }
  ASSIGN_OR_RETURN(const auto stream,
                   generator->Start(RequestFor(std::move(text), flags)));
  ASSIGN_OR_RETURN(const Score score, Measure(*stream, streams));
  return Print(score, flags.output, streams);
}

}  // namespace

void AddPerplexity(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("perplexity", kPerplexityDescription);
  command->footer(kPerplexityFooter);
  auto flags = std::make_shared<PerplexityFlags>();
  command
      ->add_option("--model", flags->model,
                   "A GGUF file, a name in the cache, or with --address a "
                   "configured model")
      ->type_name("FILE");
  command
      ->add_option("--file", flags->file,
                   "The text is in this file; - is standard input")
      ->type_name("FILE");
  AddOutput(*command, &flags->output, {"table", "json"});
  AddLoadFlags(*command, &flags->load);
  AddRollFlags(*command, &flags->roll);
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] {
      return RunPerplexity(*flags, commands);
    };
  });
}

}  // namespace plimsoll::cli
