// The forms that scripts rely on, with real models.
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/cli/commands/cli.h"
#include "tests/sanitized.h"
#include "tests/services/cli/parse_json.h"
#include "tests/services/cli/run_cli.h"

namespace plimsoll::cli {
namespace {

using ::google::protobuf::Struct;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> With(std::vector<std::string> args,
                              const std::vector<std::string>& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

class ModelTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto path = FindModel(GetParam());
    if (!path.has_value()) GTEST_SKIP() << GetParam() << " is not in the cache";
    model_ = *path;
  }
  std::vector<std::string> Generate(const std::vector<std::string>& more) {
    return With(
        {"generate", "--model", model_, "--n-ctx", "128", "--temperature", "0"},
        more);
  }
  std::string model_;
};

INSTANTIATE_TEST_SUITE_P(Models, ModelTest,
                         ::testing::Values(kSmolLm2, kGemma3));

TEST_P(ModelTest, TokenizePrintsIdsAndTakesAnyBytes) {
  const std::vector<std::string> args = {
      "tokenize", "--model", model_, "--file", "-", "-o", "json"};
  EXPECT_EQ(RunCli(args).out, "{\"ids\":[]}\n");
  const CliResult bytes = RunCliWithInput(args, std::string("\xFF\0\xC3", 3));
  EXPECT_EQ(bytes.code, kExitOk) << bytes.err;
  EXPECT_GE(ParseJson(bytes.out).fields().at("ids").list_value().values_size(),
            1);
}

TEST_P(ModelTest, TokenizeParsesControlTokensOnlyWhereAsked) {
  const std::string end =
      GetParam() == kSmolLm2 ? "<|im_end|>" : "<end_of_turn>";
  const std::vector<std::string> args = {
      "tokenize", "--model", model_, "--text", end, "-o", "json"};
  EXPECT_GT(
      ParseJson(RunCli(args).out).fields().at("ids").list_value().values_size(),
      2);
  EXPECT_LE(ParseJson(RunCli(With(args, {"--special"})).out)
                .fields()
                .at("ids")
                .list_value()
                .values_size(),
            2);
}

TEST_P(ModelTest, DetokenizeGivesTheTextBack) {
  const CliResult ids =
      RunCli({"tokenize", "--model", model_, "--text", "Hello, world"});
  const CliResult text = RunCliWithInput(
      {"tokenize", "--model", model_, "--file", "-", "--detokenize"}, ids.out);
  EXPECT_EQ(text.out, "Hello, world\n");
}

TEST_P(ModelTest, PlanHasTheFieldsThatScriptsRead) {
  const CliResult result =
      RunCli({"plan", model_, "--device-memory", "12GiB", "-o", "json"});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  const Struct plan = ParseJson(result.out);
  EXPECT_TRUE(plan.fields().at("fits").bool_value());
  EXPECT_GT(plan.fields().at("n_ctx").number_value(), 0);
  EXPECT_THAT(plan.fields().at("n_ctx_reason").string_value(), Not(IsEmpty()));
  EXPECT_EQ(plan.fields().at("budget_bytes").string_value(), "12884901888");
  int64_t sum = 0;
  for (const auto& region : plan.fields().at("regions").list_value().values()) {
    const auto& fields = region.struct_value().fields();
    EXPECT_THAT(fields.at("name").string_value(), Not(IsEmpty()));
    EXPECT_THAT(fields.at("basis").string_value(), HasSubstr("BASIS_"));
    sum += std::stoll(fields.at("bytes").string_value());
  }
  EXPECT_LE(sum, std::stoll(plan.fields().at("total_bytes").string_value()));
}

TEST_P(ModelTest, PlanThatDoesNotFitEndsWithThreeInBothForms) {
  const std::vector<std::string> args = {"plan", model_, "--device-memory",
                                         "64MiB"};
  const CliResult table = RunCli(args);
  EXPECT_EQ(table.code, kExitDoesNotFit);
  EXPECT_THAT(table.out, HasSubstr("DOES NOT FIT"));
  EXPECT_THAT(table.out, HasSubstr("try: "));
  const CliResult json = RunCli(With(args, {"-o", "json"}));
  EXPECT_EQ(json.code, kExitDoesNotFit);
  EXPECT_FALSE(ParseJson(json.out).fields().at("fits").bool_value());
}

TEST_P(ModelTest, GenerateThatDoesNotFitEndsWithThreeAndTheBytes) {
  const CliResult result =
      RunCli(Generate({"--device-memory", "64MiB", "--prompt", "x", "--raw"}));
  EXPECT_EQ(result.code, kExitDoesNotFit);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr("67,108,864"));
  EXPECT_THAT(result.err, HasSubstr("try: "));
}

