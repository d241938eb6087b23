// Tokens of replies as JSON, as several dialects have them.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_TOKEN_JSON_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_TOKEN_JSON_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "services/generation/served_model.h"
#include "services/http/json.h"
#include "services/http/text_job.h"

namespace plimsoll::services {

// The tokens of one model.
class TokenJson {
 public:
  explicit TokenJson(ServedModel model) : model_(std::move(model)) {}

  // The tokens of a part without the one that ended the reply, which is no
  // text.
  std::vector<const v1::GeneratedToken*> TextTokens(
      const ReplyFormat::Part& part) const;
  // The text of one token; bytes that are no whole character become U+FFFD.
  std::string TextOf(uint32_t id) const;
  // [{"token", "logprob", "bytes", "top_logprobs"}] for the tokens of a part.
  Json Logprobs(const ReplyFormat::Part& part) const;

 private:
  std::string BytesOf(uint32_t id) const;
  Json Candidate(uint32_t id, float logprob) const;

  const ServedModel model_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_TOKEN_JSON_H_
