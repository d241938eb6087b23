// Arbitrary bytes as the body of a request for text, in every dialect: an error
// that says why, or a job within the limits that a worker can read.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "plimsoll/v1/generation.pb.h"
#include "services/http/dialects/anthropic_request.h"
#include "services/http/dialects/ollama_request.h"
#include "services/http/dialects/openai_request.h"
#include "services/http/dialects/responses_input.h"
#include "services/http/dialects/responses_request.h"
#include "services/http/json.h"
#include "services/http/read_room.h"
#include "services/http/request_fields.h"
#include "services/http/response_store.h"
#include "services/http/text_job.h"
#include "services/server/byte_budget.h"

namespace plimsoll::services {
namespace {

void CheckRefusal(const absl::Status& status) {
  PLIMSOLL_CHECK(absl::IsInvalidArgument(status) && !status.message().empty(),
                 "a refusal says why");
}

// Workers read messages as they come by the wire, where a text must be UTF-8.
void CheckMessage(const google::protobuf::MessageLite& message,
                  google::protobuf::MessageLite& copy) {
  std::string bytes;
  PLIMSOLL_CHECK(
      message.SerializeToString(&bytes) && copy.ParseFromString(bytes),
      "a worker can read it");
}

void CheckJob(const absl::StatusOr<TextJob>& job) {
  if (!job.ok()) return CheckRefusal(job.status());
  PLIMSOLL_CHECK(!job->prompts.empty(), "there is a prompt");
  const size_t n_replies =
      job->prompts.size() * static_cast<size_t>(job->n_choices);
  PLIMSOLL_CHECK(n_replies <= static_cast<size_t>(kMaxChoices),
                 "replies are limited");
  for (const v1::StreamGenerateRequest& prompt : job->prompts) {
    v1::StreamGenerateRequest copy;
    CheckMessage(prompt, copy);
    PLIMSOLL_CHECK(
        copy.stopping().stop_strings_size() <= static_cast<int>(kMaxStops),
        "texts that end a reply are limited");
    PLIMSOLL_CHECK(copy.response().top_logprobs() <= kMaxTopLogprobs,
                   "candidates are limited");
    PLIMSOLL_CHECK(
        !copy.response().has_top_logprobs() || copy.response().token_bytes(),
        "tokens that are shown have their bytes");
  }
}

void CheckCount(const Json& body) {
  auto fields = JsonFields::Of(body);
  PLIMSOLL_CHECK(fields.ok(), "a body is an object");
  v1::StreamGenerateRequest request;
  const absl::Status status = ReadMessagesToCount(*fields, request);
  if (!status.ok()) return CheckRefusal(status);
  v1::StreamGenerateRequest copy;
  CheckMessage(request, copy);
}

// The items of a request for a response, whatever else it has.
void CheckItems(const Json& body) {
  const auto input = body.find("input");
  if (input == body.end()) return;
  v1::ChatPrompt chat;
  ItemReader reader(chat);
  const absl::Status status = reader.Read(*input, "input");
  if (!status.ok()) return CheckRefusal(status);
  v1::ChatPrompt copy;
  CheckMessage(chat, copy);
}

// A store that has one response of the tenant "t".
ResponseStore* NewStore() {
  auto* store = new ResponseStore;
  store->Keep("t", "resp_1",
              {.input = R"("hi")",
               .output = R"([{"type":"message","role":"assistant","content":)"
                         R"([{"type":"output_text","text":"a"}]}])",
               .rest = "{}"},
              nullptr);
  return store;
}

void CheckResponse(const Json& body) {
  static ResponseStore& store = *NewStore();
  ByteBudget budget(int64_t{64} << 20);
  ByteBudget::Share held = budget.Enter("peer");
  ReadRoom room{{store, "t"}, held};
  const absl::StatusOr<TextJob> job = ReadResponse(body, room);
  if (absl::IsNotFound(job.status())) return;
  CheckJob(job);
  if (!job.ok()) return;
  const ResponseDraft& draft = *job->response;
  PLIMSOLL_CHECK(job->held_bytes == static_cast<int64_t>(draft.echo.size() +
                                                         draft.input.size()),
                 "what is repeated is counted");
  PLIMSOLL_CHECK(ReadBody(draft.echo).ok(), "what is repeated is an object");
}

}  // namespace
}  // namespace plimsoll::services

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace services = plimsoll::services;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto body = services::ReadBody(text);
  if (!body.ok()) {
    services::CheckRefusal(body.status());
    return 0;
  }
  const auto again = services::ReadBody(services::Dump(*body));
  PLIMSOLL_CHECK(again.ok() && *again == *body, "what is written can be read");
  services::CheckJob(services::ReadChatCompletion(*body));
  services::CheckJob(services::ReadCompletion(*body));
  services::CheckJob(services::ReadMessages(*body));
  services::CheckJob(services::ReadOllamaChat(*body));
  services::CheckJob(services::ReadOllamaGenerate(*body));
  services::CheckCount(*body);
  services::CheckItems(*body);
  services::CheckResponse(*body);
  return 0;
}