TEST_P(ModelTest, GenerateHasTheFieldsThatScriptsRead) {
  const CliResult result = RunCliWithInput(
      Generate({"--file", "-", "--raw", "--max-tokens", "4", "--top-logprobs",
                "3", "--ignore-eos", "-o", "json"}),
      "The capital of France is");
  ASSERT_EQ(result.code, kExitOk) << result.err;
  const Struct reply = ParseJson(result.out);
  EXPECT_THAT(reply.fields().at("text").string_value(), Not(IsEmpty()));
  EXPECT_GE(reply.fields().at("prompt_ids").list_value().values_size(), 5);
  EXPECT_EQ(reply.fields().at("finish_reason").string_value(),
            "FINISH_REASON_MAX_TOKENS");
  EXPECT_TRUE(reply.fields().count("timing"));
  const auto& tokens = reply.fields().at("tokens").list_value();
  ASSERT_EQ(tokens.values_size(), 4);
  const auto& token = tokens.values(0).struct_value().fields();
  const auto& candidates = token.at("candidates").list_value();
  ASSERT_EQ(candidates.values_size(), 3);
  // Greedy: the first candidate is the token.
  const auto& best = candidates.values(0).struct_value().fields();
  EXPECT_EQ(best.at("id").number_value(), token.at("id").number_value());
  EXPECT_EQ(best.at("logprob").number_value(),
            token.at("logprob").number_value());
  const auto& memory = reply.fields().at("memory").struct_value().fields();
  EXPECT_EQ(memory.at("planned_bytes").string_value(),
            memory.at("allocated_bytes").string_value());
  EXPECT_EQ(memory.at("device_allocations_after_load").number_value(), 0);
  EXPECT_TRUE(memory.count("peak_rss_bytes"));
}

TEST_P(ModelTest, LogprobsComeOnlyWhereAsked) {
  const CliResult result = RunCli(Generate(
      {"--prompt", "Hello", "--raw", "--max-tokens", "2", "-o", "json"}));
  EXPECT_THAT(result.out, Not(HasSubstr("logprob")));
  EXPECT_THAT(result.out, Not(HasSubstr("candidates")));
}

TEST_P(ModelTest, TextGoesToOutAndEverythingElseToErr) {
  const CliResult result =
      RunCli(Generate({"--prompt", "Hello", "--max-tokens", "3"}));
  ASSERT_EQ(result.code, kExitOk) << result.err;
  EXPECT_EQ(result.out.find("loading"), std::string::npos);
  EXPECT_THAT(result.err, HasSubstr("loading"));
  EXPECT_EQ(result.out.back(), '\n');
}

