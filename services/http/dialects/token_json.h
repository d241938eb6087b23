// Tokens of replies as JSON, in the form of several dialects. The tokens always
// have their bytes, because requests of these dialects ask for them.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_TOKEN_JSON_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_TOKEN_JSON_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/http/json.h"
#include "services/http/text_job.h"

namespace plimsoll::services {

// Returns pointers to the tokens of a delta, without end tokens, which are no
// text.
std::vector<const v1::GeneratedToken*> TextTokens(
    const ReplyFormat::Delta& delta);
// The text of one token's bytes; incomplete characters become U+FFFD.
std::string TokenText(absl::string_view bytes);
// [{"token", "logprob", "bytes", "top_logprobs"}] for the tokens of a delta.
Json LogprobsJson(const ReplyFormat::Delta& delta);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_TOKEN_JSON_H_
