// Reads the requests of OpenAI's responses. docs/http.md has the table of their
// parameters.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_RESPONSES_REQUEST_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_RESPONSES_REQUEST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "services/http/json.h"
#include "services/http/read_room.h"
#include "services/http/response_store.h"
#include "services/http/text_job.h"

namespace plimsoll::services {

// The most bytes of JSON of the turns that a request continues. With this limit
// the budget of messages has room for reading them beside a body.
inline constexpr int64_t kMaxTurnBytes = 1 << 20;
// Names in "include".
inline constexpr size_t kMaxIncluded = 16;

// The parts of a request, beside the prompt, that its response needs.
struct ResponseDraft {
  ResponseShelf shelf;    // the place to keep the response
  bool is_kept = true;    // "store"
  std::string echo = "";  // the fields that the response repeats, a JSON object
  std::string input = "";  // "input" as JSON
  StoredTurn::Ptr previous = nullptr;
};

// The body of POST /v1/responses.
// Errors: kInvalidArgument naming the parameter, also if it is unknown;
// kNotFound if there is no response of previous_response_id; kResourceExhausted
// if `room` cannot hold the turns.
absl::StatusOr<TextJob> ReadResponse(const Json& body, ReadRoom& room);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_RESPONSES_REQUEST_H_