TEST_P(ModelTest, BatchKeepsTheOrderWhateverTheSlots) {
  const std::string batch =
      "{\"prompt\": \"One\"}\n\n{\"prompt\": \"Two two\"}\n"
      "{\"prompt\": \"Three\"}\n";
  const auto texts = [&](const char* slots) {
    const CliResult result =
        RunCliWithInput(Generate({"--batch", "-", "--raw", "--max-tokens", "6",
                                  "--slots", slots, "--ignore-eos"}),
                        batch);
    EXPECT_EQ(result.code, kExitOk) << result.err;
    std::vector<std::string> found;
    for (absl::string_view line :
         absl::StrSplit(result.out, '\n', absl::SkipEmpty())) {
      found.push_back(
          ParseJson(std::string(line)).fields().at("text").string_value());
    }
    return found;
  };
  const std::vector<std::string> one = texts("1");
  EXPECT_EQ(one.size(), 3u);
  EXPECT_EQ(one, texts("2"));
}

TEST_P(ModelTest, BatchNamesTheLineThatIsWrongAfterPrintingTheOthers) {
  const CliResult result = RunCliWithInput(
      Generate({"--batch", "-", "--raw", "--max-tokens", "1"}),
      "{\"prompt\": \"One\"}\n{\"text\": \"Two\"}\n{\"prompt\": \"Three\"}\n");
  EXPECT_EQ(result.code, kExitError);
  EXPECT_THAT(result.err, HasSubstr("batch line 2: no string \"prompt\""));
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1);
}

TEST_P(ModelTest, PromptLongerThanTheContextNamesBothNumbers) {
  std::string prompt;
  for (int i = 0; i < 200; ++i) prompt += " word";
  const CliResult result = RunCliWithInput(
      Generate({"--file", "-", "--raw", "--max-tokens", "1"}), prompt);
  EXPECT_EQ(result.code, kExitError);
  EXPECT_THAT(result.err, HasSubstr("128"));
  EXPECT_THAT(result.err, HasSubstr("20"));
}

TEST_P(ModelTest, ChatAnswersEveryLineAndEndsAtTheEndOfInput) {
  const CliResult result =
      RunCliWithInput({"chat", "--model", model_, "--n-ctx", "256",
                       "--temperature", "0", "--max-tokens", "4"},
                      "Hello\n/reset\n\nAgain\n");
  EXPECT_EQ(result.code, kExitOk) << result.err;
  EXPECT_GE(std::count(result.out.begin(), result.out.end(), '\n'), 2);
}

TEST_P(ModelTest, AChatGoesOnWhenItsContextIsFull) {
  const CliResult result = RunCliWithInput(
      {"chat", "--model", model_, "--n-ctx", "256", "--temperature", "0",
       "--max-tokens", "60", "--ignore-eos"},
      "Tell me a story\nMore\nMore\nMore\nMore\n/info\n");
  EXPECT_EQ(result.code, kExitOk) << result.err;
  EXPECT_THAT(result.err, HasSubstr("oldest turns"));
  EXPECT_THAT(result.err, HasSubstr(": 5 turns, "));
}

TEST_P(ModelTest, AMessageTooLongForTheContextIsRefusedAndTheChatGoesOn) {
  std::string words;
  for (int i = 0; i < 300; ++i) words += " word";
  const CliResult result = RunCliWithInput(
      {"chat", "--model", model_, "--n-ctx", "256", "--max-tokens", "3"},
      words + "\nHello\n/info\n");
  EXPECT_EQ(result.code, kExitOk) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the context of the session"));
  EXPECT_THAT(result.err, HasSubstr(": 1 turns, "));
}

TEST_P(ModelTest, AContextTooShortForAChatIsRefused) {
  const CliResult result =
      RunCliWithInput({"chat", "--model", model_, "--n-ctx", "64"}, "Hello\n");
  EXPECT_EQ(result.code, kExitError);
  EXPECT_THAT(result.err, HasSubstr("cannot roll"));
}

// Running text of `n_sentences`, 13 tokens or more each.
std::string LongText(int n_sentences) {
  std::string text;
  for (int i = 0; i < n_sentences; ++i) {
    absl::StrAppend(&text, "On day ", i, " the crew loaded ", i * 7 % 31,
                    " tons of grain and ", i * 5 % 13, " of timber. ");
  }
  return text;
}

