#include "services/http/dialects/token_json.h"

#include <utility>

#include "worker/text/utf8.h"

namespace plimsoll::services {
namespace {

// A token, or a candidate for its place.
template <typename Token>
Json TokenToJson(const Token& token) {
  Json json;
  json["token"] = TokenText(token.text_bytes());
  json["logprob"] = token.logprob();
  json["bytes"] = Json::array();
  for (const char byte : token.text_bytes()) {
    json["bytes"].push_back(static_cast<unsigned char>(byte));
  }
  return json;
}

}  // namespace

std::vector<const v1::GeneratedToken*> TextTokens(
    const ReplyFormat::Delta& delta) {
  std::vector<const v1::GeneratedToken*> tokens;
  tokens.reserve(static_cast<size_t>(delta.tokens_size()));
  for (const v1::GeneratedToken& token : delta.tokens()) {
    if (!token.is_end()) tokens.push_back(&token);
  }
  return tokens;
}

std::string TokenText(absl::string_view bytes) {
  worker::Utf8Stream stream;
  std::string text = stream.Push(bytes);
  return text + stream.Finish();
}

Json LogprobsJson(const ReplyFormat::Delta& delta) {
  Json content = Json::array();
  for (const v1::GeneratedToken* token : TextTokens(delta)) {
    Json one = TokenToJson(*token);
    one["top_logprobs"] = Json::array();
    for (const v1::TokenCandidate& candidate : token->candidates()) {
      one["top_logprobs"].push_back(TokenToJson(candidate));
    }
    content.push_back(std::move(one));
  }
  return content;
}

}  // namespace plimsoll::services
