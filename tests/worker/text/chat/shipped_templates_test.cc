// Which chat templates of real models can be cut into turns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/read_file.h"
#include "tests/worker/text/chat/template_fixture.h"
#include "worker/text/chat/template_frame.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::ReadFile;

// Tokens that end a reply, besides those that every vocabulary is known to end
// with. The first one that a template has counts.
constexpr absl::string_view kEnds[] = {
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
    "<\xEF\xBD\x9Chy_eos:opensource\xEF\xBD\x9C>",
    "<|assistant_end|>",
    "<|message_sep|>",
    "<end_of_sentence>",
    "<seed:eos>",
    "[e~[",
};

// The templates that can be cut, "+" with a system message.
constexpr absl::string_view kCut[] = {
    "Apertus-8B-Instruct",
    "Apertus-8B-Instruct+",
    "GigaChat3-10B-A1.8B",
    "GigaChat3-10B-A1.8B+",
    "GigaChat3.1-10B-A1.8B",
    "GigaChat3.1-10B-A1.8B+",
    "HuggingFaceTB-SmolLM3-3B",
    "HuggingFaceTB-SmolLM3-3B+",
    "Kimi-K2-Instruct",
    "Kimi-K2-Instruct+",
    "LFM2-8B-A1B",
    "LFM2-8B-A1B+",
    "MiMo-VL",
    "MiMo-VL+",
    "MiniMax-M1",
    "MiniMax-M1+",
    "Mistral-Small-3.2-24B-Instruct-2506",
    "Mistral-Small-3.2-24B-Instruct-2506+",
    "Qwen-Qwen2.5-7B-Instruct",
    "Qwen-Qwen2.5-7B-Instruct+",
    "Qwen3-Coder",
    "Qwen3-Coder+",
    "deepseek-ai-DeepSeek-V4",
    "deepseek-ai-DeepSeek-V4+",
    "deepseek-ai-DeepSeek-V4-Flash-0731",
    "deepseek-ai-DeepSeek-V4-Flash-0731+",
    "google-gemma-2-2b-it",
    "ibm-granite-granite-3.3-2B-Instruct",
    "ibm-granite-granite-3.3-2B-Instruct+",
    "ibm-granite-granite-4.0",
    "ibm-granite-granite-4.0+",
    "ibm-granite-granite-4.1",
    "ibm-granite-granite-4.1+",
    "meetkai-functionary-medium-v3.1",
    "meetkai-functionary-medium-v3.1+",
    "meta-llama-Llama-3.1-8B-Instruct",
    "meta-llama-Llama-3.1-8B-Instruct+",
    "meta-llama-Llama-3.2-3B-Instruct",
    "meta-llama-Llama-3.2-3B-Instruct+",
    "meta-llama-Llama-3.3-70B-Instruct",
    "meta-llama-Llama-3.3-70B-Instruct+",
    "microsoft-Phi-3.5-mini-instruct",
    "microsoft-Phi-3.5-mini-instruct+",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "moonshotai-Kimi-K2",
    "moonshotai-Kimi-K2+",
    "tencent-Hy3",
    "tencent-Hy3+",
    "unsloth-mistral-Devstral-Small-2507",
    "unsloth-mistral-Devstral-Small-2507+",
};

std::filesystem::path Folder() {
  const auto variable = [](const char* name) -> std::filesystem::path {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  const std::filesystem::path cache = variable("XDG_CACHE_HOME");
  return (cache.empty() ? variable("HOME") / ".cache" : cache) / "plimsoll" /
         "templates";
}

// Adds what looks like control tokens between `open` and `close`.
void AddMarks(absl::string_view text, absl::string_view open,
              absl::string_view close, std::vector<std::string>& marks) {
  constexpr size_t kMaxBytes = 40;
  for (size_t at = text.find(open); at != absl::string_view::npos;
       at = text.find(open, at + 1)) {
    const size_t end = text.find(close, at + open.size());
    if (end == absl::string_view::npos) return;
    const absl::string_view mark = text.substr(at, end + close.size() - at);
    if (mark.size() <= kMaxBytes &&
        mark.find_first_of(" '\"\n{}+,") == absl::string_view::npos) {
      marks.emplace_back(mark);
    }
  }
}

// The control tokens of a vocabulary for a template. One template puts the
// names of its tokens together.
std::vector<std::string> ControlsOf(absl::string_view source) {
  const std::string text = absl::StrReplaceAll(
      source, {{"{}\xEF\xBD\x9C>", ":opensource\xEF\xBD\x9C>"}});
  constexpr std::pair<absl::string_view, absl::string_view> kMarks[] = {
      {"<|", "|>"},
      {"<\xEF\xBD\x9C", "\xEF\xBD\x9C>"},
      {"<start_of", ">"},
      {"<end_of", ">"},
      {"<seed:", ">"},
      {"[INST", "]"},
      {"[/INST", "]"},
      {"[SYSTEM_PROMPT", "]"},
      {"[/SYSTEM_PROMPT", "]"}};
  std::vector<std::string> found;
  for (const auto& [open, close] : kMarks) AddMarks(text, open, close, found);
  const auto* const end = std::find_if(
      std::begin(kEnds), std::end(kEnds),
      [&](absl::string_view one) { return absl::StrContains(text, one); });
  std::vector<std::string> controls = {
      "<s>", std::string(end != std::end(kEnds) ? *end : "</s>")};
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  for (std::string& mark : found) {
    if (mark != controls[1]) controls.push_back(std::move(mark));
  }
  return controls;
}

// Every template is cut or refused with a reason. What can be cut must not
// become less; what more can be cut belongs into the list.
TEST(ShippedTemplatesTest, TheseCanBeCut) {
  if (!std::filesystem::is_directory(Folder())) {
    GTEST_SKIP() << "no templates; scripts/fetch_templates.sh gets them";
  }
  std::vector<std::string> cut;
  for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
    const std::string source = ReadFile(entry.path());
    const TemplateFixture fixture(source, {.controls = ControlsOf(source)});
    ASSERT_NE(fixture.program, nullptr) << entry.path();
    const std::string system = "Be brief.";
    for (const bool has_system : {false, true}) {
      const auto frame = TemplateFrame::Find(
          *fixture.tokenizer, fixture.program,
          {has_system ? &system : nullptr, absl::UnixEpoch()});
      const std::string name =
          absl::StrCat(entry.path().stem().string(), has_system ? "+" : "");
      if (frame.ok()) {
        cut.push_back(name);
      } else {
        EXPECT_EQ(frame.status().code(), absl::StatusCode::kUnimplemented);
        // Shown with --gtest_output, so that a change of a reason can be seen.
        RecordProperty(name, std::string(frame.status().message()));
      }
    }
  }
  std::sort(cut.begin(), cut.end());
  const std::vector<std::string> expected(std::begin(kCut), std::end(kCut));
  std::vector<std::string> changed;
  std::set_symmetric_difference(cut.begin(), cut.end(), expected.begin(),
                                expected.end(), std::back_inserter(changed));
  EXPECT_THAT(changed, ::testing::IsEmpty());
}

}  // namespace
}  // namespace plimsoll::worker
