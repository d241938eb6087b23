// Tokenizers against vectors of two real models, where their files are present.
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/layout/memory_plan.h"
#include "tests/worker/text/chat/chat_pieces.h"
#include "worker/text/chat/chat_template.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {
namespace {

using ::testing::ElementsAre;

struct Vector {
  const char* text;
  std::vector<int32_t> ids;
  bool parse_special = false;
};

struct ModelCase {
  const char* file;    // in the model cache
  const char* golden;  // beside the repository
  ChatFormat format;
  std::vector<int32_t> end_tokens;
  std::vector<Vector> vectors;  // from other implementations
};

void PrintTo(const ModelCase& model, std::ostream* out) { *out << model.file; }

class FileSource final : public planner::ByteSource {
 public:
  explicit FileSource(const std::string& path) : file_(path, std::ios::binary) {
    file_.seekg(0, std::ios::end);
    size_ = file_ ? static_cast<int64_t>(file_.tellg()) : -1;
  }
  int64_t Size() const override { return size_; }
  absl::Status Read(int64_t offset, std::span<std::byte> out) override {
    file_.seekg(offset);
    file_.read(reinterpret_cast<char*>(out.data()),
               static_cast<std::streamsize>(out.size()));
    return file_ ? absl::OkStatus() : absl::DataLossError("short read");
  }

 private:
  std::ifstream file_;
  int64_t size_ = -1;
};

std::string ModelPath(const std::string& file) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::string base = cache != nullptr ? cache : "";
  if (base.empty()) base = std::string(home != nullptr ? home : "") + "/.cache";
  return base + "/plimsoll/models/" + file;
}

class TokenizerModelTest : public ::testing::TestWithParam<ModelCase> {
 protected:
  void SetUp() override {
    FileSource source(ModelPath(GetParam().file));
    if (source.Size() < 0) {
      GTEST_SKIP() << GetParam().file << " is not in the model cache";
    }
    auto header = planner::ReadGgufHeader(source);
    ASSERT_TRUE(header.ok()) << header.status();
    header_ = *std::move(header);
    auto tokenizer = LoadTokenizer(header_, source);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
  }

  // The model's shared vectors, or null.
  static nlohmann::json Golden() {
    std::ifstream file(std::string("../shared/golden/") + GetParam().golden);
    if (!file) return nullptr;
    return nlohmann::json::parse(file);
  }

  std::vector<int32_t> Encode(const std::string& text, bool parse_special) {
    auto ids = tokenizer_->Encode(text, ParseSpecialIf(parse_special));
    EXPECT_TRUE(ids.ok()) << ids.status();
    return ids.value_or(std::vector<int32_t>());
  }

  planner::GgufHeader header_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(TokenizerModelTest, TokenizesEveryGoldenText) {
  const nlohmann::json golden = Golden();
  if (golden.is_null()) GTEST_SKIP() << "no shared data";
  for (const nlohmann::json& item : golden["tokenize"]) {
    const std::string text = item["text"];
    const std::vector<int32_t> plain = item["ids_no_special"];
    const std::vector<int32_t> special = item["ids_parse_special"];
    EXPECT_EQ(Encode(text, false), plain) << text;
    const auto with_bos = tokenizer_->EncodeWithBos(text, ParseSpecial::kYes);
    ASSERT_TRUE(with_bos.ok()) << with_bos.status();
    EXPECT_EQ(*with_bos, special) << text;
    EXPECT_EQ(tokenizer_->Decode(plain, RenderSpecial::kNo), text);
  }
}

TEST_P(TokenizerModelTest, TokenizesEveryGoldenPrompt) {
  const nlohmann::json golden = Golden();
  if (golden.is_null()) GTEST_SKIP() << "no shared data";
  for (const nlohmann::json& item : golden["completions"]) {
    const std::vector<int32_t> expected = item["prompt_ids"];
    const auto ids = tokenizer_->EncodeWithBos(
        item["prompt"].get<std::string>(), ParseSpecial::kYes);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, expected) << item["prompt"];
  }
}

TEST_P(TokenizerModelTest, TokenizesTheVectorsOfItsModel) {
  for (const Vector& vector : GetParam().vectors) {
    EXPECT_EQ(Encode(vector.text, vector.parse_special), vector.ids)
        << vector.text;
  }
}

TEST_P(TokenizerModelTest, AChatTurnByTurnIsTheWholeConversation) {
  const std::string system = "Be brief.";
  ExpectPiecesAreTheWhole(*tokenizer_, GetParam().format, nullptr);
  ExpectPiecesAreTheWhole(*tokenizer_, GetParam().format, &system);
}

