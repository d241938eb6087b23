#include "services/http/dialects/token_json.h"

#include "worker/text/utf8.h"

namespace plimsoll::services {

std::vector<const v1::GeneratedToken*> TokenJson::TextTokens(
    const ReplyFormat::Part& part) const {
  const worker::Tokenizer& tokenizer = model_.engine->tokenizer();
  std::vector<const v1::GeneratedToken*> tokens;
  for (const v1::GeneratedToken& token : part.tokens()) {
    if (!tokenizer.IsEnd(static_cast<int32_t>(token.id()))) {
      tokens.push_back(&token);
    }
  }
  return tokens;
}

std::string TokenJson::BytesOf(uint32_t id) const {
  std::string bytes;
  model_.engine->tokenizer().AppendBytes(static_cast<int32_t>(id),
                                         /*render_special=*/true, bytes);
  return bytes;
}

std::string TokenJson::TextOf(uint32_t id) const {
  worker::Utf8Stream stream;
  std::string text = stream.Push(BytesOf(id));
  return text + stream.Finish();
}

Json TokenJson::Candidate(uint32_t id, float logprob) const {
  const std::string bytes = BytesOf(id);
  Json json;
  json["token"] = TextOf(id);
  json["logprob"] = logprob;
  json["bytes"] = Json::array();
  for (const char byte : bytes) {
    json["bytes"].push_back(static_cast<unsigned char>(byte));
  }
  return json;
}

Json TokenJson::Logprobs(const ReplyFormat::Part& part) const {
  Json content = Json::array();
  for (const v1::GeneratedToken* token : TextTokens(part)) {
    Json one = Candidate(token->id(), token->logprob());
    one["top_logprobs"] = Json::array();
    for (const v1::TokenCandidate& candidate : token->candidates()) {
      one["top_logprobs"].push_back(
          Candidate(candidate.id(), candidate.logprob()));
    }
    content.push_back(std::move(one));
  }
  return content;
}

}  // namespace plimsoll::services
