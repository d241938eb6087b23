// `plimsoll tokenize` on vocabularies of all kinds.
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

std::string WriteHeader(const worker::GgufFixture& fixture,
                        absl::string_view name) {
  const std::string path = absl::StrCat(::testing::TempDir(), name);
  const std::vector<std::byte> bytes = fixture.Bytes();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return path;
}

TEST(TokenizeTest, AVocabularyAloneWillDoWhateverTheArchitecture) {
  worker::GgufFixture fixture;
  worker::AddVocab(fixture, worker::ByteLevelVocab({{"ab"}}))
      .String("general.architecture", "not-one-of-ours")
      .String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", "qwen2")
      .Strings("tokenizer.ggml.merges", {"a b"});
  const std::string path = WriteHeader(fixture, "vocab_only.gguf");
  const CliResult result =
      RunCli({"tokenize", "--model", path, "--text", "abc", "-o", "json"});
  EXPECT_EQ(result.out, "{\"ids\":[256,99]}\n") << result.err;
}

TEST(TokenizeTest, AnUnknownPreTokenizerIsNamedWithItsFile) {
  worker::GgufFixture fixture;
  worker::AddVocab(fixture, worker::ByteLevelVocab({}))
      .String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", "never-heard-of")
      .Strings("tokenizer.ggml.merges", {});
  const std::string path = WriteHeader(fixture, "unknown_pre.gguf");
  const CliResult result =
      RunCli({"tokenize", "--model", path, "--text", "abc"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("unknown_pre.gguf"));
  EXPECT_THAT(result.err, HasSubstr("'never-heard-of'"));
}

}  // namespace
}  // namespace plimsoll::cli