TEST_P(ModelTest, GenerationGoesOnWhereTheContextRolls) {
  const std::vector<std::string> args = {"generate",
                                         "--model",
                                         model_,
                                         "--file",
                                         "-",
                                         "--raw",
                                         "--n-ctx",
                                         "256",
                                         "-o",
                                         "json",
                                         "--context-policy",
                                         "roll",
                                         "--max-tokens",
                                         "20",
                                         "--ignore-eos"};
  const CliResult result = RunCliWithInput(args, LongText(35));
  ASSERT_EQ(result.code, kExitOk) << result.err;
  const auto object = ParseJson(result.out);
  EXPECT_EQ(object.fields().at("tokens").list_value().values_size(), 20);
  EXPECT_GE(object.fields().at("evictions").list_value().values_size(), 1);
}

TEST_P(ModelTest, PerplexityOfATextLongerThanTheContext) {
  const std::vector<std::string> args = {
      "perplexity", "--model",          model_, "--file",  "-",  "-o",
      "json",       "--context-policy", "roll", "--n-ctx", "256"};
  // Four contexts long, or two.
  constexpr int kSentences = ::plimsoll::testing::kIsSanitized ? 30 : 60;
  const std::string text = LongText(kSentences);
  const CliResult shift = RunCliWithInput(args, text);
  ASSERT_EQ(shift.code, kExitOk) << shift.err;
  const auto fields = ParseJson(shift.out).fields();
  const double perplexity = fields.at("perplexity").number_value();
  EXPECT_GT(perplexity, 1);
  EXPECT_LT(perplexity, 50);
  EXPECT_GT(fields.at("tokens").number_value(), kSentences * 12);
  EXPECT_GT(fields.at("evictions").number_value(), kSentences / 12);
  const CliResult recompute =
      RunCliWithInput(With(args, {"--roll-method", "recompute"}), text);
  ASSERT_EQ(recompute.code, kExitOk) << recompute.err;
  EXPECT_NEAR(
      ParseJson(recompute.out).fields().at("perplexity").number_value() /
          perplexity,
      1, 0.1);
}

TEST_P(ModelTest, PerplexityRefusesATextThatDoesNotFit) {
  const CliResult result = RunCliWithInput(
      {"perplexity", "--model", model_, "--file", "-", "--n-ctx", "256"},
      LongText(35));
  EXPECT_EQ(result.code, kExitError);
  EXPECT_THAT(result.err, HasSubstr("256"));
  EXPECT_THAT(result.err, HasSubstr("roll"));
}

TEST_P(ModelTest, VerifyFindsATrainedModelThatIsSound) {
  const CliResult result = RunCli({"verify", model_, "-o", "json"});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  const Struct object = ParseJson(result.out);
  EXPECT_TRUE(object.fields().at("ok").bool_value());
  for (const auto& value : object.fields().at("checks").list_value().values()) {
    const auto& check = value.struct_value().fields();
    EXPECT_EQ(check.at("state").string_value(), "ok")
        << check.at("name").string_value() << ": "
        << check.at("text").string_value();
  }
}