TEST_P(TokenizerModelTest, TablesStayWithinThePlan) {
  planner::VocabShape shape;
  shape.model = *header_.String("tokenizer.ggml.model").value();
  const auto tokens = header_.Array("tokenizer.ggml.tokens");
  ASSERT_TRUE(tokens.ok() && *tokens != nullptr);
  shape.n_tokens = (*tokens)->n;
  shape.token_bytes = (*tokens)->bytes - 8 * (*tokens)->n;
  const auto merges = header_.Array("tokenizer.ggml.merges");
  ASSERT_TRUE(merges.ok());
  if (*merges != nullptr) {
    shape.n_merges = (*merges)->n;
    shape.merge_bytes = (*merges)->bytes - 8 * (*merges)->n;
  }
  RecordProperty("bytes", std::to_string(tokenizer_->MemoryBytes()));
  EXPECT_LE(tokenizer_->MemoryBytes(), planner::VocabBytes(shape));
}

TEST_P(TokenizerModelTest, KnowsWhatEndsGeneration) {
  EXPECT_EQ(tokenizer_->end_tokens(), GetParam().end_tokens);
}

TEST_P(TokenizerModelTest, ChoosesItsChatFormat) {
  const auto choice = ChooseChatFormat(header_);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->format, GetParam().format);
}

// For any user text, control tokens are exactly those of the scaffold.
TEST_P(TokenizerModelTest, UserTextNeverBecomesAControlToken) {
  std::vector<std::string> parts = {
      " ", "\n", "a", "user", "<", ">", "|", "\xE2\x96\x81", "\xFF", "<0x41>"};
  std::vector<int32_t> controls;
  for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    if (tokenizer_->Type(id) == TokenType::kControl) controls.push_back(id);
  }
  std::mt19937 random(7);
  const auto draw = [&](size_t n) { return random() % n; };
  const auto count = [&](const std::vector<int32_t>& ids) {
    std::vector<int32_t> found;
    for (const int32_t id : ids) {
      if (tokenizer_->Type(id) == TokenType::kControl) found.push_back(id);
    }
    return found;
  };
  const auto encode = [&](const std::string& user, const std::string& system) {
    const auto segments =
        RenderChat(GetParam().format,
                   {{ChatRole::kSystem, system}, {ChatRole::kUser, user}},
                   GenerationPrompt::kAdded);
    EXPECT_TRUE(segments.ok()) << segments.status();
    const auto ids = EncodeChat(*tokenizer_, *segments);
    EXPECT_TRUE(ids.ok()) << ids.status();
    return *ids;
  };
  const std::vector<int32_t> scaffold = count(encode("x", "y"));
  ASSERT_FALSE(scaffold.empty());
  for (int round = 0; round < 2000; ++round) {
    std::string texts[2];
    for (std::string& text : texts) {
      for (size_t i = draw(8); i < 8; ++i) {
        if (draw(2) == 0) {
          text += parts[draw(parts.size())];
        } else {
          tokenizer_->AppendBytes(controls[draw(controls.size())],
                                  RenderSpecial::kYes, text);
        }
      }
    }
    ASSERT_EQ(count(encode(texts[0], texts[1])), scaffold)
        << texts[0] << " / " << texts[1];
  }
  for (const int32_t id : controls) {
    std::string text;
    tokenizer_->AppendBytes(id, RenderSpecial::kYes, text);
    EXPECT_TRUE(count(Encode(text, false)).empty()) << text;
    EXPECT_THAT(Encode(text, true), ElementsAre(id));
  }
}

// Quadratic work would take hours here: the test's own time limit decides.
TEST_P(TokenizerModelTest, EncodesAMebibyteOfAnything) {
  constexpr size_t kBytes = 1 << 20;
  for (const std::string unit :
       {"a", " ", "\n", "\t", "\xEF\xBF\xBD", "<", "<unused1", "<unused12>",
        "1", " a", "\xFE", "<start_of_turn>", "'s", "Hello, world! "}) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    for (const bool parse_special : {false, true}) {
      if (parse_special && unit[0] != '<') continue;
      std::string back;
      for (const int32_t id : Encode(text, parse_special)) {
        tokenizer_->AppendBytes(id, RenderSpecialIf(parse_special), back);
      }
      // SmolLM2 has no tokens for bytes that UTF-8 never uses.
      const bool is_dropped = back.empty() && unit == "\xFE";
      EXPECT_TRUE(back == text || is_dropped) << unit;
    }
  }
}

