// `plimsoll template` with templates from files and from models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/services/cli/run_cli.h"
#include "tests/worker/text/tokenizer/gguf_fixture.h"

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;

std::string WriteFile(absl::string_view name, absl::string_view bytes) {
  const std::string path = absl::StrCat(::testing::TempDir(), name);
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

std::string Messages() {
  return WriteFile("template_messages.json",
                   R"([{"role": "user", "content": "Hi\n"}])");
}

TEST(TemplateTest, PrintsWhatIsRenderedAndNoLineFeed) {
  const std::string path = WriteFile(
      "a.jinja",
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
      "{{ '[bot]' if add_generation_prompt }}{{ mood }}{{ tools | length }}\n");
  const std::string tools = WriteFile("template_tools.json", "[{}, {}]");
  const CliResult result =
      RunCli({"template", "--template", path, "--messages", Messages(),
              "--tools", tools, "--set", "mood=\"calm\""});
  EXPECT_EQ(result.out, "[user]Hi\n[bot]calm2") << result.err;
  const CliResult plain = RunCli({"template", "--template", path, "--messages",
                                  Messages(), "--no-generation-prompt"});
  EXPECT_EQ(plain.out, "[user]Hi\n0") << plain.err;
}

TEST(TemplateTest, AModelHasATemplateAndTokens) {
  worker::GgufFixture fixture;
  worker::AddBpeVocab(
      fixture, worker::ByteLevelVocab({{"<s>", worker::TokenType::kControl},
                                       {"</s>", worker::TokenType::kControl}}))
      .U32("tokenizer.ggml.bos_token_id", 256)
      .U32("tokenizer.ggml.eos_token_id", 257)
      .String("tokenizer.chat_template",
              "{{ bos_token }}{{ messages[0].content | trim }}{{ eos_token }}");
  const std::vector<std::byte> bytes = fixture.Bytes();
  const std::string model =
      WriteFile("with_template.gguf",
                absl::string_view(reinterpret_cast<const char*>(bytes.data()),
                                  bytes.size()));
  const CliResult result =
      RunCli({"template", model, "--messages", Messages()});
  EXPECT_EQ(result.out, "<s>Hi</s>") << result.err;
}

TEST(TemplateTest, ErrorsSayWhere) {
  const std::string path =
      WriteFile("b.jinja", "\n{{ raise_exception('not today') }}");
  const CliResult raised =
      RunCli({"template", "--template", path, "--messages", Messages()});
  EXPECT_EQ(raised.code, 1);
  EXPECT_THAT(raised.err, HasSubstr("line 2: "));
  EXPECT_THAT(raised.err, HasSubstr("not today"));
  EXPECT_EQ(raised.out, "");
  const CliResult bad = RunCli(
      {"template", "--template", path, "--messages", Messages(), "--set", "x"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("name=JSON"));
  EXPECT_EQ(RunCli({"template", "--messages", Messages()}).code, 2);
  EXPECT_EQ(RunCli({"template", "--template", path}).code, 2);
}

}  // namespace
}  // namespace plimsoll::cli
