// A request for text by HTTP that models of this process answer.
#ifndef PLIMSOLL_SERVICES_HTTP_LOCAL_LOCAL_TEXT_CALL_H_
#define PLIMSOLL_SERVICES_HTTP_LOCAL_LOCAL_TEXT_CALL_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "services/generation/generation.h"
#include "services/http/text_call.h"
#include "services/worker/models/model_registry.h"

namespace plimsoll::services {

// Each choice is a sequence of an engine.
class LocalTextCall final : public TextCall {
 public:
  // `registry` outlives it.
  LocalTextCall(ModelRegistry& registry, const HttpRoom& room,
                const TextDialect& dialect, HttpExchange exchange);
  ~LocalTextCall() override;

 private:
  class Sequence;

  // Runs Submit once the model is loaded.
  absl::Status Begin() override;
  // Carries out a job that IsUnload.
  absl::Status Unload();
  // Turns the prompts into tokens and submits a sequence for each choice.
  absl::Status Submit();
  absl::Status AddChoices(const ServedModel& model,
                          v1::StreamGenerateRequest& request);

  ModelRegistry& registry_;
  ServedModel model_;                    // from its load until Submit
  std::vector<ByteBudget::Share> held_;  // one for each prompt, until the end
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_LOCAL_LOCAL_TEXT_CALL_H_
