#include "services/generation/token_bytes.h"

#include <string>

namespace plimsoll::services {
namespace {

// Beside the bytes themselves: their tag, their length and the growth of the
// length of the message that has them.
constexpr int64_t kCandidateFrame = 4;
// Beside the bytes of a generated token there is also the flag of an end token.
constexpr int64_t kTokenFrame = 8;

void AppendBytesOf(const worker::Tokenizer& tokenizer, uint32_t id,
                   std::string& bytes) {
  tokenizer.AppendBytes(static_cast<int32_t>(id), worker::RenderSpecial::kYes,
                        bytes);
}

}  // namespace

int64_t TokenWireBytes(const worker::Tokenizer& tokenizer,
                       const worker::StepOutput& output) {
  std::string all;
  int64_t frames = 0;
  for (const worker::TokenOutput& token : output.tokens) {
    tokenizer.AppendBytes(token.id, worker::RenderSpecial::kYes, all);
    for (const worker::Candidate& candidate : token.candidates) {
      tokenizer.AppendBytes(candidate.id, worker::RenderSpecial::kYes, all);
    }
    frames += kTokenFrame +
              kCandidateFrame * static_cast<int64_t>(token.candidates.size());
  }
  return frames + static_cast<int64_t>(all.size());
}

void AddTokenBytes(
    const worker::Tokenizer& tokenizer, int first,
    google::protobuf::RepeatedPtrField<v1::GeneratedToken>& tokens) {
  for (int i = first; i < tokens.size(); ++i) {
    v1::GeneratedToken& token = tokens[i];
    AppendBytesOf(tokenizer, token.id(), *token.mutable_text_bytes());
    token.set_is_end(tokenizer.IsEnd(static_cast<int32_t>(token.id())));
    for (v1::TokenCandidate& candidate : *token.mutable_candidates()) {
      AppendBytesOf(tokenizer, candidate.id(), *candidate.mutable_text_bytes());
    }
  }
}

}  // namespace plimsoll::services
