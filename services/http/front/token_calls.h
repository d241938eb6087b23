// Tokens without a reply: /tokenize and /detokenize, as vLLM and llama.cpp's
// server have them, and Anthropic's /v1/messages/count_tokens.
#ifndef PLIMSOLL_SERVICES_HTTP_FRONT_TOKEN_CALLS_H_
#define PLIMSOLL_SERVICES_HTTP_FRONT_TOKEN_CALLS_H_

#include <memory>

#include "services/http/http_message.h"
#include "services/http/text_call.h"

namespace plimsoll::services {

// Answers with the tokens of a text or of a conversation. A small request is
// answered at once, a large one on the pool.
void AnswerTokenize(const HttpRoom& room, HttpRequest request,
                    std::shared_ptr<HttpReply> reply);

// Answers with the text of tokens.
void AnswerDetokenize(const HttpRoom& room, HttpRequest request,
                      std::shared_ptr<HttpReply> reply);

// Answers with the number of tokens of a conversation.
void AnswerCountTokens(const HttpRoom& room, HttpRequest request,
                       std::shared_ptr<HttpReply> reply);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_FRONT_TOKEN_CALLS_H_
