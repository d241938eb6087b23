#include "services/generation/token_bytes.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/generation/message_bytes.h"
#include "services/wire/generation_to_proto.h"
#include "services/wire/to_proto.h"
#include "tests/worker/text/tokenizer/gguf_fixture.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::worker::TokenType;

class TokenBytesTest : public ::testing::Test {
 protected:
  // The ids of a text.
  std::vector<int32_t> IdsOf(const std::string& text) const {
    return *tokenizer_->Encode(text, worker::ParseSpecial::kYes);
  }

  const std::string long_text_ = "<" + std::string(200, 'x') + ">";
  const std::unique_ptr<worker::Tokenizer> tokenizer_ =
      worker::ByteTokenizer({{long_text_, TokenType::kUserDefined},
                             {"<turn>", TokenType::kControl},
                             {"<eos>", TokenType::kControl}});
};

TEST_F(TokenBytesTest, TokensAndCandidatesHaveTheirBytes) {
  // "é" is two tokens of one byte each.
  const std::vector<int32_t> ids = IdsOf("\xc3\xa9<turn><eos>");
  ASSERT_EQ(ids.size(), 4u);
  v1::StreamGenerateResponse part;
  for (const int32_t id : ids) {
    v1::GeneratedToken& token = *part.add_tokens();
    token.set_id(ToUint32(id));
    token.add_candidates()->set_id(ToUint32(ids[1]));
  }
  AddTokenBytes(*tokenizer_, 1, *part.mutable_tokens());
  EXPECT_FALSE(part.tokens(0).has_text_bytes());
  EXPECT_FALSE(part.tokens(0).candidates(0).has_text_bytes());
  const std::vector<std::string> bytes = {"", "\xa9", "<turn>", "<eos>"};
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(part.tokens(i).text_bytes(), bytes[static_cast<size_t>(i)]);
    EXPECT_EQ(part.tokens(i).candidates(0).text_bytes(), "\xa9");
    EXPECT_EQ(part.tokens(i).is_end(), i == 3);
  }
}

// What they take is counted, on the wire and in memory.
TEST_F(TokenBytesTest, AStepIsCountedAsMoreThanItIs) {
  for (const std::string& text : {std::string("a"), long_text_}) {
    const int32_t id = IdsOf(text).at(0);
    worker::StepOutput output;
    for (int i = 0; i < 3; ++i) {
      worker::TokenOutput token = {
          .id = id, .has_logprob = true, .logprob = -1, .candidates = {}};
      for (int k = 0; k < 20; ++k) token.candidates.push_back({id, -2});
      output.tokens.push_back(std::move(token));
    }
    v1::GenerateResponse reply;
    AppendOutput(output, reply);
    AddTokenBytes(*tokenizer_, 0, *reply.mutable_tokens());
    const int64_t counted =
        WireBytes(output) + TokenWireBytes(*tokenizer_, output);
    const auto exact = static_cast<int64_t>(reply.ByteSizeLong());
    EXPECT_GE(counted, exact);
    EXPECT_GE(counted * kReplyPerByte,
              static_cast<int64_t>(reply.SpaceUsedLong()) + exact);
  }
}

}  // namespace
}  // namespace plimsoll::services
