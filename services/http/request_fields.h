// The fields that requests of several dialects have in the same form.
#ifndef PLIMSOLL_SERVICES_HTTP_REQUEST_FIELDS_H_
#define PLIMSOLL_SERVICES_HTTP_REQUEST_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "plimsoll/v1/generation.pb.h"
#include "services/http/json.h"
#include "services/http/text_job.h"

namespace plimsoll::services {

inline constexpr int64_t kMaxCount = std::numeric_limits<int32_t>::max();
// Texts that end a reply.
inline constexpr size_t kMaxStops = 16;
// Candidates for each token of a reply.
inline constexpr int64_t kMaxTopLogprobs = 20;
// The constraint "some JSON".
inline constexpr char kAnyObject[] =
    R"({"type":"object","additionalProperties":true})";

// Reads "temperature", "top_p" and "top_k".
// Errors of all: kInvalidArgument naming the field.
absl::Status ReadDraw(JsonFields& fields, v1::SamplingOptions& sampling);

// Reads "min_p", "typical_p", "presence_penalty" and "frequency_penalty".
absl::Status ReadFilters(JsonFields& fields, v1::SamplingOptions& sampling);

// Reads a divisor of the logits of tokens that came before. Each dialect has
// its own name for it.
absl::Status ReadRepetition(JsonFields& fields, const std::string& name,
                            v1::SamplingOptions& sampling);

// Reads "seed"; absent: a random one.
absl::Status ReadSeed(JsonFields& fields, v1::SamplingOptions& sampling);
// Errors: kInternal if the system gives no random numbers.
absl::Status SetRandomSeed(v1::SamplingOptions& sampling);

// Reads the texts that end a reply.
absl::Status ReadStops(JsonFields& fields, const std::string& name,
                       v1::StoppingOptions& stopping);

// Reads "logprobs", a flag, and "top_logprobs".
absl::Status ReadLogprobs(JsonFields& fields, v1::ResponseOptions& response);
// Asks for log-probabilities with `n_candidates` candidates for each token, and
// for the fields that replies need to show tokens.
void AskForLogprobs(int64_t n_candidates, v1::ResponseOptions& response);

// Reads "stream" into `job`, and returns the fields of "stream_options" if the
// request has it. The caller reads the fields of its API, and calls End.
absl::StatusOr<std::optional<JsonFields>> ReadStream(JsonFields& fields,
                                                     TextJob& job);

// Reads "schema_options", the options for reading the schema of `request`.
absl::Status ReadSchemaOptions(JsonFields& fields,
                               v1::StreamGenerateRequest& request);

// Reads a schema that a reply must follow, with its "name", "description",
// "strict" and "schema_options", from an object that has nothing else.
absl::Status ReadNamedSchema(JsonFields& fields,
                             v1::StreamGenerateRequest& request);

// Reads "chat_template_kwargs", the variables of a model's own template.
absl::Status ReadTemplateArguments(JsonFields& fields, v1::ChatPrompt& chat);
// Adds a variable of a model's own template to `chat`.
void AddTemplateArgument(const std::string& name, const Json& value,
                         v1::ChatPrompt& chat);

// Reads "reasoning", an object that limits a model's thinking: "effort", for
// its own template, and "max_tokens".
absl::Status ReadReasoning(JsonFields& fields,
                           v1::StreamGenerateRequest& request);

// Reads the most tokens of a model's thinking.
absl::Status ReadThoughtLimit(JsonFields& fields, const std::string& name,
                              v1::StoppingOptions& stopping);

// A tool's response as the JSON that models read: `text` itself if it is JSON,
// otherwise a JSON string of it.
std::string ToolResponse(const std::string& text);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_REQUEST_FIELDS_H_