TEST_P(ModelTest, BenchHasTheFiguresThatScriptsRead) {
  const std::vector<std::string> args = {
      "bench", "--model", model_, "--runs",          "1", "--prompt-tokens",
      "24",    "--batch", "1,2",  "--decode-tokens", "2", "--at-positions",
      "8,24"};
  const CliResult result = RunCli(With(args, {"-o", "json"}));
  ASSERT_EQ(result.code, kExitOk) << result.err;
  const Struct json = ParseJson(result.out);
  const auto above_zero = [](const Struct& object, const std::string& name) {
    const auto it = object.fields().find(name);
    return it != object.fields().end() && it->second.number_value() > 0;
  };
  for (const char* name :
       {"first_token_seconds", "read_bandwidth_bytes_per_s",
        "weight_bytes_per_step", "peak_rss_bytes", "threads"}) {
    EXPECT_TRUE(above_zero(json, name)) << name;
  }
  const auto rates = [&](const char* name) {
    return json.fields().at(name).struct_value();
  };
  EXPECT_TRUE(above_zero(rates("prefill_tokens_per_s"), "24"));
  EXPECT_TRUE(above_zero(rates("decode_tokens_per_s"), "1"));
  EXPECT_TRUE(above_zero(rates("decode_tokens_per_s"), "2"));
  EXPECT_EQ(rates("decode_tokens_per_s").fields_size(), 2);
  EXPECT_TRUE(above_zero(rates("decode_all_logits_tokens_per_s"), "1"));
  EXPECT_TRUE(above_zero(rates("decode_tokens_per_s_at_position"), "8"));
  EXPECT_TRUE(above_zero(rates("decode_tokens_per_s_at_position"), "24"));
  EXPECT_EQ(rates("decode_tokens_per_s_at_position").fields_size(), 2);
  EXPECT_THAT(RunCli(args).out, AllOf(HasSubstr("of the bandwidth"),
                                      HasSubstr("% of that at 8")));
}

TEST_P(ModelTest, AsManyThreadsAsTheFlagAllowsRun) {
  const CliResult result = RunCli(
      Generate({"--prompt", "Once", "--max-tokens", "1", "--threads", "256"}));
  EXPECT_EQ(result.code, kExitOk) << result.err;
}

TEST_P(ModelTest, BenchRefusesAPromptBeyondTheContext) {
  const CliResult result = RunCli({"bench", "--model", model_, "--n-ctx", "64",
                                   "--prompt-tokens", "65", "--batch", "1"});
  EXPECT_EQ(result.code, kExitError);
  EXPECT_THAT(result.err, HasSubstr("65 tokens"));
  const CliResult full =
      RunCli({"bench", "--model", model_, "--n-ctx", "16", "--prompt-tokens",
              "8", "--batch", "1", "--runs", "1"});
  EXPECT_EQ(full.code, kExitError);
  EXPECT_THAT(full.err, HasSubstr("no room to decode"));
}

TEST_P(ModelTest, MemoryShowsPlannedBesideMeasured) {
  const CliResult result =
      RunCli({"memory", "--model", model_, "--n-ctx", "64"});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  EXPECT_THAT(result.out, HasSubstr("planned - measured"));
  EXPECT_THAT(result.out, HasSubstr("device allocations after load: 0"));
}

TEST_P(ModelTest, ClampedContextIsSaid) {
  const CliResult result =
      RunCli({"generate", "--model", model_, "--n-ctx", "999999999",
              "--max-inference-len", "32", "--prompt", "Hi", "--raw",
              "--max-tokens", "1"});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  EXPECT_THAT(result.err, HasSubstr("context of 32 tokens"));
}

TEST(GemmaTest, FormatOfTheArchitectureIsSaid) {
  const auto model = FindModel(kGemma3);
  if (!model.has_value()) GTEST_SKIP() << kGemma3 << " is not in the cache";
  const std::vector<std::string> args = {"generate", "--model",      *model,
                                         "--prompt", "Hi",           "--n-ctx",
                                         "64",       "--max-tokens", "1"};
  EXPECT_THAT(RunCli(args).err, HasSubstr("chat format gemma3"));
  EXPECT_THAT(RunCli(With(args, {"--chat-format", "gemma3"})).err,
              Not(HasSubstr("chat format")));
}

TEST(CacheTest, ModelsListsWhatIsThereAndNamesAreEnough) {
  if (!FindModel(kSmolLm2).has_value()) {
    GTEST_SKIP() << kSmolLm2 << " is not in the cache";
  }
  EXPECT_THAT(RunCli({"models"}).out, HasSubstr(kSmolLm2));
  EXPECT_EQ(RunCli({"plan", kSmolLm2}).code, kExitOk);
}

}  // namespace
}  // namespace plimsoll::cli