// A prompt may be refused by its bytes alone, so what they say must be true of
// any text.
TEST_P(TokenizerModelTest, ATextHasAtLeastTheTokensThatItsBytesSay) {
  std::mt19937 random(3);
  const auto expect = [&](const std::string& text, bool parse_special) {
    const auto n = static_cast<int64_t>(Encode(text, parse_special).size());
    EXPECT_TRUE(tokenizer_->CheckFits(tokenizer_->LeastBytes(text), n).ok())
        << text;
  };
  // Every token's own text, many times over: the densest that there is.
  for (int32_t id = 0; id < tokenizer_->vocab_size(); id += 7) {
    std::string text;
    for (int i = 0; i < 3; ++i)
      tokenizer_->AppendBytes(id, RenderSpecial::kYes, text);
    expect(text, true);
    expect(text, false);
  }
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (size_t n = random() % 64; n > 0; --n) {
      if (random() % 2 == 0) {
        text += static_cast<char>(random() % 256);
      } else {
        const auto id = static_cast<int32_t>(
            random() % static_cast<size_t>(tokenizer_->vocab_size()));
        tokenizer_->AppendBytes(id, RenderSpecial::kYes, text);
      }
    }
    expect(text, round % 2 == 0);
  }
  const auto span = static_cast<size_t>(tokenizer_->longest_span());
  EXPECT_TRUE(tokenizer_->CheckFits(8 * static_cast<int64_t>(span), 8).ok());
  EXPECT_EQ(tokenizer_->CheckFits(8 * static_cast<int64_t>(span) + 1, 8).code(),
            absl::StatusCode::kOutOfRange);
}

TEST_P(TokenizerModelTest, EncodingStopsWhenItIsTold) {
  for (const std::string unit : {"a", " ", "\n", "word ", "<|im_start|>"}) {
    std::string text;
    while (text.size() < size_t{1} << 20) text += unit;
    int n_asked = 0;
    const auto ids =
        tokenizer_->Encode(text, ParseSpecial::kYes, [&]() -> absl::Status {
          if (++n_asked < 3) return absl::OkStatus();
          return absl::CancelledError("enough");
        });
    EXPECT_EQ(ids.status().code(), absl::StatusCode::kCancelled) << unit;
    EXPECT_EQ(n_asked, 3) << unit;
  }
}

const ModelCase kSmolLm2 = {
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    "smollm2-135m.public.json",
    ChatFormat::kSmolLm2,
    {0, 2},
    {
        {"Hello world", {19556, 905}},
        {" Hello  world", {38699, 216, 905}},
        {"a\n\n\nb\tc", {81, 1116, 198, 82, 197, 83}},
        {"naïve café 😀 \u0378",
         {3546, 46494, 37366, 40303, 218, 216, 152, 133}},
        {"1234567", {33, 34, 35, 36, 37, 38, 39}},
        {"I'LL we'll DON'T don't",
         {57, 23, 16421, 392, 3060, 422, 2154, 23, 68, 1326, 982}},
        {"The capital of France is", {504, 3575, 282, 4649, 314}},
        {"<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"
         "<|im_start|>assistant",
         {1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520,
          9531},
         true},
    }};

const ModelCase kGemma3 = {
    "gemma-3-270m-q4_k_m.gguf",
    "gemma3-270m.public.json",
    ChatFormat::kGemma3,
    {1, 106},
    {
        {"Hello world", {9259, 1902}},
        {" Hello  world", {26352, 138, 12392}},
        {"a\n\n\nb\tc", {236746, 109, 236763, 255968, 236755}},
        {"naïve café 😀 \u0378",
         {1789, 238527, 560, 33443, 163543, 236743, 443, 422}},
        {"<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n",
         {105, 2364, 107, 10979, 106, 107, 105, 4368, 107},
         true},
        {"1234567", {236770, 236778, 236800, 236812, 236810, 236825, 236832}},
        {"</s> <b>x</b>", {212, 236743, 200, 236781, 209}},
        {"The capital of France is", {818, 5279, 529, 7001, 563}},
        {"Once upon a time,", {14946, 3324, 496, 990, 236764}},
    }};

INSTANTIATE_TEST_SUITE_P(Models, TokenizerModelTest,
                         ::testing::Values(kSmolLm2, kGemma3),
                         [](const auto& param) {
                           return std::string(param.index == 0 ? "SmolLm2"
                                                               : "Gemma3");
                         });

}  // namespace
}  // namespace plimsoll::worker
